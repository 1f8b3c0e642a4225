-- name: be_patient()!
-- In this transaction one statement may look at thousands of records.
SELECT set_config('statement_timeout', '10min', true);

-- name: next()$
-- The line of those with generations that were not looked at whose last turn is the longest ago.
SELECT h.line FROM line_heads AS h
JOIN lines AS l ON l.line = h.line
LEFT JOIN derivation_progress AS p ON p.line = h.line
WHERE h.head_generation > coalesce(p.through, 0) AND l.condemned_at IS NULL
ORDER BY coalesce(p.turn_at, '-infinity')
LIMIT 1;

-- name: enrol(line)!
-- Begin with a line, unless that was done.
INSERT INTO derivation_progress (line) VALUES (:line) ON CONFLICT DO NOTHING;

-- name: take(line)^
-- How far a line is, and the right to go on until the transaction ends; whoever has it is waited for.
SELECT p.line, p.through, p.target, p.walked_key, p.walked_generation, h.head_generation
FROM derivation_progress AS p
JOIN line_heads AS h ON h.line = p.line
JOIN lines AS l ON l.line = p.line
WHERE p.line = :line AND l.condemned_at IS NULL
FOR NO KEY UPDATE OF p;

-- name: known(line)^
-- How far a line is, and how far there is to go.
SELECT coalesce(p.through, 0) AS through, h.head_generation
FROM line_heads AS h
LEFT JOIN derivation_progress AS p ON p.line = h.line
WHERE h.line = :line;

-- name: advance(line, through, target, walked_key, walked_generation)!
-- Note how far a line is.
UPDATE derivation_progress
SET through = :through, target = :target, walked_key = :walked_key, walked_generation = :walked_generation,
    turn_at = clock_timestamp()
WHERE line = :line;

-- name: put_off(line)!
-- Let the other lines come first.
INSERT INTO derivation_progress AS p (line, turn_at) VALUES (:line, clock_timestamp())
ON CONFLICT (line) DO UPDATE SET turn_at = excluded.turn_at;

-- name: lag(line, after, through, limit)$
-- How many versions began after a generation and not after another one; not counted beyond a limit.
SELECT count(*) FROM (
    SELECT FROM record_versions AS r
    WHERE r.line = :line AND r.from_generation > :after AND r.from_generation <= :through
    LIMIT :limit
) AS late;

-- name: add_begun(line, after, through)!
-- Keep what the versions cite that began after a generation and not after another one.
INSERT INTO derivations (line, source_key, source_revision, key, revision, scope, source_hash)
SELECT :line, c.key, c.revision, r.key, r.revision, r.scope,
       (SELECT s.content_hash FROM record_versions AS s
        WHERE s.line = :line AND s.key = c.key AND s.revision = c.revision LIMIT 1)
FROM record_versions AS r
JOIN facts AS f ON f.line = :line AND f.fact_hash = r.fact_hash
CROSS JOIN LATERAL cited_records(f.body) AS c
WHERE r.line = :line AND r.from_generation > :after AND r.from_generation <= :through AND NOT r.tombstone
ON CONFLICT DO NOTHING;

-- name: add_walked(line, after, through, key, generation, limit)^
-- Likewise, of some of them in the order of their keys, behind a place; gives the last one, and how many there were.
WITH page AS MATERIALIZED (
    SELECT r.key, r.from_generation, r.revision, r.scope, r.fact_hash, r.tombstone FROM record_versions AS r
    WHERE r.line = :line AND (r.key, r.from_generation) > (:key, :generation)
      AND r.from_generation > :after AND r.from_generation <= :through
    ORDER BY r.key, r.from_generation
    LIMIT :limit
), added AS (
    INSERT INTO derivations (line, source_key, source_revision, key, revision, scope, source_hash)
    SELECT :line, c.key, c.revision, page.key, page.revision, page.scope,
           (SELECT s.content_hash FROM record_versions AS s
            WHERE s.line = :line AND s.key = c.key AND s.revision = c.revision LIMIT 1)
    FROM page
    JOIN facts AS f ON f.line = :line AND f.fact_hash = page.fact_hash
    CROSS JOIN LATERAL cited_records(f.body) AS c
    WHERE NOT page.tombstone
    ON CONFLICT DO NOTHING
)
SELECT last.key, last.from_generation, (SELECT count(*) FROM page) AS seen
FROM page AS last
ORDER BY last.key DESC, last.from_generation DESC
LIMIT 1;

