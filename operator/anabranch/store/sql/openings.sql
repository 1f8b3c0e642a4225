-- name: lock_branch(line, branch_id)$
-- The branch's name, and the right to hand out its batches. Receipts go on meanwhile.
SELECT name FROM branches WHERE line = :line AND branch_id = :branch_id FOR NO KEY UPDATE;

-- name: settle(line, branch_id, through)!
-- Give the hand-made jobs their batches whose ranges are all there now, and make them due.
WITH whole AS (
    UPDATE jobs AS j
    SET reason = '', due_at = statement_timestamp(), version = version + 1,
        traceparent = (SELECT b.traceparent FROM batches AS b
                       WHERE b.line = :line AND b.branch_id = :branch_id AND b.traceparent IS NOT NULL
                         AND b.sequence BETWEEN j.from_sequence AND j.through_sequence
                       ORDER BY b.traceparent NOT LIKE '%-01', b.sequence LIMIT 1)
    WHERE line = :line AND branch_id = :branch_id AND origin = 'Branch' AND state = 'received'
      AND reason = 'BatchesMissing' AND through_sequence <= :through::bigint
    RETURNING line, job_id, from_sequence, through_sequence, attempt, fence
), logged AS (
    INSERT INTO transitions (line, job_id, from_state, to_state, attempt, fence, detail)
    SELECT line, job_id, 'received', 'received', attempt, fence, 'All its batches are in.'
    FROM whole
)
UPDATE batches AS b
SET job_id = whole.job_id
FROM whole
WHERE b.line = :line AND b.branch_id = :branch_id AND b.sequence BETWEEN whole.from_sequence AND whole.through_sequence;

-- name: open_automatic(line, branch_id, job_id, namespace, name, through, max_batches, max_changes, max_bytes, ttl_seconds)^
-- Put the next gap-free run of free batches into a job; no row: there is none, or the branch has an open automatic job.
WITH first AS (
    SELECT min(b.sequence) AS sequence
    FROM batches AS b
    WHERE b.line = :line AND b.branch_id = :branch_id AND b.job_id IS NULL
), bound AS (
    -- Up to here no other job has, or waits for, a batch.
    SELECT first.sequence,
           least(:through::bigint, first.sequence + :max_batches::bigint - 1,
                 (SELECT min(j.from_sequence) - 1 FROM jobs AS j
                  WHERE j.line = :line AND j.branch_id = :branch_id AND j.origin = 'Branch'
                    AND j.through_sequence >= first.sequence)) AS through
    FROM first
    WHERE NOT EXISTS (SELECT FROM jobs AS j
                      WHERE j.line = :line AND j.branch_id = :branch_id AND j.origin = 'Branch'
                        AND j.automatic AND j.finished_at IS NULL AND j.state <> 'awaiting_review')
), run AS (
    SELECT b.sequence, row_number() OVER so_far AS batches, sum(b.changes) OVER so_far AS changes,
           sum(octet_length(b.body)) OVER so_far AS bytes
    FROM bound
    JOIN batches AS b ON b.line = :line AND b.branch_id = :branch_id
                     AND b.sequence BETWEEN bound.sequence AND bound.through
    WINDOW so_far AS (ORDER BY b.sequence)
), range AS (
    SELECT min(sequence) AS first, max(sequence) AS last
    FROM run
    WHERE batches = 1 OR (changes <= :max_changes::bigint AND bytes <= :max_bytes::bigint)
    HAVING count(*) > 0
), opened AS (
    INSERT INTO jobs (line, job_id, namespace, name, automatic, origin, branch_id, from_sequence, through_sequence,
                      ttl_seconds, due_at, traceparent)
    SELECT :line, :job_id, :namespace, :name || '-' || range.first, true, 'Branch', :branch_id, range.first, range.last,
           :ttl_seconds, statement_timestamp(),
           (SELECT b.traceparent FROM batches AS b
            WHERE b.line = :line AND b.branch_id = :branch_id AND b.traceparent IS NOT NULL
              AND b.sequence BETWEEN range.first AND range.last
            ORDER BY b.traceparent NOT LIKE '%-01', b.sequence LIMIT 1)
    FROM range
    RETURNING *
), given AS (
    UPDATE batches AS b
    SET job_id = :job_id
    FROM range
    WHERE b.line = :line AND b.branch_id = :branch_id AND b.sequence BETWEEN range.first AND range.last
), logged AS (
    INSERT INTO transitions (line, job_id, to_state, attempt, fence, detail)
    SELECT line, job_id, state, attempt, fence, 'Made for a gap-free run of received batches.' FROM opened
), branch AS (
    UPDATE branches AS b SET version = b.version + 1
    FROM opened
    WHERE b.line = :line AND b.branch_id = :branch_id
), baseline AS (
    UPDATE lines AS l SET version = l.version + 1
    FROM opened
    WHERE l.line = :line
)
SELECT * FROM opened;

