-- For how long the resource of a run or of a job is kept after the end: spec.ttlAfterFinished of the Branch,
-- spec.ttlSecondsAfterFinished of the ConsolidationJob. What is here already has none, and is kept: an upgrade deletes
-- nothing.
ALTER TABLE branches
    ADD COLUMN ttl_seconds bigint,
    -- Of batches that came while the line was paused, what the status was told last: the newest, and how many wait.
    ADD COLUMN told_newest bigint,
    ADD COLUMN told_waiting bigint;
ALTER TABLE jobs ADD COLUMN ttl_seconds bigint;

-- By when they go. An index takes no moment with a zone, for settings could move it: so UTC, without one.
CREATE INDEX branches_expiring ON branches ((timezone('UTC', finished_at) + make_interval(secs => ttl_seconds)))
    WHERE finished_at IS NOT NULL AND ttl_seconds IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX jobs_expiring ON jobs ((timezone('UTC', finished_at) + make_interval(secs => ttl_seconds)))
    WHERE finished_at IS NOT NULL AND ttl_seconds IS NOT NULL AND deleted_at IS NULL;
