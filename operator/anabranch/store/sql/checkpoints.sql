-- name: lock(line, branch_id)$
-- One checkpoint of a branch at a time, so that they have an order; its phase. Receipts are not kept waiting.
SELECT phase FROM branches WHERE line = :line AND branch_id = :branch_id AND kept = 'whole' FOR NO KEY UPDATE;

-- name: get(line, branch_id, checkpoint_id)^
-- A checkpoint of this branch.
SELECT line, branch_id, checkpoint_id, session_id, ordinal, content_hash, body, created_at
FROM checkpoints
WHERE line = :line AND branch_id = :branch_id AND checkpoint_id = :checkpoint_id;

-- name: latest(line, branch_id, session_id)$
-- The id of a session's newest checkpoint.
SELECT checkpoint_id
FROM checkpoints
WHERE line = :line AND branch_id = :branch_id AND session_id = :session_id
ORDER BY ordinal DESC
LIMIT 1;

-- name: add(line, branch_id, checkpoint_id, session_id, content_hash, body, most)^
-- Keep a checkpoint as the newest of its branch; no row: there are as many as there may be.
INSERT INTO checkpoints (line, branch_id, checkpoint_id, session_id, ordinal, content_hash, body)
SELECT :line, :branch_id, :checkpoint_id, :session_id, newest.ordinal + 1, :content_hash::bytea, :body::bytea
FROM (SELECT coalesce((SELECT c.ordinal FROM checkpoints AS c
                       WHERE c.line = :line AND c.branch_id = :branch_id
                       ORDER BY c.ordinal DESC LIMIT 1), 0) AS ordinal) AS newest
WHERE newest.ordinal < :most::bigint
RETURNING line, branch_id, checkpoint_id, session_id, ordinal, content_hash, body, created_at;

-- name: page(line, branch_id, session_id, before, limit)
-- The checkpoints of a branch, or of one session of it, newest first, before one.
SELECT line, branch_id, checkpoint_id, session_id, ordinal, content_hash, body, created_at
FROM checkpoints
WHERE line = :line AND branch_id = :branch_id AND ordinal < :before
  AND (:session_id::text IS NULL OR session_id = :session_id)
ORDER BY ordinal DESC
LIMIT :limit;
