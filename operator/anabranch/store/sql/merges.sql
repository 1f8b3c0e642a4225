-- name: put_draft(line, job_id, content_hash, body, uploaded_by)!
-- Keep a text that somebody has written for a job; one that is there stays as it is.
INSERT INTO drafts (line, job_id, content_hash, body, uploaded_by)
VALUES (:line, :job_id, :content_hash, :body, :uploaded_by)
ON CONFLICT (line, job_id, content_hash) DO NOTHING;

-- name: draft_room(line, job_id, content_hash, uploaded_by)^
-- How many other texts of somebody a job has, and their bytes together; and how many merges.
SELECT count(*) AS drafts, coalesce(sum(octet_length(d.body)), 0) AS bytes,
       (SELECT count(*) FROM merges AS m WHERE m.line = :line AND m.job_id = :job_id AND m.author = :uploaded_by) AS merges
FROM drafts AS d
WHERE d.line = :line AND d.job_id = :job_id AND d.content_hash <> :content_hash AND d.uploaded_by = :uploaded_by;

-- name: propose(line, candidate_id, job_id, digest, origin, author, model, key, content_hash, inputs, base_revision, with_record)^
-- Propose a merge; no row: the same is proposed already.
INSERT INTO merges (line, candidate_id, job_id, digest, origin, author, model, key, content_hash, inputs, base_revision,
                    with_record)
VALUES (:line, :candidate_id, :job_id, :digest, :origin, :author, :model, :key, :content_hash, :inputs, :base_revision,
        :with_record)
ON CONFLICT (line, digest) WHERE state <> 'void' DO NOTHING
RETURNING *;

-- name: same(line, digest)^
-- The merge that is the same as another one, unless it is void.
SELECT * FROM merges WHERE line = :line AND digest = :digest AND state <> 'void';

-- name: known(line, job_id, digests)
-- Which merges of a job there are already, void ones among them.
SELECT digest FROM merges WHERE line = :line AND job_id = :job_id AND digest = ANY(:digests::bytea[]);

-- name: page(line, job_id, after, limit)
-- The merges of a job by id.
SELECT * FROM merges
WHERE line = :line AND job_id = :job_id AND candidate_id > :after
ORDER BY candidate_id
LIMIT :limit;

-- name: requested(line, job_id)
-- The merges of a job of which no candidate was made yet, with their texts as far as these are there.
SELECT m.*, d.body
FROM merges AS m
LEFT JOIN LATERAL (
    SELECT t.body FROM drafts AS t
    WHERE t.line = :line AND t.job_id = m.job_id AND t.content_hash = m.content_hash
) AS d ON true
WHERE m.line = :line AND m.job_id = :job_id AND m.state = 'requested'
ORDER BY m.candidate_id;

-- name: settle(line, candidate_ids, states, details)!
-- Note what became of merges.
UPDATE merges AS m SET state = s.state, detail = s.detail
FROM unnest(:candidate_ids::text[], :states::text[], :details::text[]) AS s (candidate_id, state, detail)
WHERE m.line = :line AND m.candidate_id = s.candidate_id;

-- name: void_requested(line, job_id, detail)!
-- End the merges of a job of which no candidate was made.
UPDATE merges SET state = 'void', detail = :detail WHERE line = :line AND job_id = :job_id AND state = 'requested';

-- name: follow(line, from_job, to_job)$
-- Hand the merges of which no candidate was made yet over to another job, with their texts; how many.
WITH moved AS (
    UPDATE merges SET job_id = :to_job
    WHERE line = :line AND job_id = :from_job AND state = 'requested'
    RETURNING content_hash
), texts AS (
    INSERT INTO drafts (line, job_id, content_hash, body, uploaded_by, uploaded_at)
    SELECT d.line, :to_job, d.content_hash, d.body, d.uploaded_by, d.uploaded_at
    FROM drafts AS d
    WHERE d.line = :line AND d.job_id = :from_job AND d.content_hash IN (SELECT moved.content_hash FROM moved)
    ON CONFLICT (line, job_id, content_hash) DO NOTHING
)
SELECT count(*) FROM moved;
