-- name: append(line, job_id, candidate_id, reviewer, content_hash, base_revision, action, reason, hold, via)*!
-- Note decisions.
INSERT INTO reviews (line, job_id, candidate_id, reviewer, content_hash, base_revision, action, reason, hold, via)
VALUES (:line, :job_id, :candidate_id, :reviewer, :content_hash, :base_revision, :action, :reason, :hold, :via);

-- name: standing(line, job_id)
-- The latest decision of each reviewer on each candidate, by each way, unless it was withdrawn; newest last.
SELECT * FROM (
    SELECT DISTINCT ON (candidate_id, reviewer, via) *
    FROM reviews
    WHERE line = :line AND job_id = :job_id
    ORDER BY candidate_id, reviewer, via, ordinal DESC
) AS latest
WHERE action <> 'withdraw'
ORDER BY ordinal;

-- name: latest(line, job_ids)
-- The latest decision of each reviewer on each candidate of some jobs, by each way, withdrawals among them; newest last.
SELECT * FROM (
    SELECT DISTINCT ON (job_id, candidate_id, reviewer, via) *
    FROM reviews
    WHERE line = :line AND job_id = ANY(:job_ids::text[])
    ORDER BY job_id, candidate_id, reviewer, via, ordinal DESC
) AS said
ORDER BY ordinal;

-- name: count_entries(line, job_ids)$
-- How many entries the reviews of some jobs have.
SELECT count(*) FROM reviews WHERE line = :line AND job_id = ANY(:job_ids::text[]);

-- name: follow(line, from_job, to_job, candidate_ids)$
-- Note again for a job what was said by HTTP of candidates that it takes over, and count that. What a resource says stands
-- with that resource's job. Holds are of a job, so none is named.
WITH noted AS (
    INSERT INTO reviews (line, job_id, candidate_id, reviewer, content_hash, base_revision, action, reason, via, at)
    SELECT line, :to_job, candidate_id, reviewer, content_hash, base_revision, action, reason, via, at
    FROM (
        SELECT DISTINCT ON (candidate_id, reviewer) *
        FROM reviews
        WHERE line = :line AND job_id = :from_job AND via = 'http' AND candidate_id = ANY(:candidate_ids::text[])
        ORDER BY candidate_id, reviewer, ordinal DESC
    ) AS said
    WHERE action <> 'withdraw'
    ORDER BY ordinal
    RETURNING ordinal
)
SELECT count(*) FROM noted;

-- name: history(line, job_id, after, limit)
-- The decisions on a job's candidates in order, beginning after one; no limit: all of them.
SELECT * FROM reviews
WHERE line = :line AND job_id = :job_id AND ordinal > :after
ORDER BY ordinal
LIMIT :limit::bigint;

-- name: lock_job(line, job_id, observed_generation)$
-- One at a time takes over a resource's reviews, and none from an older resource than one seen before.
SELECT true FROM jobs
WHERE line = :line AND job_id = :job_id AND observed_generation <= :observed_generation
FOR NO KEY UPDATE;

-- name: seen(line, job_id, observed_generation)!
-- Note which resource's reviews were taken over.
UPDATE jobs SET observed_generation = :observed_generation, version = version + 1
WHERE line = :line AND job_id = :job_id AND observed_generation < :observed_generation;