-- name: of_resource(line, namespace, name, uid)^
-- The job that was registered for this very resource.
SELECT * FROM jobs WHERE line = :line AND namespace = :namespace AND name = :name AND uid = :uid;

-- name: overlapping(line, branch_id, from_sequence, through_sequence)^
-- A job that has, or waits for, some of these batches.
SELECT namespace, name, from_sequence, through_sequence
FROM jobs
WHERE line = :line AND branch_id = :branch_id AND origin = 'Branch'
  AND from_sequence <= :through_sequence AND through_sequence >= :from_sequence
ORDER BY from_sequence
LIMIT 1;

-- name: register(line, job_id, namespace, name, uid, observed_generation, branch_id, from_sequence, through_sequence, lease_seconds, retry_limit, ttl_seconds)!
-- Reserve a range of batches for a hand-made job, whether they are there or not.
WITH opened AS (
    INSERT INTO jobs (line, job_id, namespace, name, uid, automatic, observed_generation, origin, branch_id,
                      from_sequence, through_sequence, reason, lease_seconds, retry_limit, ttl_seconds)
    VALUES (:line, :job_id, :namespace, :name, :uid, false, :observed_generation, 'Branch', :branch_id,
            :from_sequence, :through_sequence, 'BatchesMissing', :lease_seconds, :retry_limit, :ttl_seconds)
    RETURNING *
)
INSERT INTO transitions (line, job_id, to_state, attempt, fence, detail)
SELECT line, job_id, state, attempt, fence, 'Applied by hand.' FROM opened;

-- name: join_held(line, held_from)^
-- Take hold of the open job that was split off from another. Whoever works on it is fenced off, for it has not seen all.
-- As everywhere, the line is locked before the job.
WITH baseline AS (
    UPDATE lines AS l SET version = l.version + 1
    FROM jobs AS j
    WHERE l.line = :line AND j.line = :line AND j.held_from = :held_from
    RETURNING l.line
)
UPDATE jobs
SET fence = fence + 1, holder = NULL, lease_deadline = NULL, due_at = statement_timestamp(), version = version + 1
WHERE (SELECT count(*) FROM baseline) >= 0
  AND line = :line AND held_from = :held_from AND state = 'awaiting_review' AND finished_at IS NULL
RETURNING *;

-- name: held_of(line, held_from)$
-- The job that was split off from another.
SELECT job_id FROM jobs WHERE line = :line AND held_from = :held_from;

-- name: open_held(line, job_id, namespace, name, suffix, branch_id, held_from, counts, lease_seconds, retry_limit, ttl_seconds, traceparent)^
-- Split a job off, which begins where its candidates wait; no row: another transaction split it off first.
WITH opened AS (
    INSERT INTO jobs (line, job_id, namespace, name, automatic, origin, branch_id, held_from, state, counts,
                      lease_seconds, retry_limit, ttl_seconds, traceparent)
    SELECT :line, :job_id, :namespace,
           CASE WHEN EXISTS (SELECT FROM jobs AS j WHERE j.namespace = :namespace AND j.name = :name)
                THEN :name || '-' || :suffix ELSE :name END,
           true, 'Held', :branch_id, :held_from, 'awaiting_review', :counts, :lease_seconds, :retry_limit,
           :ttl_seconds, :traceparent
    ON CONFLICT (line, held_from) WHERE held_from IS NOT NULL DO NOTHING
    RETURNING *
), logged AS (
    INSERT INTO transitions (line, job_id, to_state, attempt, fence, detail)
    SELECT line, job_id, state, attempt, fence, 'Split off: its candidates wait for review.' FROM opened
), baseline AS (
    UPDATE lines AS l SET version = l.version + 1
    FROM opened
    WHERE l.line = :line
)
SELECT * FROM opened;

-- name: lock_line(line)$
-- One at a time makes jobs of a line that no branch stands for.
SELECT true FROM lines WHERE line = :line FOR NO KEY UPDATE;

-- name: made(line, namespace, name, origin)^
-- The job that the operator made under this name.
SELECT * FROM jobs
WHERE line = :line AND namespace = :namespace AND name = :name AND origin = :origin;

-- name: open_made(line, job_id, namespace, name, origin, state, detail, ttl_seconds, traceparent)^
-- Make a job whose candidates the caller puts in.
WITH opened AS (
    INSERT INTO jobs (line, job_id, namespace, name, automatic, origin, state, ttl_seconds, due_at, traceparent)
    VALUES (:line, :job_id, :namespace, :name, true, :origin, :state, :ttl_seconds, statement_timestamp(), :traceparent)
    RETURNING *
), logged AS (
    INSERT INTO transitions (line, job_id, to_state, attempt, fence, detail)
    SELECT line, job_id, state, attempt, fence, :detail FROM opened
)
SELECT * FROM opened;
