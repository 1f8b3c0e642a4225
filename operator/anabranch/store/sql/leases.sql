-- name: claim(holder, limit, among)
-- Take due jobs of lines that are not paused. A lease that ran out counts as a failure: too many, and the job is given up.
-- A job whose batches hold no change, as an empty final one, is done by being taken: nothing is to be decided on. Of those
-- only the number is told, in each row, and in one row of nulls where nothing is held.
--
-- Everybody else locks a line before its jobs. Here the jobs come first, so nothing is waited for: what would change a line
-- that somebody has locked just now stays due.
--
-- However many are due, the index on due_at is walked no further than the limits. So nothing here must invite the planner to
-- collect and sort: it asks for the line's state as a value, and a finished job has no due_at.
WITH due AS MATERIALIZED (
    SELECT j.line, j.job_id, j.holder,
           (j.state = 'received' AND j.origin = 'Branch' AND j.holder IS NULL
            AND (SELECT true FROM batches AS b
                 WHERE b.line = j.line AND b.branch_id = j.branch_id
                   AND b.sequence BETWEEN j.from_sequence AND j.through_sequence AND b.changes > 0
                 LIMIT 1) IS NULL
            AND j.through_sequence - j.from_sequence + 1 =
                (SELECT count(*) FROM batches AS b
                 WHERE b.line = j.line AND b.branch_id = j.branch_id
                   AND b.sequence BETWEEN j.from_sequence AND j.through_sequence)) AS idle,
           (j.holder IS NOT NULL AND j.attempt >= j.retry_limit) AS spent
    FROM jobs AS j
    WHERE j.due_at <= statement_timestamp()
      AND (j.lease_deadline IS NULL OR j.lease_deadline <= statement_timestamp())
      AND (SELECT l.deleted_at IS NULL AND NOT h.suspended AND h.pinned_generation IS NULL
           FROM lines AS l JOIN line_heads AS h ON h.line = l.line
           WHERE l.line = j.line)
    ORDER BY j.due_at
    LIMIT greatest(:limit::bigint, :among::bigint)
    FOR UPDATE OF j SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT l.line FROM lines AS l
    WHERE l.line = ANY(ARRAY(SELECT due.line FROM due WHERE due.idle OR due.spent))
    FOR NO KEY UPDATE SKIP LOCKED
), free AS MATERIALIZED (
    SELECT * FROM due
    WHERE NOT (due.idle OR due.spent) OR due.line = ANY(ARRAY(SELECT locked.line FROM locked))
), taken AS MATERIALIZED (
    SELECT free.line, free.job_id FROM free WHERE NOT free.idle LIMIT :limit::bigint
), claimed AS (
    UPDATE jobs
    SET fence = fence + 1,
        attempt = attempt + CASE WHEN holder IS NULL THEN 0 ELSE 1 END,
        failed = holder IS NOT NULL AND attempt >= retry_limit,
        last_error = CASE WHEN holder IS NULL THEN last_error ELSE 'The lease of ' || holder || ' ran out.' END,
        finished_at = CASE WHEN holder IS NOT NULL AND attempt >= retry_limit THEN statement_timestamp() END,
        holder = CASE WHEN holder IS NULL OR attempt < retry_limit THEN :holder END,
        lease_deadline = CASE WHEN holder IS NULL OR attempt < retry_limit
                         THEN statement_timestamp() + make_interval(secs => lease_seconds) END,
        due_at = CASE WHEN holder IS NULL OR attempt < retry_limit
                 THEN statement_timestamp() + make_interval(secs => lease_seconds) END,
        retry_at = NULL,
        version = version + 1
    -- Ids carry their line, so the two lists match pairwise; this form is an index scan, IN (SELECT … LIMIT) is not.
    WHERE line = ANY(ARRAY(SELECT taken.line FROM taken))
      AND job_id = ANY(ARRAY(SELECT taken.job_id FROM taken))
    RETURNING *
), done AS (
    UPDATE jobs
    SET fence = fence + 1, state = 'published', reason = 'NothingToPublish', attempt = 0, last_error = NULL,
        retry_at = NULL, due_at = NULL, finished_at = statement_timestamp(), version = version + 1
    WHERE line = ANY(ARRAY(SELECT free.line FROM free WHERE free.idle))
      AND job_id = ANY(ARRAY(SELECT free.job_id FROM free WHERE free.idle))
    RETURNING line, job_id, state, attempt, fence
), logged AS (
    INSERT INTO transitions (line, job_id, from_state, to_state, attempt, fence, holder, detail)
    SELECT c.line, c.job_id, c.state, c.state, c.attempt, c.fence, c.holder, c.last_error
    FROM claimed AS c
    JOIN due ON due.line = c.line AND due.job_id = c.job_id
    WHERE due.holder IS NOT NULL
    UNION ALL
    SELECT d.line, d.job_id, 'received', d.state, d.attempt, d.fence, :holder, 'Its batches hold no changes.'
    FROM done AS d
), baselines AS (
    -- Whose jobs were given up or are done: their counts changed; what waited for the end of one given up is looked at.
    UPDATE lines
    SET version = version + 1,
        due_at = CASE WHEN line = ANY(ARRAY(SELECT c.line FROM claimed AS c WHERE c.failed))
                 THEN statement_timestamp() ELSE due_at END
    WHERE line = ANY(ARRAY(SELECT c.line FROM claimed AS c WHERE c.failed UNION SELECT d.line FROM done AS d))
      AND deleted_at IS NULL
)
SELECT c.*, (SELECT due.holder IS NOT NULL FROM due WHERE due.line = c.line AND due.job_id = c.job_id) AS reclaimed,
       finished.done