-- name: downstream(line, key, content_hash, scopes, after, limit)
-- All that was derived from what a key says, over any number of steps: each step once, in no order.
--
-- What the cited version said is not known where it was not there: of an import that cites its own past, or of one that
-- was pruned before anybody looked. Then it counts. Versions that began after a generation are looked at here.
WITH RECURSIVE late AS MATERIALIZED (
    SELECT c.key AS source_key, c.revision AS source_revision, r.key, r.revision, r.scope,
           (SELECT s.content_hash FROM record_versions AS s
            WHERE s.line = :line AND s.key = c.key AND s.revision = c.revision LIMIT 1) AS source_hash
    FROM record_versions AS r
    JOIN facts AS f ON f.line = :line AND f.fact_hash = r.fact_hash
    CROSS JOIN LATERAL cited_records(f.body) AS c
    WHERE r.line = :line AND r.from_generation > :after AND NOT r.tombstone
), steps AS (
    SELECT d.source_key, d.source_revision, d.key, d.revision, d.scope
    FROM (
        SELECT d.source_key, d.source_revision, d.key, d.revision, d.scope, d.source_hash FROM derivations AS d
        WHERE d.line = :line AND d.source_key = :key
        UNION ALL
        SELECT l.source_key, l.source_revision, l.key, l.revision, l.scope, l.source_hash FROM late AS l
        WHERE l.source_key = :key
    ) AS d
    WHERE coalesce(d.source_hash = :content_hash, true) AND (:scopes::text[] IS NULL OR d.scope = ANY(:scopes::text[]))
    UNION
    SELECT next.source_key, next.source_revision, next.key, next.revision, next.scope
    FROM steps AS s
    CROSS JOIN LATERAL (
        SELECT d.source_key, d.source_revision, d.key, d.revision, d.scope FROM derivations AS d
        WHERE d.line = :line AND d.source_key = s.key AND (d.source_revision = s.revision OR d.source_hash IS NULL)
        UNION ALL
        SELECT l.source_key, l.source_revision, l.key, l.revision, l.scope FROM late AS l
        WHERE l.source_key = s.key AND (l.source_revision = s.revision OR l.source_hash IS NULL)
    ) AS next
    WHERE :scopes::text[] IS NULL OR next.scope = ANY(:scopes::text[])
)
SELECT source_key, source_revision, key, revision, scope FROM steps LIMIT :limit;

-- name: retracted(line, keys, revisions)
-- Those of some versions whose key was withdrawn of what they say, or of what they were derived from over any number of
-- steps. What a version said that is not there any more counts, too.
WITH RECURSIVE origins AS (
    SELECT w.key COLLATE "C" AS asked_key, w.revision AS asked_revision, w.key COLLATE "C" AS key, w.revision,
           (SELECT s.content_hash FROM record_versions AS s
            WHERE s.line = :line AND s.key = w.key AND s.revision = w.revision LIMIT 1) AS content_hash
    FROM unnest(:keys::text[], :revisions::bigint[]) AS w (key, revision)
    UNION
    SELECT o.asked_key, o.asked_revision, d.source_key, d.source_revision, d.source_hash
    FROM origins AS o
    JOIN derivations AS d ON d.line = :line AND d.key = o.key AND d.revision = o.revision
)
SELECT DISTINCT o.asked_key AS key, o.asked_revision AS revision
FROM origins AS o
JOIN retractions AS t ON t.line = :line AND t.key = o.key AND t.state = 'published'
WHERE coalesce(o.content_hash = t.content_hash, true);

-- name: sweep(line, source_key, source_revision, key, revision, limit)^
-- Look at some derivations after a place, remove those of versions that are gone and that nothing cites, and tell the last
-- one looked at.
WITH page AS MATERIALIZED (
    SELECT d.ctid, d.source_key, d.source_revision, d.key, d.revision FROM derivations AS d
    WHERE d.line = :line
      AND (d.source_key, d.source_revision, d.key, d.revision) > (:source_key, :source_revision, :key, :revision)
    ORDER BY d.source_key, d.source_revision, d.key, d.revision
    LIMIT :limit
), gone AS (
    DELETE FROM derivations
    WHERE ctid = ANY(ARRAY(
        SELECT page.ctid FROM page
        WHERE NOT EXISTS (SELECT FROM record_versions AS r
                          WHERE r.line = :line AND r.key = page.key AND r.revision = page.revision)
          AND NOT EXISTS (SELECT FROM derivations AS d
                          WHERE d.line = :line AND d.source_key = page.key AND d.source_revision = page.revision)
          AND NOT EXISTS (SELECT FROM candidates AS c
                          WHERE c.line = :line AND c.cited IS NOT NULL
                            AND c.cited @> ARRAY['record:' || page.key || '@' || page.revision])
    ))
)
SELECT last.source_key, last.source_revision, last.key, last.revision
FROM page AS last
ORDER BY last.source_key DESC, last.source_revision DESC, last.key DESC, last.revision DESC
LIMIT 1;
