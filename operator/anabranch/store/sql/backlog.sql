-- name: look(many, most)
-- What waits in any line, a row for each number: what it counts, of which kind, and how many; ages are in seconds.
--
-- It is asked every few seconds, so each part walks an index that holds little else than what it counts, and counts only so
-- far. As for a claim, a job of a line that is paused is not due.
WITH due_jobs AS MATERIALIZED (
    SELECT j.due_at
    FROM jobs AS j
    WHERE j.due_at <= statement_timestamp()
      AND (j.lease_deadline IS NULL OR j.lease_deadline <= statement_timestamp())
      AND (SELECT l.deleted_at IS NULL AND NOT h.suspended AND h.pinned_generation IS NULL
           FROM lines AS l JOIN line_heads AS h ON h.line = l.line
           WHERE l.line = j.line)
    ORDER BY j.due_at LIMIT :many
), due AS (
    SELECT 'jobs' AS queue, due_at FROM due_jobs
    UNION ALL
    (SELECT 'visits', due_at FROM lines
     WHERE due_at <= statement_timestamp() AND condemned_at IS NULL ORDER BY due_at LIMIT :many)
    UNION ALL
    (SELECT 'waiting', due_at FROM waiting WHERE due_at <= statement_timestamp() ORDER BY due_at LIMIT :many)
    UNION ALL
    (SELECT 'retention', retain_at FROM lines
     WHERE retain_at <= statement_timestamp() AND deleted_at IS NULL ORDER BY retain_at LIMIT :many)
    UNION ALL
    -- Whoever has taken one removes it at once: what was taken in vain is due since it came about.
    (SELECT 'notices', created_at FROM agent_outbox ORDER BY due_at LIMIT :many)
), queues AS MATERIALIZED (
    SELECT q.queue, count(d.due_at) AS due, coalesce(max(statement_timestamp() - d.due_at), '0') AS age
    FROM unnest(ARRAY['jobs', 'visits', 'waiting', 'retention', 'notices']) AS q (queue)
    LEFT JOIN due AS d ON d.queue = q.queue
    GROUP BY q.queue
), open_jobs AS MATERIALIZED (
    SELECT j.state, count(*) AS jobs, statement_timestamp() - min(j.created_at) AS age,
           coalesce(sum(j.through_sequence - j.from_sequence + 1)
                    FILTER (WHERE j.origin = 'Branch' AND j.reason <> 'BatchesMissing'), 0) AS batches
    FROM jobs AS j
    WHERE j.finished_at IS NULL
    GROUP BY j.state
), unassigned AS MATERIALIZED (
    SELECT count(*) AS batches FROM (SELECT FROM batches WHERE job_id IS NULL LIMIT :most) AS b
), candidates_waiting AS MATERIALIZED (
    SELECT c.line, c.job_id, c.conflicting FROM candidates AS c WHERE c.state = 'waiting' LIMIT :most
), conflicts AS MATERIALIZED (
    SELECT c.line, c.job_id FROM candidates_waiting AS c WHERE c.conflicting GROUP BY c.line, c.job_id
), agent_events_open AS MATERIALIZED (
    SELECT e.status FROM agent_events AS e WHERE e.finished_at IS NULL LIMIT :many
), backups AS MATERIALIZED (
    SELECT t.failing_since, t.wanted
    FROM backup_turns AS t JOIN lines AS l ON l.line = t.line AND l.deleted_at IS NULL
    WHERE t.failing_since IS NOT NULL OR t.wanted
), lagging AS MATERIALIZED (
    SELECT 'Baseline' AS kind, count(*) AS rows
    FROM (SELECT FROM lines WHERE version <> projected AND deleted_at IS NULL LIMIT :many) AS l
    UNION ALL
    SELECT 'Branch', count(*)
    FROM (SELECT FROM branches WHERE version <> projected AND deleted_at IS NULL LIMIT :many) AS b
    UNION ALL
    SELECT 'ConsolidationJob', count(*)
    FROM (SELECT FROM jobs WHERE version <> projected AND deleted_at IS NULL AND uid IS NOT NULL LIMIT :many) AS j
)
SELECT 'due' AS what, queue AS kind, due::float8 AS value FROM queues
UNION ALL SELECT 'due_age', queue, extract(epoch FROM age) FROM queues
UNION ALL SELECT 'jobs', state, jobs FROM open_jobs
UNION ALL SELECT 'jobs_age', state, extract(epoch FROM age) FROM open_jobs
UNION ALL SELECT 'unassigned', '', batches FROM unassigned
UNION ALL SELECT 'pending', '', (SELECT batches FROM unassigned) + coalesce((SELECT sum(batches) FROM open_jobs), 0)
UNION ALL SELECT 'candidates', '', count(*) FROM candidates_waiting
UNION ALL SELECT 'conflicts', '', count(*) FROM candidates_waiting WHERE conflicting
UNION ALL
SELECT 'conflict_age', '', coalesce(max(extract(epoch FROM statement_timestamp() - (
    SELECT j.created_at FROM jobs AS j WHERE j.line = c.line AND j.job_id = c.job_id))), 0)
