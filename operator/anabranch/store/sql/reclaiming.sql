-- name: ended_runs(line, branch_id, before, limit)
-- Runs that ended before a moment and whose findings are all decided since before it: all of them (null), or this one.
-- A batch that could still go into a job keeps its run; one behind a gap that nobody can fill any more does not.
SELECT b.branch_id FROM branches AS b
WHERE b.line = :line AND (:branch_id::text IS NULL OR b.branch_id = :branch_id)
  AND b.kept = 'whole' AND coalesce(b.finished_at, b.deleted_at) < :before
  AND NOT EXISTS (SELECT FROM jobs AS j
                  WHERE j.line = :line AND j.branch_id = b.branch_id
                    AND (j.finished_at IS NULL OR j.finished_at >= :before))
  AND NOT EXISTS (
      SELECT FROM (SELECT t.sequence FROM batches AS t
                   WHERE t.line = :line AND t.branch_id = b.branch_id AND t.job_id IS NULL
                   ORDER BY t.sequence LIMIT 1) AS first
      WHERE first.sequence = 1
         OR EXISTS (SELECT FROM batches AS p
                    WHERE p.line = :line AND p.branch_id = b.branch_id AND p.sequence = first.sequence - 1))
ORDER BY coalesce(b.finished_at, b.deleted_at)
LIMIT :limit;

-- name: lock_branch(line, branch_id)$
-- A branch, once the receipts that are under way have ended.
SELECT true FROM branches WHERE line = :line AND branch_id = :branch_id FOR UPDATE;

-- name: leave(line, branch_id, through)!
-- From now on the run's data is gone for whoever asks; how far its batches went is kept.
WITH jobs AS (
    UPDATE jobs SET kept = 'leaving' WHERE line = :line AND branch_id = :branch_id AND kept = 'whole'
)
UPDATE branches SET kept = 'leaving', final_sequence = coalesce(final_sequence, :through)
WHERE line = :line AND branch_id = :branch_id;

-- name: leaving(line, limit)
-- Runs whose data is being removed, with their jobs.
SELECT b.branch_id,
       ARRAY(SELECT j.job_id FROM jobs AS j WHERE j.line = :line AND j.branch_id = b.branch_id) AS jobs
FROM branches AS b
WHERE b.line = :line AND b.kept = 'leaving'
ORDER BY b.branch_id
LIMIT :limit;

-- name: leave_jobs(line, job_ids)!
-- From now on the candidates of these jobs are gone for whoever asks.
UPDATE jobs SET kept = 'leaving' WHERE line = :line AND job_id = ANY(:job_ids::text[]) AND kept = 'whole';

-- name: branchless_jobs(line, before, limit)
-- Finished jobs that no branch stands for: what a changed import proposed.
SELECT j.job_id FROM jobs AS j
WHERE j.line = :line AND j.branch_id IS NULL AND j.kept IN ('whole', 'leaving') AND j.finished_at < :before
ORDER BY j.finished_at
LIMIT :limit;

-- name: drop_candidates(line, job_ids, limit)$
-- Remove candidates of jobs; how many. What a changed import said is noted for the next comparison.
WITH gone AS (
    DELETE FROM candidates
    WHERE ctid = ANY(ARRAY(
        SELECT c.ctid FROM candidates AS c WHERE c.line = :line AND c.job_id = ANY(:job_ids::text[]) LIMIT :limit
    ))
    RETURNING line, origin_job, ordinal, op, key, scope, content_hash, origin
), said AS (
    INSERT INTO import_base AS b (line, key, scope, content_hash, revision, removed, said_at)
    SELECT DISTINCT ON (g.key) g.line, g.key, g.scope, g.content_hash, 0, g.op = 'tombstone', j.created_at
    FROM gone AS g
    JOIN jobs AS j ON j.line = :line AND j.job_id = g.origin_job AND j.origin = 'Import' AND g.origin = 'finding'
    ORDER BY g.key, j.created_at DESC, g.ordinal DESC
    ON CONFLICT (line, key) DO UPDATE
    SET scope = excluded.scope, content_hash = excluded.content_hash, revision = 0, removed = excluded.removed,
        said_at = excluded.said_at
    WHERE b.said_at IS NULL OR b.said_at <= excluded.said_at
), released AS (
    INSERT INTO released_hashes (line, hash)
    SELECT DISTINCT line, content_hash FROM gone
    ON CONFLICT (line, hash) DO UPDATE SET hash = excluded.hash
)
SELECT count(*) FROM gone;

-- name: drop_reviews(line, job_ids, limit)!
-- Remove decisions on the candidates of jobs.
DELETE FROM reviews
WHERE ctid = ANY(ARRAY(
    SELECT r.ctid FROM reviews AS r WHERE r.line = :line AND r.job_id = ANY(:job_ids::text[]) LIMIT :limit
));

-- name: drop_proposals(line, job_ids, limit)!
-- Remove what models were asked about the candidates of jobs.
DELETE FROM proposals
WHERE ctid = ANY(ARRAY(
    SELECT p.ctid FROM proposals AS p WHERE p.line = :line AND p.job_id = ANY(:job_ids::text[]) LIMIT :limit
));

-- name: drop_merges(line, job_ids, limit)!
-- Remove what was proposed to make of candidates of jobs.
DELETE FROM merges
WHERE ctid = ANY(ARRAY(
    SELECT m.ctid FROM merges AS m WHERE m.line = :line AND m.job_id = ANY(:job_ids::text[]) LIMIT :limit
));

-- name: drop_drafts(line, job_ids, limit)!
-- Remove texts that were written for jobs.
DELETE FROM drafts
WHERE ctid = ANY(ARRAY(
    SELECT d.ctid FROM drafts AS d WHERE d.line = :line AND d.job_id = ANY(:job_ids::text[]) LIMIT :limit
));

