-- name: renew(line, branch_id, leaving, task, observed_epoch, observed_sequence)^
-- Renew the lease of a live run, or end it now; no row: the run is not live.
--
-- The operator is to look when the lease runs out, and at once where it has not looked before, has found it run out, or
-- is told goodbye. Otherwise its time stays as it is: it looks then, and sees how far the lease has got.
INSERT INTO presence AS p (line, branch_id, lease_deadline, task, observed_epoch, observed_sequence, due_at)
SELECT b.line, b.branch_id,
       CASE WHEN :leaving::boolean THEN now() ELSE now() + b.lease_seconds * interval '1 s' END,
       :task::text, :observed_epoch::integer, :observed_sequence::bigint, now()
FROM branches AS b
WHERE b.line = :line AND b.branch_id = :branch_id AND b.phase IN ('Active', 'Stale') AND b.kept = 'whole'
  AND b.deleted_at IS NULL
ON CONFLICT (line, branch_id) DO UPDATE
SET lease_deadline = excluded.lease_deadline, task = excluded.task, observed_epoch = excluded.observed_epoch,
    observed_sequence = excluded.observed_sequence,
    due_at = CASE WHEN p.due_at IS NULL OR :leaving::boolean THEN now()
                  ELSE least(p.due_at, excluded.lease_deadline) END
RETURNING line, branch_id, lease_deadline, task, observed_epoch, observed_sequence;

-- name: due(limit)
-- Runs of any line whose lease has run out, or may have, or has come back.
SELECT line, branch_id FROM presence WHERE due_at <= now() ORDER BY due_at LIMIT :limit;

-- name: settle(line, branch_ids)$
-- Let the phases of runs say whether their agents are there; how many were looked at. What somebody holds stays due.
WITH found AS MATERIALIZED (
    SELECT p.branch_id, p.lease_deadline, p.noted, b.phase IN ('Active', 'Stale') AS live,
           CASE WHEN p.lease_deadline > now() THEN 'active' ELSE 'stale' END AS state
    FROM presence AS p
    JOIN branches AS b ON b.line = p.line AND b.branch_id = p.branch_id
    WHERE p.line = :line AND p.branch_id = ANY(:branch_ids::text[]) AND p.due_at <= now()
    FOR NO KEY UPDATE OF p, b SKIP LOCKED
), noted AS (
    UPDATE presence AS p
    SET noted = CASE WHEN found.live THEN found.state ELSE p.noted END,
        due_at = CASE WHEN found.live AND found.state = 'active' THEN found.lease_deadline END
    FROM found
    WHERE p.line = :line AND p.branch_id = found.branch_id
), moved AS (
    UPDATE branches AS b
    SET phase = CASE found.state WHEN 'active' THEN 'Active' ELSE 'Stale' END, version = b.version + 1
    FROM found
    WHERE b.line = :line AND b.branch_id = found.branch_id AND found.live
      AND (found.state IS DISTINCT FROM found.noted OR lower(b.phase) <> found.state)
)
SELECT count(*) FROM found;

-- name: wake(line, branch_id)!
-- Have the operator look at a run that comes back to life: its lease may have run out meanwhile.
UPDATE presence SET due_at = now() WHERE line = :line AND branch_id = :branch_id AND due_at IS NULL;

-- name: peers(line, branch_id, after, states, limit)
-- What the runs of a line that are live or completed say of themselves, by their ids, after one; or one of them.
SELECT peer.*,
       coalesce((SELECT max(j.through_sequence) FROM jobs AS j
                 WHERE j.line = :line AND j.branch_id = peer.branch_id AND j.published_generation IS NOT NULL), 0)
       AS last_published_sequence
FROM (
    SELECT b.branch_id, b.agent_id, p.lease_deadline,
           CASE WHEN b.sharing_policy ->> 'peer_visibility' = 'task' THEN coalesce(p.task, b.task) END AS task,
           coalesce(p.observed_epoch, f.epoch) AS observed_epoch,
           CASE WHEN p.observed_epoch IS NULL THEN f.sequence ELSE p.observed_sequence END AS observed_sequence,
           CASE WHEN b.phase = 'Completed' THEN 'completed'
                WHEN p.lease_deadline IS NULL THEN 'unknown'
                WHEN p.lease_deadline > now() THEN 'active'
                ELSE 'stale' END AS state
    FROM branches AS b
    LEFT JOIN presence AS p ON p.line = :line AND p.branch_id = b.branch_id
    LEFT JOIN followers AS f ON f.line = :line AND f.branch_id = b.branch_id
    WHERE b.line = :line AND b.branch_id > :after AND (:branch_id::text IS NULL OR b.branch_id = :branch_id)
      AND b.deleted_at IS NULL AND b.kept = 'whole' AND b.phase IN ('Active', 'Stale', 'Completed')
) AS peer
WHERE :states::text[] IS NULL OR peer.state = ANY(:states::text[])
ORDER BY peer.branch_id
LIMIT :limit;
