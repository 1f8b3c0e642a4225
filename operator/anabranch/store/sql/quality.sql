-- name: be_patient()!
-- In this transaction one statement may read every record of a line.
SELECT set_config('statement_timeout', '10min', true), set_config('idle_in_transaction_session_timeout', '10min', true);

-- name: next(every)$
-- The line of those with generations that are not counted whose last turn is the longest ago, and as long as that (or to
-- come: the clock was set back). One that never had a turn has the head's age.
SELECT h.line FROM line_heads AS h
JOIN lines AS l ON l.line = h.line
LEFT JOIN quality_progress AS p ON p.line = h.line
CROSS JOIN LATERAL (
    SELECT coalesce(p.turn_at, (SELECT m.created_at FROM manifests AS m
                                WHERE m.line = h.line AND m.generation = h.head_generation)) AS at
) AS turn
WHERE h.head_generation > coalesce(p.through, 0) AND l.condemned_at IS NULL
  AND (turn.at <= statement_timestamp() - :every::interval OR turn.at > statement_timestamp())
ORDER BY turn.at
LIMIT 1;

-- name: begun(line)$
-- Whether a line is counted, or has nothing to be counted.
SELECT h.head_generation = 0 OR EXISTS (SELECT FROM quality_progress AS p WHERE p.line = :line)
FROM line_heads AS h WHERE h.line = :line;

-- name: enrol(line)!
-- Begin to count a line, unless it is counted.
INSERT INTO quality_progress (line) VALUES (:line) ON CONFLICT DO NOTHING;

-- name: take(line)^
-- How far a line is counted, which nobody else counts until the transaction ends; no row: somebody does.
SELECT p.line, p.since, p.through, h.head_generation,
       (SELECT m.records FROM manifests AS m WHERE m.line = :line AND m.generation = h.head_generation) AS head_records
FROM quality_progress AS p
JOIN line_heads AS h ON h.line = p.line
JOIN lines AS l ON l.line = p.line
WHERE p.line = :line AND l.condemned_at IS NULL
FOR NO KEY UPDATE OF p SKIP LOCKED;

-- name: put_off(line)!
-- Let the other lines come first.
INSERT INTO quality_progress AS p (line, turn_at) VALUES (:line, clock_timestamp())
ON CONFLICT (line) DO UPDATE SET turn_at = excluded.turn_at;

-- name: advance(line, since, through)!
-- Note how far a line is counted.
UPDATE quality_progress SET since = :since, through = :through, turn_at = clock_timestamp() WHERE line = :line;

-- name: much(line, after, through, limit)$
-- Whether generations have brought more than so many versions.
SELECT count(*) > :limit FROM (
    SELECT FROM record_versions AS r
    WHERE r.line = :line AND r.from_generation > :after AND r.from_generation <= :through
    LIMIT :limit + 1
) AS versions;

-- name: changed(line, after, through)
-- What generations have brought, and what they have put an end to: live records by scope and provenance.
SELECT v.generation, v.scope, v.fact_hash, sum(v.records)::bigint AS records
FROM (
    SELECT r.from_generation AS generation, r.scope, r.fact_hash, 1 AS records
    FROM record_versions AS r
    WHERE r.line = :line AND r.from_generation > :after AND r.from_generation <= :through AND NOT r.tombstone
    UNION ALL
    SELECT r.from_generation, before.scope, before.fact_hash, -1
    FROM record_versions AS r
    CROSS JOIN LATERAL (
        SELECT p.scope, p.fact_hash, p.tombstone, p.to_generation FROM record_versions AS p
        WHERE p.line = :line AND p.key = r.key AND p.from_generation < r.from_generation
        ORDER BY p.from_generation DESC
        LIMIT 1
    ) AS before
    WHERE r.line = :line AND r.from_generation > :after AND r.from_generation <= :through
      AND before.to_generation = r.from_generation AND NOT before.tombstone
) AS v
GROUP BY v.generation, v.scope, v.fact_hash
HAVING sum(v.records) <> 0
ORDER BY v.generation;

-- name: live(line, generation)
-- What a generation shows: live records by scope and provenance.
SELECT r.scope, r.fact_hash, count(*) AS records
FROM record_versions AS r
WHERE r.line = :line AND r.from_generation <= :generation AND r.to_generation > :generation AND NOT r.tombstone
GROUP BY r.scope, r.fact_hash;

-- name: counts(line, generation)
-- What is counted of a generation, by scope.
SELECT DISTINCT ON (q.scope) q.scope, q.records, q.sourced, q.verified, q.undated, q.weeks
FROM quality_counts AS q
WHERE q.line = :line AND q.generation <= :generation
ORDER BY q.scope, q.generation DESC;

-- name: write(line, scopes, generations, records, sourced, verified, undated, weeks)!
-- Note what generations have in scopes.
INSERT INTO quality_counts (line, scope, generation, records, sourced, verified, undated, weeks)
SELECT :line, c.scope, c.generation, c.records, c.sourced, c.verified, c.undated, c.weeks::jsonb
FROM unnest(:scopes::text[], :generations::bigint[], :records::bigint[], :sourced::bigint[], :verified::bigint[],
            :undated::bigint[], :weeks::text[])
    AS c (scope, generation, records, sourced, verified, undated, weeks);

-- name: forget_all(line)!
-- Forget what was counted of a line.
DELETE FROM quality_counts WHERE line = :line;

-- name: forget(line)!
-- Forget what no retained generation has any more.
DELETE FROM quality_counts AS q
WHERE q.line = :line AND EXISTS (
    SELECT FROM quality_counts AS newer
    WHERE newer.line = :line AND newer.scope = q.scope AND newer.generation > q.generation
      AND newer.generation <= (SELECT min(m.generation) FROM manifests AS m WHERE m.line = :line)
);

-- name: told(line, generation)^
-- Whether a generation is counted, and what of a line belongs to no generation.
SELECT coalesce(:generation BETWEEN p.since AND p.through AND p.since > 0, false) AS counted, l.duplicates,
       coalesce((l.policy -> 'review' ->> 'requireSources')::boolean, true) AS sources_required
FROM lines AS l
LEFT JOIN quality_progress AS p ON p.line = l.line
WHERE l.line = :line;

-- name: conflicts(line)
-- Findings that contradict a record and wait for a reviewer, by scope.
SELECT c.scope, count(*) AS conflicts
FROM candidates AS c
WHERE c.line = :line AND c.state = 'waiting' AND c.conflicting
GROUP BY c.scope;

-- name: totals(line, before, limit)
-- Retained generations before one that are counted, newest first, with what all scopes have together.
SELECT m.generation, m.created_at, counted.*
FROM quality_progress AS p
JOIN manifests AS m ON m.line = :line AND m.generation BETWEEN p.since AND p.through AND m.generation < :before
CROSS JOIN LATERAL (
    SELECT sum(newest.records)::bigint AS records, sum(newest.sourced)::bigint AS sourced,
           sum(newest.verified)::bigint AS verified
    FROM (
        SELECT DISTINCT ON (q.scope) q.records, q.sourced, q.verified FROM quality_counts AS q
        WHERE q.line = :line AND q.generation <= m.generation
        ORDER BY q.scope, q.generation DESC
    ) AS newest
) AS counted
WHERE p.line = :line
ORDER BY m.generation DESC
LIMIT :limit;