-- name: drop_holds(line, job_ids, limit)!
-- Remove what jobs were held for.
DELETE FROM recall_holds
WHERE ctid = ANY(ARRAY(
    SELECT d.ctid FROM recall_holds AS d WHERE d.line = :line AND d.job_id = ANY(:job_ids::text[]) LIMIT :limit
));

-- name: drop_evidence(line, branch_id, limit)!
-- Remove evidence that a run uploaded.
DELETE FROM evidence
WHERE ctid = ANY(ARRAY(
    SELECT e.ctid FROM evidence AS e WHERE e.line = :line AND e.branch_id = :branch_id LIMIT :limit
));

-- name: drop_batches(line, branch_id, limit)!
-- Remove batches that a run submitted.
DELETE FROM batches
WHERE ctid = ANY(ARRAY(
    SELECT b.ctid FROM batches AS b WHERE b.line = :line AND b.branch_id = :branch_id LIMIT :limit
));

-- name: drop_kv_records(line, branch_id, limit)!
-- Remove the records of a run's key-value namespaces.
DELETE FROM kv_records
WHERE ctid = ANY(ARRAY(
    SELECT k.ctid FROM kv_records AS k WHERE k.line = :line AND k.branch_id = :branch_id LIMIT :limit
));

-- name: drop_kv_checkpoints(line, branch_id, limit)!
-- Remove their checkpoints.
DELETE FROM kv_checkpoints
WHERE ctid = ANY(ARRAY(
    SELECT k.ctid FROM kv_checkpoints AS k WHERE k.line = :line AND k.branch_id = :branch_id LIMIT :limit
));

-- name: drop_kv_namespaces(line, branch_id, limit)!
-- Remove the key-value namespaces of a run.
DELETE FROM kv_namespaces
WHERE ctid = ANY(ARRAY(
    SELECT k.ctid FROM kv_namespaces AS k WHERE k.line = :line AND k.branch_id = :branch_id LIMIT :limit
));

-- name: drop_private(line, branch_id, limit)!
-- Remove the private overlay of a run.
DELETE FROM private_records
WHERE ctid = ANY(ARRAY(
    SELECT p.ctid FROM private_records AS p WHERE p.line = :line AND p.branch_id = :branch_id LIMIT :limit
));

-- name: drop_checkpoints(line, branch_id, limit)!
-- Remove the checkpoints of a run.
DELETE FROM checkpoints
WHERE ctid = ANY(ARRAY(
    SELECT c.ctid FROM checkpoints AS c WHERE c.line = :line AND c.branch_id = :branch_id LIMIT :limit
));

-- name: drop_signs(line, branch_id)!
-- Remove what a run said of itself while it went on, and what it was based on before.
WITH place AS (
    DELETE FROM followers WHERE line = :line AND branch_id = :branch_id
), lineage AS (
    DELETE FROM rebases WHERE line = :line AND branch_id = :branch_id
)
DELETE FROM presence WHERE line = :line AND branch_id = :branch_id;

-- name: drop_completion(line, branch_id)!
-- Remove the completion of a run.
DELETE FROM completions WHERE line = :line AND branch_id = :branch_id;

-- name: keep_logs(line, job_ids)!
-- Of these jobs only the rows and their logs are left.
UPDATE jobs SET kept = 'log' WHERE line = :line AND job_id = ANY(:job_ids::text[]) AND kept = 'leaving';

-- name: keep_branch_row(line, branch_id)!
-- Of this run only the row is left.
UPDATE branches SET kept = 'row' WHERE line = :line AND branch_id = :branch_id AND kept = 'leaving';

-- name: logged_jobs(line, before, limit)
-- Jobs that finished before a moment and of which row and log are left.
SELECT j.job_id FROM jobs AS j
WHERE j.line = :line AND j.kept = 'log' AND j.finished_at < :before
ORDER BY j.finished_at
LIMIT :limit;

-- name: drop_transitions(line, job_ids, limit)!
-- Remove what happened to jobs.
DELETE FROM transitions
WHERE ctid = ANY(ARRAY(
    SELECT t.ctid FROM transitions AS t WHERE t.line = :line AND t.job_id = ANY(:job_ids::text[]) LIMIT :limit
));

-- name: keep_rows(line, job_ids)!
-- Of these jobs only the rows are left.
UPDATE jobs SET kept = 'row' WHERE line = :line AND job_id = ANY(:job_ids::text[]) AND kept = 'log';

-- name: drop_jobs(line, limit)!
-- Remove rows of jobs whose resource is gone; not of an import that a job split off from it still speaks of.
WITH gone AS (
    DELETE FROM jobs
    WHERE ctid = ANY(ARRAY(
        SELECT j.ctid FROM jobs AS j
        WHERE j.line = :line AND j.kept = 'row' AND (j.deleted_at IS NOT NULL OR j.uid IS NULL)
          AND NOT EXISTS (SELECT FROM candidates AS c WHERE c.line = :line AND c.origin_job = j.job_id)
        LIMIT :limit
    ))
    RETURNING line, job_id
), publication AS (
    DELETE FROM publications AS p USING gone WHERE p.line = :line AND p.job_id = gone.job_id
)
SELECT FROM gone;

-- name: drop_branches(line, limit)!
-- Remove rows of runs whose resource is gone, and of which no job is left.
DELETE FROM branches
WHERE ctid = ANY(ARRAY(
    SELECT b.ctid FROM branches AS b
    WHERE b.line = :line AND b.kept = 'row' AND b.deleted_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.line = :line AND j.branch_id = b.branch_id)
    LIMIT :limit
));
