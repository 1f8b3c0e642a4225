-- name: read(line, generation, key, scopes)^
-- One record at a generation (null: current), with the manifest resolved in the same snapshot.
SELECT m.generation, coalesce(:generation::bigint, h.current_generation) AS wanted_generation, h.head_generation,
       v.key, v.revision, v.scope, v.content_hash, v.fact_hash, v.tombstone,
       (SELECT c.body FROM contents AS c WHERE c.line = :line AND c.content_hash = v.content_hash) AS body,
       (SELECT f.body FROM facts AS f WHERE f.line = :line AND f.fact_hash = v.fact_hash) AS fact_body
FROM line_heads AS h
LEFT JOIN manifests AS m ON m.line = h.line AND m.generation = coalesce(:generation::bigint, h.current_generation)
LEFT JOIN LATERAL (
    SELECT * FROM record_versions AS r
    WHERE r.line = :line AND r.key = :key AND r.from_generation <= m.generation
    ORDER BY r.from_generation DESC
    LIMIT 1
) AS v ON v.to_generation > m.generation AND (:scopes::text[] IS NULL OR v.scope = ANY(:scopes::text[]))
WHERE h.line = :line;

-- name: read_each(lines, generations, scopes, keys, numbers)
-- Some records, as `read` gives them, each at one of some places: a line, a generation, the scopes to be seen.
--
-- A place is looked up once, however many records are wanted there. No row: there is no such line, or its resource was
-- deleted. Scopes come as array literals, since the arrays of an array would all have to be of one length.
WITH place AS MATERIALIZED (
    SELECT p.number, p.scopes::text[] AS scopes, h.line, m.generation,
           coalesce(p.generation, h.current_generation) AS wanted_generation, h.head_generation
    FROM unnest(:lines::text[], :generations::bigint[], :scopes::text[])
         WITH ORDINALITY AS p (line, generation, scopes, number)
    JOIN lines AS l ON l.line = p.line AND l.deleted_at IS NULL AND l.condemned_at IS NULL
    JOIN line_heads AS h ON h.line = p.line
    LEFT JOIN manifests AS m ON m.line = p.line AND m.generation = coalesce(p.generation, h.current_generation)
)
SELECT wanted.place, p.generation, p.wanted_generation, p.head_generation,
       v.key, v.revision, v.scope, v.content_hash, v.fact_hash, v.tombstone,
       (SELECT c.body FROM contents AS c WHERE c.line = p.line AND c.content_hash = v.content_hash) AS body,
       (SELECT f.body FROM facts AS f WHERE f.line = p.line AND f.fact_hash = v.fact_hash) AS fact_body
FROM unnest(:keys::text[], :numbers::integer[]) WITH ORDINALITY AS wanted (key, number, place)
JOIN place AS p ON p.number = wanted.number
LEFT JOIN LATERAL (
    SELECT * FROM record_versions AS r
    WHERE r.line = p.line AND r.key = wanted.key AND r.from_generation <= p.generation
    ORDER BY r.from_generation DESC
    LIMIT 1
) AS v ON v.to_generation > p.generation AND (p.scopes IS NULL OR v.scope = ANY(p.scopes));

-- name: page(line, generation, after_key, from_key, below_key, scopes, tombstones, limit, bytes)
-- Records at a generation (null: current) in the order of their keys; one row of nulls if the manifest has none of them.
--
-- They end early, with the one with which their bodies come to so many bytes (null: they do not). How long a body is,
-- is told without reading it.
SELECT *
FROM (
    SELECT *, count(*) OVER () AS listed,
           sum(coalesce(octet_length(body), 0) + coalesce(octet_length(fact_body), 0))
           OVER (ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (
        SELECT m.generation, coalesce(:generation::bigint, h.current_generation) AS wanted_generation,
               h.head_generation, v.key, v.revision, v.scope, v.content_hash, v.fact_hash, v.tombstone,
               (SELECT c.body FROM contents AS c WHERE c.line = :line AND c.content_hash = v.content_hash) AS body,
               (SELECT f.body FROM facts AS f WHERE f.line = :line AND f.fact_hash = v.fact_hash) AS fact_body
        FROM line_heads AS h
        LEFT JOIN manifests AS m
            ON m.line = h.line AND m.generation = coalesce(:generation::bigint, h.current_generation)
        LEFT JOIN LATERAL (
            SELECT * FROM record_versions AS r
            WHERE r.line = :line
              AND r.key > :after_key AND r.key >= :from_key AND r.key < :below_key
              AND r.from_generation <= m.generation AND r.to_generation > m.generation
              AND (:scopes::text[] IS NULL OR r.scope = ANY(:scopes::text[]))
              AND (:tombstones::boolean OR NOT r.tombstone)
            ORDER BY r.key
            LIMIT :limit
        ) AS v ON true
        WHERE h.line = :line
        ORDER BY v.key
    ) AS shown
) AS page
WHERE :bytes::bigint IS NULL OR coalesce(before, 0) < :bytes
ORDER BY key;

-- name: current_of(line, generation, keys, bodies)
-- Some records at a generation, tombstones included, with their bodies or without.
SELECT m.generation, :generation::bigint AS wanted_generation, h.head_generation,
       v.key, v.revision, v.scope, v.content_hash, v.fact_hash, v.tombstone,
       (SELECT c.body FROM contents AS c
        WHERE :bodies::boolean AND c.line = :line AND c.content_hash = v.content_hash) AS body,
       (SELECT f.body FROM facts AS f
        WHERE :bodies::boolean AND f.line = :line AND f.fact_hash = v.fact_hash) AS fact_body
FROM line_heads AS h
LEFT JOIN manifests AS m ON m.line = h.line AND m.generation = :generation
LEFT JOIN LATERAL (
    SELECT newest.*
    FROM unnest(:keys::text[]) AS wanted (key)
    CROSS JOIN LATERAL (
        SELECT * FROM record_versions AS r
        WHERE r.line = :line AND r.key = wanted.key AND r.from_generation <= m.generation
        ORDER BY r.from_generation DESC
        LIMIT 1
    ) AS newest
    WHERE newest.to_generation > m.generation
) AS v ON true
WHERE h.line = :line;

-- name: at_revision(line, key, revision)^
-- The version of a key that a revision wrote, if a retained generation shows it.
SELECT v.key, v.revision, v.scope, v.content_hash, v.fact_hash, v.tombstone, NULL::bytea AS body, NULL::bytea AS fact_body
FROM record_versions AS v
WHERE v.line = :line AND v.key = :key AND v.revision = :revision
  AND EXISTS (SELECT FROM manifests AS m
              WHERE m.line = :line AND m.generation >= v.from_generation AND m.generation < v.to_generation);

-- name: facts(line, hashes)
-- Provenance by its hash.
SELECT fact_hash, body FROM facts WHERE line = :line AND fact_hash = ANY(:hashes::bytea[]);

-- name: count(line, generation, scopes)^
-- How many live records of some scopes a generation has.
SELECT m.generation, :generation::bigint AS wanted_generation, h.head_generation, counted.records
FROM line_heads AS h
LEFT JOIN manifests AS m ON m.line = h.line AND m.generation = :generation
LEFT JOIN LATERAL (
    SELECT count(*) AS records FROM record_versions AS r
    WHERE r.line = :line AND r.from_generation <= m.generation AND r.to_generation > m.generation
      AND NOT r.tombstone AND (:scopes::text[] IS NULL OR r.scope = ANY(:scopes::text[]))
) AS counted ON true
WHERE h.line = :line;