FROM (SELECT count(*) AS done FROM done) AS finished
LEFT JOIN claimed AS c ON true;

-- name: claim_one(line, job_id, holder)^
-- Take one job, due or not, unless somebody holds it or its line is paused.
WITH free AS MATERIALIZED (
    SELECT j.line, j.job_id
    FROM jobs AS j
    WHERE j.line = :line AND j.job_id = :job_id AND j.finished_at IS NULL AND j.holder IS NULL
      AND j.reason <> 'BatchesMissing'
      AND EXISTS (SELECT FROM lines AS l JOIN line_heads AS h ON h.line = l.line
                  WHERE l.line = :line AND l.deleted_at IS NULL
                    AND NOT h.suspended AND h.pinned_generation IS NULL)
    FOR UPDATE OF j SKIP LOCKED
)
UPDATE jobs
SET fence = fence + 1, holder = :holder, retry_at = NULL, version = version + 1,
    lease_deadline = statement_timestamp() + make_interval(secs => lease_seconds),
    due_at = statement_timestamp() + make_interval(secs => lease_seconds)
WHERE line = :line AND job_id = (SELECT free.job_id FROM free)
RETURNING *;

-- name: renew(line, job_id, fence, holder)^
-- Hold a job for another lease. A knock (due before the lease's end) is kept.
UPDATE jobs
SET lease_deadline = statement_timestamp() + make_interval(secs => lease_seconds),
    due_at = CASE WHEN due_at < lease_deadline THEN due_at
             ELSE statement_timestamp() + make_interval(secs => lease_seconds) END
WHERE line = :line AND job_id = :job_id AND fence = :fence AND holder = :holder AND finished_at IS NULL
RETURNING *;

-- name: advance(line, job_id, fence, holder, from_state, to_state, reason, detail, counts, held_job, published_generation, release, due_in)^
-- Move a job, if it is still where the holder of this fence left it. Progress renews the lease and forgives failures.
--
-- The status of the Baseline counts what is pending and what conflicts. Its line is locked before the job, by being waited
-- for: the one order that all transactions keep.
WITH baseline AS (
    UPDATE lines AS l
    SET version = l.version + 1,
        duplicates = l.duplicates + CASE WHEN :to_state = 'published'
                                    THEN coalesce((:counts::jsonb ->> 'duplicates')::bigint, 0) ELSE 0 END
    WHERE l.line = :line AND ('awaiting_review' IN (:from_state, :to_state) OR :to_state = 'published')
    RETURNING l.line
), moved AS (
    UPDATE jobs
    SET state = :to_state, reason = :reason, attempt = 0, last_error = NULL, retry_at = NULL,
        counts = coalesce(:counts, counts),
        held_job = coalesce(:held_job, held_job),
        published_generation = coalesce(:published_generation::bigint, published_generation),
        holder = CASE WHEN NOT :release::boolean THEN holder END,
        lease_deadline = CASE WHEN NOT :release::boolean
                         THEN statement_timestamp() + make_interval(secs => lease_seconds) END,
        due_at = CASE WHEN :to_state = 'published' THEN NULL
                 WHEN due_at < lease_deadline THEN due_at
                 WHEN :release::boolean THEN statement_timestamp() + :due_in::interval
                 ELSE statement_timestamp() + make_interval(secs => lease_seconds) END,
        finished_at = CASE WHEN :to_state = 'published' THEN statement_timestamp() END,
        version = version + 1
    WHERE (SELECT count(*) FROM baseline) >= 0
      AND line = :line AND job_id = :job_id AND state = :from_state AND fence = :fence AND holder = :holder
      AND finished_at IS NULL
    RETURNING *
), logged AS (
    INSERT INTO transitions (line, job_id, from_state, to_state, attempt, fence, holder, detail)
    SELECT line, job_id, :from_state, :to_state, attempt, fence, :holder, :detail FROM moved
)
SELECT * FROM moved;

-- name: hold(line, job_ids, states, fences, holders)
-- Keep jobs as they are until the transaction ends; gives those that are still where the holders of these fences left them.
SELECT j.job_id
FROM unnest(:job_ids::text[], :states::text[], :fences::bigint[], :holders::text[]) AS known (job_id, state, fence, holder)
JOIN jobs AS j ON j.line = :line AND j.job_id = known.job_id
WHERE j.state = known.state AND j.fence = known.fence AND j.holder = known.holder AND j.finished_at IS NULL
ORDER BY j.job_id
FOR NO KEY UPDATE OF j;

-- name: release(line, job_id, fence, holder, due_in)!
-- Let go of a job; it is due then, or at once if somebody knocked.
UPDATE jobs
SET holder = NULL, lease_deadline = NULL, version = version + 1,
    due_at = CASE WHEN due_at < lease_deadline THEN due_at ELSE statement_timestamp() + :due_in::interval END
WHERE line = :line AND job_id = :job_id AND fence = :fence AND holder = :holder AND finished_at IS NULL;

-- name: fail(line, job_id, fence, holder, error, retry_in)^
-- Count a failure, keep the state, and try again later or give up; then the Baseline is looked at, too.
WITH baseline AS (
    UPDATE lines AS l SET version = l.version + 1, due_at = statement_timestamp()
    FROM jobs AS j
    WHERE l.line = :line AND j.line = :line AND j.job_id = :job_id
      AND (:retry_in::interval IS NULL OR j.attempt >= j.retry_limit)
    RETURNING l.line
), failing AS (
    UPDATE jobs
    SET attempt = attempt + 1, last_error = :error, holder = NULL, lease_deadline = NULL, version = version + 1,
        failed = :retry_in::interval IS NULL OR attempt >= retry_limit,
        retry_at = CASE WHEN attempt < retry_limit THEN statement_timestamp() + :retry_in::interval END,
        due_at = CASE WHEN attempt < retry_limit THEN statement_timestamp() + :retry_in::interval END,
        finished_at = CASE WHEN :retry_in::interval IS NULL OR attempt >= retry_limit THEN statement_timestamp() END
    WHERE (SELECT count(*) FROM baseline) >= 0
      AND line = :line AND job_id = :job_id AND fence = :fence AND holder = :holder AND finished_at IS NULL
    RETURNING *
), logged AS (
    INSERT INTO transitions (line, job_id, from_state, to_state, attempt, fence, holder, detail)
    SELECT line, job_id, state, state, attempt, fence, :holder, :error FROM failing
)
SELECT * FROM failing;
