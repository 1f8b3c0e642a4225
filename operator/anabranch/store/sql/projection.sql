-- name: dirty(limit, exclude)
-- Resources of any line whose status lags behind, at most so many of each kind, without those named at that version.
(SELECT 'Baseline' AS kind, namespace, name, uid, line, line AS id, version
 FROM lines
 WHERE version <> projected AND deleted_at IS NULL AND line || '@' || version <> ALL(:exclude::text[])
 ORDER BY line LIMIT :limit)
UNION ALL
(SELECT 'Branch', namespace, name, uid, line, branch_id, version
 FROM branches
 WHERE version <> projected AND deleted_at IS NULL AND branch_id || '@' || version <> ALL(:exclude::text[])
 ORDER BY line, branch_id LIMIT :limit)
UNION ALL
(SELECT 'ConsolidationJob', namespace, name, uid, line, job_id, version
 FROM jobs
 WHERE version <> projected AND deleted_at IS NULL AND uid IS NOT NULL AND job_id || '@' || version <> ALL(:exclude::text[])
 ORDER BY line, job_id LIMIT :limit)
UNION ALL
(SELECT kind, namespace, name, uid, NULL, NULL, version
 FROM waiting WHERE version <> projected ORDER BY namespace, kind, name LIMIT :limit);

