-- name: absent_baselines(uids, before, namespaces)
-- Baselines that Postgres has, of lines older than a moment, and that a list has not; with how many there are in all.
WITH known AS MATERIALIZED (
    SELECT namespace, name, uid FROM lines
    WHERE deleted_at IS NULL AND created_at < :before
      AND (cardinality(:namespaces::text[]) = 0 OR namespace = ANY(:namespaces::text[]))
    UNION
    SELECT namespace, name, uid FROM waiting
    WHERE kind = 'Baseline' AND (cardinality(:namespaces::text[]) = 0 OR namespace = ANY(:namespaces::text[]))
)
SELECT known.*, (SELECT count(*) FROM known) AS known
FROM known
LEFT JOIN unnest(:uids::text[]) AS seen (uid) ON seen.uid = known.uid
WHERE seen.uid IS NULL;

-- name: absent_branches(uids, before, namespaces)
-- Branches that Postgres has, older than a moment, and that a list has not; with how many there are in all.
WITH known AS MATERIALIZED (
    SELECT namespace, name, uid FROM branches
    WHERE deleted_at IS NULL AND created_at < :before
      AND (cardinality(:namespaces::text[]) = 0 OR namespace = ANY(:namespaces::text[]))
    UNION
    SELECT namespace, name, uid FROM waiting
    WHERE kind = 'Branch' AND (cardinality(:namespaces::text[]) = 0 OR namespace = ANY(:namespaces::text[]))
)
SELECT known.*, (SELECT count(*) FROM known) AS known
FROM known
LEFT JOIN unnest(:uids::text[]) AS seen (uid) ON seen.uid = known.uid
WHERE seen.uid IS NULL;

-- name: absent_jobs(uids, before, namespaces)
-- ConsolidationJobs that Postgres has, older than a moment, and that a list has not; with how many there are in all.
WITH known AS MATERIALIZED (
    SELECT namespace, name, uid FROM jobs
    WHERE deleted_at IS NULL AND uid IS NOT NULL AND created_at < :before
      AND (cardinality(:namespaces::text[]) = 0 OR namespace = ANY(:namespaces::text[]))
    UNION
    SELECT namespace, name, uid FROM waiting
    WHERE kind = 'ConsolidationJob' AND (cardinality(:namespaces::text[]) = 0 OR namespace = ANY(:namespaces::text[]))
)
SELECT known.*, (SELECT count(*) FROM known) AS known
FROM known
LEFT JOIN unnest(:uids::text[]) AS seen (uid) ON seen.uid = known.uid
WHERE seen.uid IS NULL;

-- name: take_back_branch(namespace, name, uid)!
-- A Branch that was believed to be deleted is there. If retention has removed its parent or its data, its run has ended.
UPDATE branches AS b
SET deleted_at = NULL, version = b.version + 1,
    phase = CASE WHEN ended.so THEN 'Expired' ELSE b.phase END,
    finished_at = CASE WHEN ended.so THEN coalesce(b.finished_at, now()) ELSE b.finished_at END
FROM (
    SELECT w.line, w.branch_id,
           w.phase IN ('Active', 'Stale')
           AND (w.kept <> 'whole'
                OR NOT EXISTS (SELECT FROM manifests AS m
                               WHERE m.line = w.line AND m.generation = w.parent_generation)) AS so
    FROM branches AS w
    WHERE w.namespace = :namespace AND w.name = :name AND w.uid = :uid AND w.deleted_at IS NOT NULL
) AS ended
WHERE b.line = ended.line AND b.branch_id = ended.branch_id;

-- name: rewind_baseline(namespace, name, uid, generation)!
-- Forget that a newer spec of this very Baseline was seen than there is.
UPDATE lines SET observed_generation = 0, version = version + 1
WHERE namespace = :namespace AND name = :name AND uid = :uid AND observed_generation > :generation;

-- name: rewind_branch(namespace, name, uid, generation)!
-- Forget that a newer spec of this very Branch was seen than there is.
UPDATE branches SET observed_generation = 0, version = version + 1
WHERE namespace = :namespace AND name = :name AND uid = :uid AND observed_generation > :generation;

-- name: rewind_job(namespace, name, uid, generation)!
-- Forget that a newer spec of this very ConsolidationJob was seen than there is.
UPDATE jobs SET observed_generation = 0, version = version + 1
WHERE namespace = :namespace AND name = :name AND uid = :uid AND observed_generation > :generation;

-- name: unchanged_branches(lines, ids, uids, generations)
-- Which of these Branches are in Postgres as the cluster has them, and wait for nothing.
SELECT b.uid
FROM unnest(:lines::text[], :ids::text[], :uids::text[], :generations::bigint[]) AS seen (line, id, uid, generation)
JOIN branches AS b ON b.line = seen.line AND b.branch_id = seen.id
WHERE b.uid = seen.uid AND b.observed_generation = seen.generation AND b.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM waiting AS w WHERE w.namespace = b.namespace AND w.kind = 'Branch' AND w.name = b.name);

-- name: unchanged_jobs(lines, ids, uids, generations)
-- Which of these ConsolidationJobs are in Postgres as the cluster has them, and wait for nothing.
SELECT j.uid
FROM unnest(:lines::text[], :ids::text[], :uids::text[], :generations::bigint[]) AS seen (line, id, uid, generation)
JOIN jobs AS j ON j.line = seen.line AND j.job_id = seen.id
WHERE j.uid = seen.uid AND j.observed_generation = seen.generation AND j.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM waiting AS w
                  WHERE w.namespace = j.namespace AND w.kind = 'ConsolidationJob' AND w.name = j.name);

-- name: held_branches(namespaces, names, uids)
-- The Branches that these resources stand for here.
SELECT b.uid, b.branch_id AS id
FROM unnest(:namespaces::text[], :names::text[], :uids::text[]) AS seen (namespace, name, uid)
JOIN branches AS b ON b.namespace = seen.namespace AND b.name = seen.name AND b.uid = seen.uid
WHERE b.deleted_at IS NULL;

-- name: held_jobs(namespaces, names, uids)
-- The ConsolidationJobs that these resources stand for here.
SELECT j.uid, j.job_id AS id
FROM unnest(:namespaces::text[], :names::text[], :uids::text[]) AS seen (namespace, name, uid)
JOIN jobs AS j ON j.namespace = seen.namespace AND j.name = seen.name AND j.uid = seen.uid
WHERE j.deleted_at IS NULL;

-- name: held_waits(kind, namespaces, names, uids)
-- Which of these resources wait here for something.
SELECT w.uid
FROM unnest(:namespaces::text[], :names::text[], :uids::text[]) AS seen (namespace, name, uid)
JOIN waiting AS w ON w.namespace = seen.namespace AND w.kind = :kind AND w.name = seen.name AND w.uid = seen.uid;
