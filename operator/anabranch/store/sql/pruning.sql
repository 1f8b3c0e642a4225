-- name: standings(line, below, limit)
-- Generations below one that nobody stands on, oldest first, each with the time at which the next one was made: null if
-- that is not remembered any more.
SELECT m.generation, next.created_at AS replaced_at
FROM line_heads AS h
JOIN manifests AS m ON m.line = :line AND m.generation < :below
LEFT JOIN LATERAL (
    SELECT n.created_at FROM manifests AS n WHERE n.line = :line AND n.generation = m.generation + 1
    UNION ALL
    SELECT p.created_at FROM pruned_manifests AS p WHERE p.line = :line AND p.generation = m.generation + 1
    LIMIT 1
) AS next ON true
WHERE h.line = :line
  AND m.generation NOT IN (h.head_generation, h.current_generation, h.previous_generation,
                           coalesce(h.pinned_generation, 0))
  AND NOT EXISTS (SELECT FROM branches AS b WHERE b.line = :line AND b.held_generation = m.generation)
ORDER BY m.generation
LIMIT :limit;

-- name: lock(line, generations)
-- Manifests that are about to go. One that a fork, a pin or a restore takes hold of just now is left for another time.
SELECT generation FROM manifests
WHERE line = :line AND generation = ANY(:generations::bigint[])
ORDER BY generation
FOR UPDATE SKIP LOCKED;

-- name: drop(line, generations)
-- Remove locked manifests on which nobody stands, and note what they were called.
WITH gone AS (
    DELETE FROM manifests AS m
    WHERE m.line = :line AND m.generation = ANY(:generations::bigint[])
      AND NOT EXISTS (SELECT FROM branches AS b WHERE b.line = :line AND b.held_generation = m.generation)
      AND NOT EXISTS (SELECT FROM line_heads AS h
                      WHERE h.line = :line
                        AND m.generation IN (h.head_generation, h.current_generation, h.previous_generation,
                                             coalesce(h.pinned_generation, 0)))
    RETURNING m.line, m.generation, m.baseline_id, m.manifest_hash, m.revision, m.created_at
)
INSERT INTO pruned_manifests (line, generation, baseline_id, manifest_hash, revision, created_at)
SELECT line, generation, baseline_id, manifest_hash, revision, created_at FROM gone
RETURNING generation;

-- name: shown(line, generation, newest)$
-- Whether a generation is, or was, among so many of the newest manifests: those that status lists.
SELECT count(*) < :newest FROM (
    SELECT FROM manifests WHERE line = :line AND generation > :generation LIMIT :newest
) AS newer;

-- name: unswept(line)
-- Removed generations whose rows are still there, and of each gap that they lie in the generation that ends it.
SELECT next.generation AS through, min(p.generation) AS after, array_agg(p.generation) AS generations
FROM pruned_manifests AS p
CROSS JOIN LATERAL (
    SELECT m.generation FROM manifests AS m
    WHERE m.line = :line AND m.generation > p.generation
    ORDER BY m.generation LIMIT 1
) AS next
WHERE p.line = :line AND NOT p.swept
GROUP BY next.generation
ORDER BY next.generation;

-- name: sweep_versions(line, after, through)$
-- Remove the versions that no manifest shows and that ended in a range of generations; how many.
--
-- They are found by their successors. A version ends where the next one of its key begins, so those which begin in the
-- range have the ones that ended in it before them. Of the first import the hash of what it said stays.
WITH kept AS MATERIALIZED (
    SELECT range_agg(int8range(m.generation, m.generation + 1)) AS generations FROM manifests AS m WHERE m.line = :line
), gone AS (
    DELETE FROM record_versions
    WHERE ctid = ANY(ARRAY(
        SELECT before.ctid
        FROM kept
        CROSS JOIN record_versions AS s
        CROSS JOIN LATERAL (
            SELECT r.ctid, r.from_generation, r.to_generation FROM record_versions AS r
            WHERE r.line = :line AND r.key = s.key AND r.from_generation < s.from_generation
            ORDER BY r.from_generation DESC
            LIMIT 1
        ) AS before
        WHERE s.line = :line AND s.from_generation > :after AND s.from_generation <= :through
          AND NOT kept.generations && int8range(before.from_generation, before.to_generation)
    ))
    RETURNING line, key, from_generation, revision, scope, content_hash, fact_hash, tombstone
), base AS (
    INSERT INTO import_base (line, key, scope, content_hash, revision)
    SELECT line, key, scope, content_hash, revision FROM gone WHERE from_generation = 1 AND NOT tombstone
    ON CONFLICT DO NOTHING
), released AS (
    INSERT INTO released_hashes (line, hash)
    SELECT line, content_hash FROM gone UNION SELECT line, fact_hash FROM gone
    ON CONFLICT (line, hash) DO UPDATE SET hash = excluded.hash
)
SELECT count(*) FROM gone;