-- name: mark_lines(lines, versions)!
-- Note up to which version statuses were written. One that is being changed just now is left: it will lag again.
WITH written AS MATERIALIZED (
    SELECT l.line, w.version
    FROM unnest(:lines::text[], :versions::bigint[]) AS w (line, version)
    JOIN lines AS l ON l.line = w.line AND l.projected < w.version
    FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE lines AS l SET projected = written.version
FROM written
WHERE l.line = written.line;

-- name: mark_branches(lines, branch_ids, versions)!
-- Note up to which version statuses were written. One that is being changed just now is left: it will lag again.
WITH written AS MATERIALIZED (
    SELECT b.line, b.branch_id, w.version
    FROM unnest(:lines::text[], :branch_ids::text[], :versions::bigint[]) AS w (line, branch_id, version)
    JOIN branches AS b ON b.line = w.line AND b.branch_id = w.branch_id AND b.projected < w.version
    FOR NO KEY UPDATE OF b SKIP LOCKED
)
UPDATE branches AS b SET projected = written.version
FROM written
WHERE b.line = written.line AND b.branch_id = written.branch_id;

-- name: mark_jobs(lines, job_ids, versions)!
-- Note up to which version statuses were written. One that is being changed just now is left: it will lag again.
WITH written AS MATERIALIZED (
    SELECT j.line, j.job_id, w.version
    FROM unnest(:lines::text[], :job_ids::text[], :versions::bigint[]) AS w (line, job_id, version)
    JOIN jobs AS j ON j.line = w.line AND j.job_id = w.job_id AND j.projected < w.version
    FOR NO KEY UPDATE OF j SKIP LOCKED
)
UPDATE jobs AS j SET projected = written.version
FROM written
WHERE j.line = written.line AND j.job_id = written.job_id;

-- name: mark_waiting(namespaces, kinds, names, uids, versions)!
-- Note up to which version statuses were written; another resource of the same name is not meant.
WITH written AS MATERIALIZED (
    SELECT w.namespace, w.kind, w.name, v.version
    FROM unnest(:namespaces::text[], :kinds::text[], :names::text[], :uids::text[], :versions::bigint[])
        AS v (namespace, kind, name, uid, version)
    JOIN waiting AS w ON w.namespace = v.namespace AND w.kind = v.kind AND w.name = v.name AND w.uid = v.uid
                     AND w.projected < v.version
    FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE waiting AS w SET projected = written.version
FROM written
WHERE w.namespace = written.namespace AND w.kind = written.kind AND w.name = written.name;

-- name: baseline_status(lines)
-- What the statuses of Baselines show.
SELECT l.*, h.*, current, previous, newest,
       ARRAY(SELECT m FROM manifests AS m WHERE m.line = l.line ORDER BY m.generation DESC LIMIT 5) AS history,
       (SELECT count(*) FROM batches AS b WHERE b.line = l.line AND b.job_id IS NULL)
       + (SELECT coalesce(sum(j.through_sequence - j.from_sequence + 1), 0)::bigint FROM jobs AS j
          WHERE j.line = l.line AND j.finished_at IS NULL AND j.origin = 'Branch' AND j.reason <> 'BatchesMissing')
       AS pending_batches,
       conflicts.open AS open_conflicts, conflicts.oldest_at AS oldest_conflict_at,
       quality.generation AS quality_generation, quality.records AS quality_records, quality.sourced AS quality_sourced,
       quality.verified AS quality_verified, gate.floor, gate.max_regression,
       answered.generation AS recall_generation, answered.digest AS recall_digest, answered.k AS recall_k,
       answered.tasks AS recall_tasks, answered.recall AS recall_recall, answered.recall_at_1 AS recall_recall_at_1,
       answered.mrr AS recall_mrr, answered.against AS recall_against, answered.change AS recall_change,
       answered.low AS recall_low, answered.high AS recall_high, answered.worse AS recall_worse,
       turn.target AS backup_target, turn.error AS backup_error,
       (SELECT b FROM backups AS b WHERE b.line = l.line ORDER BY b.taken_at DESC LIMIT 1) AS backup
FROM lines AS l
JOIN line_heads AS h ON h.line = l.line
LEFT JOIN manifests AS current ON current.line = l.line AND current.generation = h.current_generation
LEFT JOIN manifests AS previous ON previous.line = l.line AND previous.generation = h.previous_generation
LEFT JOIN manifests AS newest ON newest.line = l.line AND newest.generation = h.head_generation
CROSS JOIN LATERAL (
    SELECT count(*) AS open, min(j.created_at) AS oldest_at
    FROM candidates AS c
    JOIN jobs AS j ON j.line = l.line AND j.job_id = c.job_id
    WHERE c.line = l.line AND c.state = 'waiting' AND c.conflicting
) AS conflicts
LEFT JOIN LATERAL (
    SELECT p.generation, coalesce(sum(c.records), 0)::bigint AS records, coalesce(sum(c.sourced), 0)::bigint AS sourced,
           coalesce(sum(c.verified), 0)::bigint AS verified
    FROM (
        SELECT least(q.through, h.current_generation) AS generation FROM quality_progress AS q
        WHERE q.line = l.line AND q.since > 0 AND q.since <= h.current_generation
    ) AS p
    LEFT JOIN LATERAL (
        SELECT DISTINCT ON (q.scope) q.records, q.sourced, q.verified FROM quality_counts AS q
        WHERE q.line = l.line AND q.generation <= p.generation
        ORDER BY q.scope, q.generation DESC
    ) AS c ON true
    GROUP BY p.generation
) AS quality ON true
LEFT JOIN recall_gates AS gate ON gate.line = l.line
LEFT JOIN LATERAL (
    SELECT r.generation, r.digest, r.k, r.tasks, r.recall, r.recall_at_1, r.mrr, r.against, r.change, r.low, r.high, r.worse
    FROM recall_results AS r
    WHERE r.line = l.line AND r.generation <= h.current_generation AND r.digest = gate.digest AND r.k = gate.k
    ORDER BY r.generation DESC
    LIMIT 1
) AS answered ON true
LEFT JOIN backup_turns AS turn ON turn.line = l.line
WHERE l.line = ANY(:lines::text[]);

-- name: branch_status(lines, branch_ids, lineage)
-- What the statuses of Branches show.
SELECT b.line, b.branch_id, b.run_id, b.namespace, b.name, b.uid, b.observed_generation, b.agent_id, b.agent_instance,
       b.service_account, b.task, b.sharing_policy, b.parent_generation, b.phase, b.final_sequence, b.created_at,
       b.finished_at, b.deleted_at, b.kept, b.version, b.parent_baseline_id, b.parent_manifest_hash,
       b.follow, b.lease_seconds, coalesce(b.forked_generation, b.parent_generation) AS forked_generation,
       l.namespace AS baseline_namespace, l.name AS baseline_name,
       (WITH RECURSIVE walk (n) AS (
            SELECT coalesce((SELECT t.prefix FROM batches AS t
                             WHERE t.line = b.line AND t.branch_id = b.branch_id ORDER BY t.sequence DESC LIMIT 1), 0)
            UNION ALL
            SELECT walk.n + 1 FROM walk
            WHERE (SELECT true FROM batches AS t
                   WHERE t.line = b.line AND t.branch_id = b.branch_id AND t.sequence = walk.n + 1)
        ) SELECT greatest(max(n), CASE WHEN b.kept <> 'whole' THEN b.final_sequence END) FROM walk) AS contiguous_through,
       CASE WHEN p.noted IS NOT NULL THEN p.lease_deadline END AS lease_deadline,
       f.shown_cursor AS feed_cursor, f.shown_lag AS feed_lag,
       ARRAY(SELECT r FROM rebases AS r WHERE r.line = b.line AND r.branch_id = b.branch_id
             ORDER BY r.ordinal DESC LIMIT :lineage) AS lineage,
       w.condition, w.reason, w.message, w.observed_generation AS waiting_generation
FROM branches AS b
JOIN lines AS l ON l.line = b.line
LEFT JOIN waiting AS w ON w.namespace = b.namespace AND w.kind = 'Branch' AND w.name = b.name AND w.uid = b.uid
LEFT JOIN presence AS p ON p.line = b.line AND p.branch_id = b.branch_id
LEFT JOIN followers AS f ON f.line = b.line AND f.branch_id = b.branch_id
WHERE b.line = ANY(:lines::text[]) AND b.branch_id = ANY(:branch_ids::text[]);

-- name: job_status(lines, job_ids, shown)
-- What the statuses of ConsolidationJobs show.
SELECT j.*, b.namespace AS branch_namespace, b.name AS branch_name,
       coalesce(m.baseline_id, p.baseline_id) AS published_baseline_id,
       ARRAY(SELECT c.candidate_id FROM candidates AS c
             WHERE c.line = j.line AND c.job_id = j.job_id AND c.state IN ('accepted', 'published')
             ORDER BY c.candidate_id LIMIT :shown) AS accepted,
       ARRAY(SELECT c.candidate_id FROM candidates AS c
             WHERE c.line = j.line AND c.job_id = j.job_id AND c.state = 'rejected'
             ORDER BY c.candidate_id LIMIT :shown) AS rejected,
       ARRAY(SELECT c.candidate_id FROM candidates AS c
             WHERE c.line = j.line AND c.job_id = j.job_id AND c.conflicting
             ORDER BY c.candidate_id LIMIT :shown) AS conflicts,
       elsewhere.decisions AS misplaced_decisions, elsewhere.job AS misplaced_job
FROM jobs AS j
LEFT JOIN branches AS b ON b.line = j.line AND b.branch_id = j.branch_id
LEFT JOIN manifests AS m ON m.line = j.line AND m.generation = j.published_generation
LEFT JOIN pruned_manifests AS p ON p.line = j.line AND p.generation = j.published_generation
-- Decisions that stand in its resource, on candidates that are another job's by now.
CROSS JOIN LATERAL (
    SELECT count(*) AS decisions, min(o.name) AS job
    FROM (
        SELECT DISTINCT ON (r.candidate_id, r.reviewer) r.candidate_id, r.action
        FROM reviews AS r
        WHERE r.line = j.line AND r.job_id = j.job_id AND r.via = 'resource'
        ORDER BY r.candidate_id, r.reviewer, r.ordinal DESC
    ) AS said
    JOIN candidates AS c ON c.line = j.line AND c.candidate_id = said.candidate_id AND c.job_id <> j.job_id
    JOIN jobs AS o ON o.line = j.line AND o.job_id = c.job_id
    WHERE said.action <> 'withdraw'
) AS elsewhere
WHERE j.line = ANY(:lines::text[]) AND j.job_id = ANY(:job_ids::text[]);
