-- name: due(namespaces, exclude, limit)
-- Resources of any line that have been kept long enough after the end, in some namespaces or (none named) in all, the
-- longest due first. What could still go on has not ended: a denied run and a failed job, until retention has removed
-- their data. A Branch stays while something that its run found is undecided, for its jobs' resources go with it; and
-- whatever it is, until its status has told the end.
(SELECT 'Branch' AS kind, b.namespace, b.name, b.uid, b.branch_id AS id, b.observed_generation, b.ttl_seconds,
        statement_timestamp() AS now
 FROM branches AS b
 WHERE b.finished_at IS NOT NULL AND b.ttl_seconds IS NOT NULL AND b.deleted_at IS NULL
   AND timezone('UTC', b.finished_at) + make_interval(secs => b.ttl_seconds) <= timezone('UTC', statement_timestamp())
   AND b.version = b.projected AND (b.phase IN ('Completed', 'Expired') OR b.kept <> 'whole')
   AND (cardinality(:namespaces::text[]) = 0 OR b.namespace = ANY(:namespaces::text[]))
   AND b.branch_id <> ALL(:exclude::text[])
   AND NOT EXISTS (SELECT FROM jobs AS j
                   WHERE j.line = b.line AND j.branch_id = b.branch_id
                     AND (j.finished_at IS NULL OR (j.failed AND j.kept = 'whole')
                          OR j.finished_at + make_interval(secs => b.ttl_seconds) > statement_timestamp()))
   -- As retention asks: a batch that could still go into a job counts, one behind a gap that nobody fills does not.
   AND NOT EXISTS (
       SELECT FROM (SELECT t.sequence FROM batches AS t
                    WHERE t.line = b.line AND t.branch_id = b.branch_id AND t.job_id IS NULL
                    ORDER BY t.sequence LIMIT 1) AS first
       WHERE first.sequence = 1
          OR EXISTS (SELECT FROM batches AS p
                     WHERE p.line = b.line AND p.branch_id = b.branch_id AND p.sequence = first.sequence - 1))
 ORDER BY timezone('UTC', b.finished_at) + make_interval(secs => b.ttl_seconds)
 LIMIT :limit)
UNION ALL
(SELECT 'ConsolidationJob', j.namespace, j.name, j.uid, j.job_id, j.observed_generation, j.ttl_seconds,
        statement_timestamp()
 FROM jobs AS j
 WHERE j.finished_at IS NOT NULL AND j.ttl_seconds IS NOT NULL AND j.deleted_at IS NULL
   AND timezone('UTC', j.finished_at) + make_interval(secs => j.ttl_seconds) <= timezone('UTC', statement_timestamp())
   AND j.uid IS NOT NULL AND j.version = j.projected AND NOT (j.failed AND j.kept = 'whole')
   AND (cardinality(:namespaces::text[]) = 0 OR j.namespace = ANY(:namespaces::text[]))
   AND j.job_id <> ALL(:exclude::text[])
 ORDER BY timezone('UTC', j.finished_at) + make_interval(secs => j.ttl_seconds)
 LIMIT :limit);
