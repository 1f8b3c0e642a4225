-- name: lock(line, branch_id)$
-- The branch's phase, once the receipts that are under way have ended; later ones wait, and then see final_sequence.
SELECT phase FROM branches WHERE line = :line AND branch_id = :branch_id FOR UPDATE;

-- name: last_sequence(line, branch_id)$
-- The newest batch that was received.
SELECT coalesce(max(sequence), 0) FROM batches WHERE line = :line AND branch_id = :branch_id;

-- name: submit(line, branch_id, run_id, content_hash, body, last_submitted_sequence)!
-- Keep a completion, and let no later batch in.
WITH ended AS (
    UPDATE branches SET final_sequence = :last_submitted_sequence, version = version + 1
    WHERE line = :line AND branch_id = :branch_id
)
INSERT INTO completions (line, branch_id, run_id, content_hash, body, last_submitted_sequence)
VALUES (:line, :branch_id, :run_id, :content_hash, :body, :last_submitted_sequence);

-- name: get(line, branch_id)^
-- The completion of a run.
SELECT line, branch_id, run_id, content_hash, body, last_submitted_sequence, received_at, closed_at
FROM completions
WHERE line = :line AND branch_id = :branch_id;

-- name: close(line, branch_id, through)$
-- Close the run if its completion waits for no batch after `through`, and have its agent's other sessions told.
WITH closed AS (
    UPDATE branches
    SET phase = 'Completed', finished_at = now(), version = version + 1
    WHERE line = :line AND branch_id = :branch_id AND phase IN ('Active', 'Stale') AND final_sequence <= :through::bigint
    RETURNING line, branch_id
), told AS (
    INSERT INTO agent_outbox (line, outbox_id, kind, branch_id, details)
    SELECT line, gen_random_uuid()::text, 'run.completed', branch_id, jsonb_build_object('batches', :through::bigint)
    FROM closed
)
UPDATE completions AS c
SET closed_at = now()
FROM closed
WHERE c.line = :line AND c.branch_id = :branch_id AND c.line = closed.line AND c.branch_id = closed.branch_id
RETURNING true;

-- name: ready(limit)
-- Completions of which every batch is in: sequences are distinct, so there are as many as the last one says.
SELECT c.line, c.branch_id
FROM completions AS c
JOIN branches AS r ON r.line = c.line AND r.branch_id = c.branch_id AND r.phase IN ('Active', 'Stale')
WHERE c.closed_at IS NULL
  AND c.last_submitted_sequence =
      (SELECT count(*) FROM batches AS b WHERE b.line = c.line AND b.branch_id = c.branch_id)
LIMIT :limit;
