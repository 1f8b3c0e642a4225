-- name: request(line, retraction_id, key, revision, scope, content_hash, reason, requested_by)^
-- Ask for something to be withdrawn; no row: that is asked for already, or was withdrawn.
INSERT INTO retractions (line, retraction_id, key, revision, scope, content_hash, reason, requested_by)
VALUES (:line, :retraction_id, :key, :revision, :scope, :content_hash, :reason, :requested_by)
ON CONFLICT (line, key, content_hash) WHERE state IN ('requested', 'proposed') DO NOTHING
RETURNING *;

-- name: open_of(line, key, content_hash)^
-- The retraction of what a key says that is not decided yet.
SELECT * FROM retractions
WHERE line = :line AND key = :key AND content_hash = :content_hash AND state IN ('requested', 'proposed');

-- name: get(line, retraction_id)^
-- A retraction by its id.
SELECT * FROM retractions WHERE line = :line AND retraction_id = :retraction_id;

-- name: page(line, scopes, before, limit)
-- Retractions in some scopes, the newest first, older than one.
SELECT * FROM retractions
WHERE line = :line AND scope = ANY(:scopes::text[]) AND (:before = '' OR retraction_id < :before)
ORDER BY retraction_id DESC
LIMIT :limit;

-- name: of_key(line, key, scopes)
-- The retractions of a key, the newest first.
SELECT * FROM retractions
WHERE line = :line AND key = :key AND scope = ANY(:scopes::text[])
ORDER BY retraction_id DESC;

-- name: requested(limit)
-- Retractions of any line that no job has yet, the oldest first.
SELECT t.line, t.retraction_id FROM retractions AS t
JOIN lines AS l ON l.line = t.line
WHERE t.state = 'requested' AND l.condemned_at IS NULL
ORDER BY t.requested_at
LIMIT :limit;

-- name: take(line, retraction_id)^
-- A retraction that no job has yet, which nobody else gives one until the transaction ends; no row: somebody has.
SELECT * FROM retractions
WHERE line = :line AND retraction_id = :retraction_id AND state = 'requested'
FOR UPDATE SKIP LOCKED;

-- name: propose(line, retraction_id, job_id)!
-- Note which job has a retraction decided.
UPDATE retractions SET state = 'proposed', job_id = :job_id WHERE line = :line AND retraction_id = :retraction_id;

-- name: void(line, retraction_id, detail)!
-- End a retraction of which there is nothing to decide.
UPDATE retractions SET state = 'void', detail = :detail, decided_at = clock_timestamp()
WHERE line = :line AND retraction_id = :retraction_id;

-- name: of_job(line, job_id)^
-- The retraction that a job decides.
SELECT * FROM retractions WHERE line = :line AND job_id = :job_id;

-- name: settle(line, job_id)!
-- Note what a job has decided: it has published something, or nothing, because of its reviewers or because there was
-- nothing to decide any more.
UPDATE retractions AS t
SET state = CASE WHEN p.generation IS NOT NULL THEN 'published' WHEN p.refused THEN 'rejected' ELSE 'void' END,
    detail = CASE WHEN p.generation IS NULL AND NOT p.refused THEN 'nothing of it is in the baseline any more' ELSE '' END,
    generation = p.generation, decided_at = clock_timestamp()
FROM (
    SELECT (SELECT p.generation FROM publications AS p WHERE p.line = :line AND p.job_id = :job_id) AS generation,
           EXISTS (SELECT FROM candidates AS c
                   WHERE c.line = :line AND c.job_id = :job_id AND c.state = 'rejected') AS refused
) AS p
WHERE t.line = :line AND t.job_id = :job_id AND t.state = 'proposed';

-- name: any_published(line)$
-- Whether anything of a line was ever withdrawn.
SELECT EXISTS (SELECT FROM retractions WHERE line = :line AND state = 'published');

-- name: withdrawn(line, key, content_hash)^
-- How what a key says was withdrawn; no row: it was not.
SELECT * FROM retractions
WHERE line = :line AND key = :key AND content_hash = :content_hash AND state = 'published'
ORDER BY retraction_id DESC
LIMIT 1;

-- name: withdrawn_among(line, keys, content_hashes)
-- Those of some statements that were withdrawn.
SELECT DISTINCT t.key, t.content_hash
FROM unnest(:keys::text[], :content_hashes::bytea[]) AS w (key, content_hash)
JOIN retractions AS t ON t.line = :line AND t.key = w.key AND t.content_hash = w.content_hash AND t.state = 'published';

-- name: reinstate(line, keys, content_hashes)!
-- Note that reviewers have accepted again what was withdrawn.
UPDATE retractions AS t SET state = 'reinstated', decided_at = clock_timestamp()
FROM unnest(:keys::text[], :content_hashes::bytea[]) AS w (key, content_hash)
WHERE t.line = :line AND t.key = w.key AND t.content_hash = w.content_hash AND t.state = 'published';
