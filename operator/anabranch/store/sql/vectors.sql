-- name: claim(model, lease)^
-- Take a segment of any line that has no vectors of a model, and that nobody is making them for.
INSERT INTO search_vectors AS v (line, segment, model, claimed_until)
SELECT s.line, s.segment, :model, now() + :lease::interval FROM search_segments AS s
JOIN lines AS l ON l.line = s.line
LEFT JOIN search_vectors AS o ON o.line = s.line AND o.segment = s.segment
WHERE l.condemned_at IS NULL
  AND (o.segment IS NULL OR (o.claimed_until < now() AND (o.signs IS NULL OR o.model <> :model)))
ORDER BY o.claimed_until NULLS FIRST
LIMIT 1
FOR NO KEY UPDATE OF s SKIP LOCKED
ON CONFLICT (line, segment) DO UPDATE
    SET model = excluded.model, claimed_until = excluded.claimed_until, signs = NULL, codes = NULL
    WHERE v.claimed_until < now()
RETURNING v.line, v.segment;

-- name: documents(line, segment)
-- The documents of a segment, in their order; those that retention has removed without a content.
SELECT d.key, r.content_hash,
       coalesce((SELECT octet_length(c.body) FROM contents AS c
                 WHERE c.line = :line AND c.content_hash = r.content_hash), 0) AS size
FROM search_documents AS d
LEFT JOIN record_versions AS r ON r.line = :line AND r.key = d.key AND r.from_generation = d.from_generation
WHERE d.line = :line AND d.segment = :segment
ORDER BY d.document;

-- name: renew(line, segment, model, lease)$
-- Go on making the vectors of a segment; nothing: it is gone, or somebody makes those of another model.
UPDATE search_vectors SET claimed_until = now() + :lease::interval
WHERE line = :line AND segment = :segment AND model = :model
RETURNING true;

-- name: put(line, segment, model, signs, codes)!
-- Keep the vectors of a segment, if it is still there.
UPDATE search_vectors SET signs = :signs, codes = :codes, claimed_until = now()
WHERE line = :line AND segment = :segment AND model = :model;

-- name: segments(line, scopes, model)
-- The segments of some scopes, and whether they have vectors of a model.
SELECT s.segment, s.documents,
       EXISTS (SELECT FROM search_vectors AS v
               WHERE v.line = :line AND v.segment = s.segment AND v.model = :model AND v.signs IS NOT NULL) AS embedded
FROM search_segments AS s
WHERE s.line = :line AND s.scope = ANY(:scopes::text[])
ORDER BY s.segment;

-- name: signs(line, segments)
-- The signs of the vectors of some segments.
SELECT v.segment, v.signs FROM search_vectors AS v
WHERE v.line = :line AND v.segment = ANY(:segments::integer[]) AND v.signs IS NOT NULL;

-- name: codes(line, model, segments, documents, dimensions)
-- The vectors of some documents, in the order in which they are named; nothing for one that has none.
SELECT (SELECT substr(v.codes, wanted.document * :dimensions::integer + 1, :dimensions) FROM search_vectors AS v
        WHERE v.line = :line AND v.segment = wanted.segment AND v.model = :model) AS code
FROM unnest(:segments::integer[], :documents::integer[]) WITH ORDINALITY AS wanted (segment, document, place)
ORDER BY wanted.place;

-- name: shown(line, generation, scopes, branch_id, segments, documents, large, without, limit)
-- What a generation shows of some documents, in the order in which they are named; what a branch has a private record of,
-- and some keys, left out. As with `searching.rank` the planner has no choice.
WITH best AS (
    SELECT w.segment, w.document, v.*
    FROM (SELECT * FROM unnest(:segments::integer[], :documents::integer[]) WITH ORDINALITY
              AS named (segment, document, place) ORDER BY place OFFSET 0) AS w
    CROSS JOIN LATERAL (
        SELECT d.key, d.from_generation FROM search_documents AS d
        WHERE d.line = :line AND d.segment = w.segment AND d.document = w.document
        OFFSET 0
    ) AS d
    CROSS JOIN LATERAL (
        SELECT r.key, r.revision, r.scope, r.content_hash, r.fact_hash FROM record_versions AS r
        WHERE r.line = :line AND r.key = d.key AND r.from_generation = d.from_generation
          AND r.from_generation <= :generation AND r.to_generation > :generation AND r.scope = ANY(:scopes::text[])
        OFFSET 0
    ) AS v
    WHERE (SELECT o.revision FROM private_records AS o
           WHERE o.line = :line AND o.branch_id = :branch_id AND o.key = d.key AND o.body IS NOT NULL
             AND (o.expires_at IS NULL OR o.expires_at > now())) IS NULL
      AND d.key <> ALL(:without::text[])
    LIMIT :limit
)
SELECT b.key, b.revision, b.scope, b.content_hash, b.segment, b.document,
       (SELECT CASE WHEN octet_length(c.body) <= :large THEN c.body END FROM contents AS c
        WHERE c.line = :line AND c.content_hash = b.content_hash) AS body,
       (SELECT f.body FROM facts AS f WHERE f.line = :line AND f.fact_hash = b.fact_hash) AS fact_body
FROM best AS b;