-- name: sweep_tombstones(line)$
-- Remove tombstones that were purged and that no manifest shows any more, which have no successor; how many.
WITH kept AS MATERIALIZED (
    SELECT range_agg(int8range(m.generation, m.generation + 1)) AS generations FROM manifests AS m WHERE m.line = :line
), gone AS (
    DELETE FROM record_versions
    WHERE ctid = ANY(ARRAY(
        SELECT r.ctid
        FROM kept
        CROSS JOIN record_versions AS r
        WHERE r.line = :line AND r.tombstone AND r.to_generation < 9223372036854775807
          AND NOT kept.generations && int8range(r.from_generation, r.to_generation)
    ))
    RETURNING line, content_hash, fact_hash
), released AS (
    INSERT INTO released_hashes (line, hash)
    SELECT line, content_hash FROM gone UNION SELECT line, fact_hash FROM gone
    ON CONFLICT (line, hash) DO UPDATE SET hash = excluded.hash
)
SELECT count(*) FROM gone;

-- name: sweep_nodes(line, path, generation, limit)^
-- Look at some nodes of the trie after a place, remove those that no manifest shows, and tell the last one looked at.
WITH kept AS MATERIALIZED (
    SELECT range_agg(int8range(m.generation, m.generation + 1)) AS generations FROM manifests AS m WHERE m.line = :line
), page AS MATERIALIZED (
    SELECT t.ctid, t.path, t.from_generation, t.to_generation FROM trie_nodes AS t
    WHERE t.line = :line AND (t.path, t.from_generation) > (:path, :generation)
    ORDER BY t.path, t.from_generation
    LIMIT :limit
), gone AS (
    DELETE FROM trie_nodes
    WHERE ctid = ANY(ARRAY(
        SELECT page.ctid FROM page, kept
        WHERE page.to_generation < 9223372036854775807
          AND NOT kept.generations && int8range(page.from_generation, page.to_generation)
    ))
    RETURNING line
)
SELECT last.path, last.from_generation, (SELECT count(*) FROM gone) AS removed
FROM page AS last
ORDER BY last.path DESC, last.from_generation DESC
LIMIT 1;

-- name: swept(line, generations)!
-- Note that nothing is left of removed generations.
UPDATE pruned_manifests SET swept = true WHERE line = :line AND generation = ANY(:generations::bigint[]);

-- name: take_released(line, limit)
-- Take some hashes that a removed row had.
DELETE FROM released_hashes
WHERE ctid = ANY(ARRAY(
    SELECT r.ctid FROM released_hashes AS r WHERE r.line = :line LIMIT :limit FOR UPDATE SKIP LOCKED
))
RETURNING hash;

-- name: lock_contents(line, hashes)
-- Contents that may be unused. One that somebody stores again just now is left alone.
SELECT content_hash FROM contents
WHERE line = :line AND content_hash = ANY(:hashes::bytea[])
ORDER BY content_hash
FOR UPDATE SKIP LOCKED;

-- name: lock_facts(line, hashes)
-- Provenance that may be unused, likewise.
SELECT fact_hash FROM facts
WHERE line = :line AND fact_hash = ANY(:hashes::bytea[])
ORDER BY fact_hash
FOR UPDATE SKIP LOCKED;

-- name: drop_contents(line, hashes)!
-- Remove locked contents that no version and no candidate has.
DELETE FROM contents AS c
WHERE c.line = :line AND c.content_hash = ANY(:hashes::bytea[])
  AND NOT EXISTS (SELECT FROM record_versions AS r WHERE r.line = :line AND r.content_hash = c.content_hash)
  AND NOT EXISTS (SELECT FROM candidates AS d WHERE d.line = :line AND d.content_hash = c.content_hash);

-- name: drop_facts(line, hashes)!
-- Remove locked provenance that no version has.
DELETE FROM facts AS f
WHERE f.line = :line AND f.fact_hash = ANY(:hashes::bytea[])
  AND NOT EXISTS (SELECT FROM record_versions AS r WHERE r.line = :line AND r.fact_hash = f.fact_hash);

-- name: forget(line, before, limit)!
-- Forget what removed manifests of long ago were called, oldest first.
DELETE FROM pruned_manifests
WHERE ctid = ANY(ARRAY(
    SELECT p.ctid FROM pruned_manifests AS p
    WHERE p.line = :line AND p.swept AND p.created_at < :before
    ORDER BY p.generation
    LIMIT :limit
));