FROM conflicts AS c
UNION ALL SELECT 'lagging', kind, rows FROM lagging
UNION ALL
SELECT 'agent_events', s.status, (SELECT count(*) FROM agent_events_open AS e WHERE e.status = s.status)
FROM unnest(ARRAY['pending', 'claimed']) AS s (status)
UNION ALL SELECT 'backups_failing', '', count(*) FROM backups WHERE failing_since IS NOT NULL
UNION ALL
SELECT 'backups_failing_age', '', coalesce(extract(epoch FROM statement_timestamp() - min(failing_since)), 0) FROM backups
UNION ALL SELECT 'backups_awaited', '', count(*) FROM backups WHERE wanted
UNION ALL SELECT 'lines', '', count(*) FROM lines WHERE deleted_at IS NULL
UNION ALL SELECT 'schema', version_num, 1 FROM alembic_version;

-- name: baselines(limit)
-- Of each of the first Baselines by namespace and name: what its current generation answers, what of its records was
-- verified, and the conflicts that wait; null where nothing is known.
SELECT l.namespace, l.name, g.line IS NOT NULL AS asked, g.digest IS NULL AS missing,
       answered.recall, answered.change,
       answered.recall < g.floor - 1e-9 OR coalesce(answered.change < -g.max_regression - 1e-9, false) AS short,
       CASE WHEN coalesce((l.policy -> 'review' ->> 'requireSources')::boolean, true)
            THEN counted.verified / nullif(counted.records, 0) END AS verified,
       conflicts.open AS conflicts, coalesce(extract(epoch FROM statement_timestamp() - conflicts.oldest_at), 0)::float8 AS age
FROM (SELECT * FROM lines WHERE deleted_at IS NULL ORDER BY namespace, name LIMIT :limit) AS l
JOIN line_heads AS h ON h.line = l.line
LEFT JOIN recall_gates AS g ON g.line = l.line
LEFT JOIN LATERAL (
    SELECT r.recall, r.change FROM recall_results AS r
    WHERE r.line = l.line AND r.generation <= h.current_generation AND r.digest = g.digest AND r.k = g.k
    ORDER BY r.generation DESC
    LIMIT 1
) AS answered ON true
CROSS JOIN LATERAL (
    SELECT sum(c.verified)::float8 AS verified, sum(c.records)::float8 AS records
    FROM (
        SELECT DISTINCT ON (q.scope) q.verified, q.records FROM quality_counts AS q
        WHERE q.line = l.line AND q.generation <= h.current_generation
        ORDER BY q.scope, q.generation DESC
    ) AS c
) AS counted
CROSS JOIN LATERAL (
    SELECT count(*) AS open, min(j.created_at) AS oldest_at
    FROM candidates AS c
    JOIN jobs AS j ON j.line = l.line AND j.job_id = c.job_id
    WHERE c.line = l.line AND c.state = 'waiting' AND c.conflicting
) AS conflicts;
