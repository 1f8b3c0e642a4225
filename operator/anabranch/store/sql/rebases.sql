-- name: lock(line, branch_id)^
-- A branch that is about to be moved to another parent. Receipts are not kept waiting.
SELECT parent_generation, phase, observed_generation
FROM branches
WHERE line = :line AND branch_id = :branch_id
FOR NO KEY UPDATE;

-- name: note(line, branch_id, to_generation, conflicts)!
-- Note what a run stood on until now.
INSERT INTO rebases (line, branch_id, ordinal, from_generation, from_baseline_id, from_manifest_hash, to_generation,
                     conflicts)
SELECT b.line, b.branch_id,
       1 + (SELECT count(*) FROM rebases AS r WHERE r.line = :line AND r.branch_id = :branch_id),
       b.parent_generation, b.parent_baseline_id, b.parent_manifest_hash, :to_generation::bigint, :conflicts::bigint
FROM branches AS b
WHERE b.line = :line AND b.branch_id = :branch_id;

-- name: move(line, branch_id, generation, baseline_id, manifest_hash, observed_generation)!
-- Let a run stand on another manifest.
UPDATE branches
SET parent_generation = :generation, parent_baseline_id = :baseline_id, parent_manifest_hash = :manifest_hash,
    forked_generation = coalesce(forked_generation, parent_generation), observed_generation = :observed_generation,
    version = version + 1
WHERE line = :line AND branch_id = :branch_id;

-- name: advance(line, branch_id, generation, scopes)!
-- Private records that say what a manifest says are based on it from now on: nothing is left to be settled.
WITH same AS MATERIALIZED (
    SELECT p.key, p.content_hash, v.revision
    FROM private_records AS p
    CROSS JOIN LATERAL (
        SELECT * FROM record_versions AS r
        WHERE r.line = :line AND r.key = p.key AND r.from_generation <= :generation
        ORDER BY r.from_generation DESC
        LIMIT 1
    ) AS v
    WHERE p.line = :line AND p.branch_id = :branch_id AND p.body IS NOT NULL
      AND (p.expires_at IS NULL OR p.expires_at > now())
      AND v.to_generation > :generation AND v.scope = ANY(:scopes::text[]) AND NOT v.tombstone
      AND v.content_hash = p.content_hash AND v.revision <> p.base_revision
)
UPDATE private_records AS p SET base_revision = same.revision
FROM same
WHERE p.line = :line AND p.branch_id = :branch_id AND p.key = same.key AND p.content_hash = same.content_hash;

-- name: conflicts(line, branch_id, generation, scopes, after, limit)
-- Private records that are based on another revision than a manifest shows, and say something else; by key, after one.
SELECT p.key, p.scope, p.revision, p.content_hash, p.base_revision,
       v.revision AS target_revision, v.scope AS target_scope, v.content_hash AS target_content_hash,
       v.fact_hash AS target_fact_hash, v.tombstone AS target_tombstone
FROM private_records AS p
LEFT JOIN LATERAL (
    SELECT * FROM record_versions AS r
    WHERE r.line = :line AND r.key = p.key AND r.from_generation <= :generation
    ORDER BY r.from_generation DESC
    LIMIT 1
) AS v ON v.to_generation > :generation AND v.scope = ANY(:scopes::text[])
WHERE p.line = :line AND p.branch_id = :branch_id AND p.body IS NOT NULL
  AND (p.expires_at IS NULL OR p.expires_at > now()) AND p.key > :after
  AND p.base_revision <> coalesce(v.revision, 0)
  AND (v.tombstone OR v.content_hash IS DISTINCT FROM p.content_hash)
ORDER BY p.key
LIMIT :limit;

-- name: count(line, branch_id, generation, scopes)$
-- How many private records a manifest contradicts so.
SELECT count(*)
FROM private_records AS p
LEFT JOIN LATERAL (
    SELECT * FROM record_versions AS r
    WHERE r.line = :line AND r.key = p.key AND r.from_generation <= :generation
    ORDER BY r.from_generation DESC
    LIMIT 1
) AS v ON v.to_generation > :generation AND v.scope = ANY(:scopes::text[])
WHERE p.line = :line AND p.branch_id = :branch_id AND p.body IS NOT NULL
  AND (p.expires_at IS NULL OR p.expires_at > now())
  AND p.base_revision <> coalesce(v.revision, 0)
  AND (v.tombstone OR v.content_hash IS DISTINCT FROM p.content_hash);

-- name: lineage(line, branch_id, limit)
-- What a run stood on before, newest first.
SELECT ordinal, from_generation, from_baseline_id, from_manifest_hash, to_generation, conflicts, at
FROM rebases
WHERE line = :line AND branch_id = :branch_id
ORDER BY ordinal DESC
LIMIT :limit;
