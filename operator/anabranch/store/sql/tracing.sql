-- name: versions(line, key, scopes, limit)
-- The versions of a key that a manifest shows, the newest first, with their provenance and what made their first manifest.
SELECT r.revision, r.from_generation, r.to_generation, r.scope, r.content_hash, r.fact_hash, r.tombstone, f.body AS fact_body,
       (SELECT m.origin FROM manifests AS m WHERE m.line = :line AND m.generation = r.from_generation) AS origin
FROM record_versions AS r
LEFT JOIN facts AS f ON f.line = :line AND f.fact_hash = r.fact_hash
WHERE r.line = :line AND r.key = :key AND r.scope = ANY(:scopes::text[])
  AND EXISTS (SELECT FROM manifests AS m
              WHERE m.line = :line AND m.generation >= r.from_generation AND m.generation < r.to_generation)
ORDER BY r.from_generation DESC
LIMIT :limit;

-- name: states(line, keys, revisions)
-- Whether some versions are there, and show in the newest generation, with their provenance.
SELECT r.key, r.revision, r.to_generation = 9223372036854775807 AND NOT r.tombstone AS current, f.body AS fact_body
FROM unnest(:keys::text[], :revisions::bigint[]) AS w (key, revision)
JOIN record_versions AS r ON r.line = :line AND r.key = w.key AND r.revision = w.revision
LEFT JOIN facts AS f ON f.line = :line AND f.fact_hash = r.fact_hash;

-- name: candidates(line, key, generations, limit)
-- What was published of a key in some generations, and what waits for it, by the jobs that have it.
SELECT c.*, j.name AS job_name, j.state AS job_state
FROM (
    SELECT c.* FROM publications AS p
    JOIN candidates AS c ON c.line = :line AND c.job_id = p.job_id AND c.key = :key AND c.state = 'published'
    WHERE p.line = :line AND p.generation = ANY(:generations::bigint[])
    UNION ALL
    SELECT c.* FROM candidates AS c WHERE c.line = :line AND c.key = :key AND c.state = 'waiting'
) AS c
JOIN jobs AS j ON j.line = :line AND j.job_id = c.job_id AND j.kept = 'whole'
ORDER BY c.candidate_id DESC
LIMIT :limit;

-- name: citing(line, locators, limit)
-- Candidates that cite one of some records, the newest first.
SELECT c.*, j.name AS job_name, j.state AS job_state
FROM candidates AS c
JOIN jobs AS j ON j.line = :line AND j.job_id = c.job_id AND j.kept = 'whole'
WHERE c.line = :line AND c.cited IS NOT NULL AND c.cited && :locators::text[]
ORDER BY c.candidate_id DESC
LIMIT :limit;

-- name: witnesses(line, from_generations, to_generations, limit)
-- The runs that their peers may know of whose parent shows one of some versions, or that have taken one over since.
--
-- A version lies on the way of a run that began below it, and has come to the end of the publication that brought it.
SELECT * FROM (
    SELECT b.branch_id, b.agent_id,
           CASE WHEN b.phase = 'Completed' THEN 'completed'
                WHEN p.lease_deadline IS NULL THEN 'unknown'
                WHEN p.lease_deadline > now() THEN 'active'
                ELSE 'stale' END AS state,
           EXISTS (SELECT FROM unnest(:from_generations::bigint[], :to_generations::bigint[]) AS v (first, ended)
                   WHERE (b.parent_generation >= v.first AND b.parent_generation < v.ended)
                      OR (b.forked_generation >= v.first AND b.forked_generation < v.ended)
                      OR EXISTS (SELECT FROM rebases AS r
                                 WHERE r.line = :line AND r.branch_id = b.branch_id
                                   AND r.from_generation >= v.first AND r.from_generation < v.ended)) AS forked,
           EXISTS (SELECT FROM unnest(:from_generations::bigint[]) AS v (first)
                   LEFT JOIN manifests AS m ON m.line = :line AND m.generation = v.first
                   WHERE coalesce(b.forked_generation, b.parent_generation) < v.first
                     AND (f.generation >= v.first OR f.sequence >= m.feed_watermark)) AS applied
    FROM branches AS b
    LEFT JOIN presence AS p ON p.line = :line AND p.branch_id = b.branch_id
    LEFT JOIN followers AS f ON f.line = :line AND f.branch_id = b.branch_id
    WHERE b.line = :line AND b.deleted_at IS NULL AND b.kept = 'whole'
      AND b.phase IN ('Active', 'Stale', 'Completed')
) AS seen
WHERE seen.forked OR seen.applied
ORDER BY seen.branch_id
LIMIT :limit;
