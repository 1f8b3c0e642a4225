-- name: follow(line, target, max_age)!
-- Have a line backed up from now on; as before, nothing changes.
INSERT INTO backup_turns AS t (line, target, max_age) VALUES (:line, :target, :max_age)
ON CONFLICT (line) DO UPDATE
SET target = excluded.target, max_age = excluded.max_age, due_at = now(), attempt = 0, error = NULL, failing_since = NULL
WHERE (t.target, t.max_age) IS DISTINCT FROM (excluded.target, excluded.max_age);

-- name: unfollow(line)!
-- Have a line backed up no more.
DELETE FROM backup_turns WHERE line = :line;

-- name: want(line)!
-- Have a line looked at now, since a publication waits. Where the last attempt failed, the next one keeps its time.
UPDATE backup_turns
SET wanted = true, due_at = CASE WHEN error IS NULL THEN least(due_at, statement_timestamp()) ELSE due_at END
WHERE line = :line AND NOT (wanted AND (error IS NOT NULL OR due_at <= statement_timestamp()));

-- name: standing(line)^
-- What a line's Baseline asks for, and whether its newest backup in that target does; no row: it asks for none.
SELECT t.target, t.max_age, t.error, t.failing_since, b.taken_at,
       coalesce(b.taken_at > statement_timestamp() - t.max_age, false) AS fresh
FROM backup_turns AS t
LEFT JOIN LATERAL (
    SELECT taken_at FROM backups WHERE line = :line AND target = t.target ORDER BY taken_at DESC LIMIT 1
) AS b ON true
WHERE t.line = :line;

-- name: claim(hold)^
-- Take a line whose backup is due, for a while; nobody else is given it meanwhile.
UPDATE backup_turns
SET fence = fence + 1, claimed_until = statement_timestamp() + :hold::interval
WHERE line = ANY(ARRAY(
    SELECT t.line
    FROM backup_turns AS t
    WHERE t.due_at <= statement_timestamp()
      AND (t.claimed_until IS NULL OR t.claimed_until <= statement_timestamp())
      AND (SELECT l.deleted_at IS NULL AND h.head_generation > 0
           FROM lines AS l JOIN line_heads AS h ON h.line = l.line
           WHERE l.line = t.line)
    ORDER BY t.due_at
    LIMIT 1
    FOR UPDATE OF t SKIP LOCKED
))
RETURNING line, target, max_age, wanted, fence, attempt;

-- name: renew(line, fence, hold)!
-- Keep a line for another while.
UPDATE backup_turns SET claimed_until = statement_timestamp() + :hold::interval WHERE line = :line AND fence = :fence;

-- name: put_off(line, fence, pause, wanted)!
-- Let go of a line that needs nothing now. Whoever wants a backup since has it looked at at once.
UPDATE backup_turns
SET claimed_until = NULL, wanted = wanted AND NOT :wanted::boolean,
    due_at = CASE WHEN wanted AND NOT :wanted::boolean THEN due_at ELSE statement_timestamp() + :pause::interval END
WHERE line = :line AND fence = :fence;

-- name: come_back(line, fence, pause)!
-- Let go of a line whose backup goes on without us.
UPDATE backup_turns SET claimed_until = NULL, due_at = statement_timestamp() + :pause::interval
WHERE line = :line AND fence = :fence;

-- name: succeed(line, fence, taken_at)!
-- Let go of a line that is backed up; it is looked at again at half the age that a backup may have.
UPDATE backup_turns
SET claimed_until = NULL, wanted = false, attempt = 0, error = NULL, failing_since = NULL,
    due_at = greatest(:taken_at::timestamptz + max_age / 2, statement_timestamp() + interval '5 s')
WHERE line = :line AND fence = :fence;

-- name: fail(line, fence, error, retry_in)!
-- Let go of a line whose backup failed.
UPDATE backup_turns
SET claimed_until = NULL, attempt = attempt + 1, error = :error, failing_since = coalesce(failing_since, statement_timestamp()),
    due_at = statement_timestamp() + :retry_in::interval
WHERE line = :line AND fence = :fence;

-- name: add(line, taken_at, target, place, generation, baseline_id, manifest_hash, bytes)!
-- Record a backup.
INSERT INTO backups (line, taken_at, target, place, generation, baseline_id, manifest_hash, bytes)
VALUES (:line, :taken_at, :target, :place, :generation, :baseline_id, :manifest_hash, :bytes)
ON CONFLICT (line, taken_at) DO NOTHING;

-- name: forget_old(line, keep)!
-- Forget which backups there were before the newest ones; they stay where they lie.
DELETE FROM backups
WHERE line = :line AND taken_at < (
    SELECT b.taken_at FROM backups AS b WHERE b.line = :line ORDER BY b.taken_at DESC OFFSET :keep::bigint - 1 LIMIT 1
);

-- name: newest(line, limit)
-- The newest backups of a line, the newest first.
SELECT * FROM backups WHERE line = :line ORDER BY taken_at DESC LIMIT :limit;

-- name: published_before(line, moment)^
-- The manifest that was the head at a moment.
SELECT * FROM manifests WHERE line = :line AND created_at <= :moment ORDER BY generation DESC LIMIT 1;

-- name: wake_publishing(line)!
-- Make every job of a line due that is about to publish.
UPDATE jobs
SET due_at = least(statement_timestamp(), lease_deadline - interval '1 microsecond')
WHERE line = :line AND state = 'publishing' AND finished_at IS NULL;

-- name: restores(line, limit)
-- The restores that a line has seen, the newest first.
SELECT restore_id, from_generation, generation FROM restores WHERE line = :line ORDER BY created_at DESC LIMIT :limit;
