-- name: get(line, job_id)^
-- A job by its id.
SELECT * FROM jobs WHERE line = :line AND job_id = :job_id;

-- name: by_name(namespace, name)^
-- The job that a resource's name stands for; one whose resource was deleted only if there is no other.
SELECT * FROM jobs
WHERE namespace = :namespace AND name = :name
ORDER BY deleted_at IS NOT NULL, created_at DESC
LIMIT 1;

-- name: page(namespace, line, branch_id, state, after, limit)
-- The jobs of a namespace by name, of one line, of one branch and in one state where these are given.
SELECT * FROM jobs
WHERE namespace = :namespace AND name > :after
  AND (:line::text IS NULL OR line = :line) AND (:branch_id::text IS NULL OR branch_id = :branch_id)
  AND (:state::text IS NULL OR state = :state)
ORDER BY name
LIMIT :limit;

-- name: open_imports(line)
-- Jobs that still have to decide what a changed import proposed; what was split off from one has no branch either.
SELECT * FROM jobs
WHERE line = :line AND finished_at IS NULL
  AND (origin = 'Import' OR (origin = 'Held' AND branch_id IS NULL))
ORDER BY name;

-- name: transitions(line, job_id, after, limit)
-- What happened to a job, in order.
SELECT ordinal, from_state, to_state, attempt, fence, holder, detail, at
FROM transitions
WHERE line = :line AND job_id = :job_id AND ordinal > :after
ORDER BY ordinal
LIMIT :limit;

-- name: since(line, job_id, state)$
-- When a job came to be in a state, the last time.
SELECT max(at) FROM transitions
WHERE line = :line AND job_id = :job_id AND to_state = :state AND from_state IS DISTINCT FROM to_state;

-- name: unborn(limit)
-- Jobs of any line that the operator made and that have no resource yet.
SELECT * FROM jobs
WHERE uid IS NULL AND automatic AND deleted_at IS NULL
ORDER BY line, job_id
LIMIT :limit;

-- name: set_uid(line, job_id, uid, observed_generation)!
-- Tie a job to the resource that stands for it now.
UPDATE jobs
SET uid = :uid, observed_generation = :observed_generation, deleted_at = NULL, version = version + 1
WHERE line = :line AND job_id = :job_id AND (uid IS DISTINCT FROM :uid OR deleted_at IS NOT NULL);

-- name: save_spec(line, job_id, observed_generation, lease_seconds, retry_limit, ttl_seconds)^
-- Take over what a resource may change. A higher limit gives a failed job another chance, as long as it is whole.
WITH job AS (
    SELECT line, job_id, (failed AND :retry_limit > retry_limit AND kept = 'whole') AS revived
    FROM jobs
    WHERE line = :line AND job_id = :job_id AND observed_generation <= :observed_generation
    FOR NO KEY UPDATE
), saved AS (
    UPDATE jobs AS j
    SET observed_generation = :observed_generation, lease_seconds = :lease_seconds, retry_limit = :retry_limit,
        ttl_seconds = :ttl_seconds,
        failed = j.failed AND NOT job.revived,
        finished_at = CASE WHEN NOT job.revived THEN j.finished_at END,
        due_at = CASE WHEN job.revived THEN statement_timestamp() ELSE j.due_at END,
        version = j.version + 1
    FROM job
    WHERE j.line = :line AND j.job_id = :job_id
      AND (j.observed_generation, j.lease_seconds, j.retry_limit, j.ttl_seconds)
          IS DISTINCT FROM (:observed_generation, :lease_seconds, :retry_limit, :ttl_seconds)
    RETURNING j.*, job.revived
), logged AS (
    INSERT INTO transitions (line, job_id, from_state, to_state, attempt, fence, detail)
    SELECT line, job_id, state, state, attempt, fence, 'The retry limit was raised: tried again.'
    FROM saved
    WHERE revived
)
SELECT * FROM saved;

-- name: forget(line, job_id)!
-- A hand-made job whose batches never came gives its range back, as if it had not been.
WITH gone AS (
    DELETE FROM jobs
    WHERE line = :line AND job_id = :job_id AND state = 'received' AND reason = 'BatchesMissing'
    RETURNING line, job_id
)
DELETE FROM transitions AS t
USING gone
WHERE t.line = :line AND t.job_id = gone.job_id;

-- name: mark_deleted(line, job_id)!
-- The resource is gone: there is no status to write any more. What the job does goes on.
UPDATE jobs
SET deleted_at = now(), projected = version
WHERE line = :line AND job_id = :job_id AND deleted_at IS NULL;

-- name: wake(line, job_id)!
-- Make a job due. A due_at before the lease's end says to its holder that somebody knocked meanwhile.
UPDATE jobs
SET due_at = least(statement_timestamp(), lease_deadline - interval '1 microsecond')
WHERE line = :line AND job_id = :job_id AND finished_at IS NULL AND reason <> 'BatchesMissing';

-- name: wake_waiting(line)!
-- Make every job of a line due that waits for a review, or for questions to be asked: that may have changed.
UPDATE jobs
SET due_at = least(statement_timestamp(), lease_deadline - interval '1 microsecond')
WHERE line = :line AND state IN ('awaiting_review', 'publishing') AND finished_at IS NULL;
