-- name: get(line, generation)^
-- One manifest.
SELECT * FROM manifests WHERE line = :line AND generation = :generation;

-- name: by_baseline_id(line, baseline_id)^
-- One manifest by its own id.
SELECT * FROM manifests WHERE line = :line AND baseline_id = :baseline_id;

-- name: at(line, ref, generation)^
-- A manifest by generation, or the one that the head calls current or head; the head comes along in any case.
SELECT h.head_generation, wanted.generation AS wanted_generation, m.*
FROM line_heads AS h
CROSS JOIN LATERAL (
    SELECT CASE :ref::text
        WHEN 'current' THEN h.current_generation
        WHEN 'head' THEN h.head_generation
        ELSE :generation::bigint
    END AS generation
) AS wanted
LEFT JOIN manifests AS m ON m.line = h.line AND m.generation = wanted.generation
WHERE h.line = :line;

-- name: standing(line, generation)$
-- The id of a retained manifest, if the line has its Baseline.
SELECT m.baseline_id
FROM lines AS l
JOIN manifests AS m ON m.line = l.line AND m.generation = :generation
WHERE l.line = :line AND l.deleted_at IS NULL AND l.condemned_at IS NULL;

-- name: has(line, baseline_ids)$
-- Whether all of some manifests are here.
SELECT count(*) = cardinality(:baseline_ids::text[]) FROM manifests
WHERE line = :line AND baseline_id = ANY(:baseline_ids::text[]);

-- name: page(line, before, limit)
-- Manifests older than one, newest first.
SELECT * FROM manifests WHERE line = :line AND generation < :before ORDER BY generation DESC LIMIT :limit;

-- name: named(line, generation)^
-- What a manifest is or was called: one that was pruned too, as long as that is remembered.
SELECT generation, baseline_id, manifest_hash, revision FROM manifests
WHERE line = :line AND generation = :generation
UNION ALL
SELECT generation, baseline_id, manifest_hash, revision FROM pruned_manifests
WHERE line = :line AND generation = :generation
LIMIT 1;

-- name: pruned(line, baseline_id)$
-- The generation of a manifest that was pruned.
SELECT generation FROM pruned_manifests WHERE line = :line AND baseline_id = :baseline_id;

-- name: hold(line, generation)^
-- One manifest, kept from being pruned until the transaction ends.
SELECT * FROM manifests WHERE line = :line AND generation = :generation FOR KEY SHARE;
