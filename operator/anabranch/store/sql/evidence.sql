-- name: lock(line, branch_id)$
-- One upload to a branch at a time, so that its budget holds; receipts are not kept waiting. What is kept of the branch:
-- where retention removes what a run brought, it would leave behind what comes now.
SELECT kept FROM branches WHERE line = :line AND branch_id = :branch_id FOR NO KEY UPDATE;

-- name: put(line, branch_id, digest, size, media_type, body, budget)$
-- Keep a blob unless the branch would be over its budget; no value: it would.
INSERT INTO evidence (line, branch_id, digest, size, media_type, body)
SELECT :line, :branch_id, :digest, :size::bigint, :media_type, :body
WHERE :size::bigint + coalesce((SELECT sum(e.size) FROM evidence AS e
                                WHERE e.line = :line AND e.branch_id = :branch_id), 0) <= :budget::bigint
RETURNING true;

-- name: get(line, branch_id, digest)^
-- A blob of this branch.
SELECT line, branch_id, digest, size, media_type, body, created_at
FROM evidence
WHERE line = :line AND branch_id = :branch_id AND digest = :digest;

-- name: present(line, branch_id, digests)
-- Which of these blobs this branch has uploaded.
SELECT digest
FROM evidence
WHERE line = :line AND branch_id = :branch_id AND digest = ANY(:digests::bytea[]);
