-- name: receive(line, branch_id, sequence, receipt_id, content_hash, body, changes, final, window)^
-- Receive a batch, or find the one that has its place; no row: it may not come (see refusal), or a race.
--
-- All checks are part of the one statement that writes. The key-share lock on the branch is what the foreign key would take
-- anyhow; taken here, it waits for a completion that is being submitted and then reads final_sequence as that left it. A
-- duplicate takes no lock and writes nothing. The prefix is a lower bound: a batch that another transaction brings in just
-- now is counted by whoever comes next. The walk asks for a value, not for EXISTS, which the planner would answer by hashing
-- all batches of the branch.
WITH RECURSIVE known AS MATERIALIZED (
    SELECT b.receipt_id, b.content_hash, b.received_at
    FROM batches AS b
    WHERE b.line = :line AND b.branch_id = :branch_id AND b.sequence = :sequence::bigint
), branch AS MATERIALIZED (
    SELECT b.final_sequence
    FROM branches AS b
    WHERE b.line = :line AND b.branch_id = :branch_id AND b.phase IN ('Active', 'Stale')
      AND (b.final_sequence IS NULL OR b.final_sequence >= :sequence::bigint)
      AND NOT EXISTS (SELECT FROM known)
    FOR KEY SHARE OF b
), walk (n) AS (
    SELECT greatest(
        (SELECT b.prefix FROM batches AS b
         WHERE b.line = :line AND b.branch_id = :branch_id ORDER BY b.sequence DESC LIMIT 1),
        (SELECT b.prefix FROM batches AS b
         WHERE b.line = :line AND b.branch_id = :branch_id AND b.sequence = :sequence::bigint - 1),
        0)
    UNION ALL
    SELECT walk.n + 1 FROM walk
    WHERE walk.n + 1 = :sequence::bigint
       OR (SELECT true FROM batches AS b
           WHERE b.line = :line AND b.branch_id = :branch_id AND b.sequence = walk.n + 1)
), reach AS MATERIALIZED (
    SELECT max(n) AS prefix FROM walk
), made AS (
    INSERT INTO batches (line, branch_id, sequence, receipt_id, content_hash, body, changes, final, prefix)
    SELECT :line, :branch_id, :sequence::bigint, :receipt_id, :content_hash, :body, :changes, :final, reach.prefix
    FROM branch, reach
    WHERE :sequence::bigint <= reach.prefix + :window::bigint
    ON CONFLICT (line, branch_id, sequence) DO NOTHING
    RETURNING receipt_id, content_hash, received_at
)
SELECT made.receipt_id, made.content_hash, made.received_at, reach.prefix AS contiguous_through, false AS duplicate,
       coalesce(branch.final_sequence <= reach.prefix, false) AS completes
FROM made, branch, reach
UNION ALL
SELECT known.receipt_id, known.content_hash, known.received_at, reach.prefix, true,
       EXISTS (SELECT FROM branches AS b WHERE b.line = :line AND b.branch_id = :branch_id
               AND b.phase <> 'Completed' AND b.final_sequence <= reach.prefix)
FROM known, reach;

-- name: refusal(line, branch_id)^
-- What a refused batch may have run into.
SELECT phase, final_sequence FROM branches WHERE line = :line AND branch_id = :branch_id;

-- name: get(line, branch_id, sequence)^
-- A batch with its body.
SELECT line, branch_id, sequence, receipt_id, content_hash, body, changes, final, received_at, job_id
FROM batches
WHERE line = :line AND branch_id = :branch_id AND sequence = :sequence;

-- name: of_range(line, branch_id, from_sequence, through_sequence)
-- The batches of a job, in order.
SELECT line, branch_id, sequence, receipt_id, content_hash, body, changes, final, received_at, job_id
FROM batches
WHERE line = :line AND branch_id = :branch_id AND sequence BETWEEN :from_sequence AND :through_sequence
ORDER BY sequence;

-- name: page(line, branch_id, after, limit)
-- The receipts of a branch, without the bodies.
SELECT sequence, receipt_id, content_hash, changes, final, received_at, job_id
FROM batches
WHERE line = :line AND branch_id = :branch_id AND sequence > :after
ORDER BY sequence
LIMIT :limit;

-- name: unassigned(limit)
-- Branches whose next batches could go into a job now: one step of the index a branch, however many batches wait.
WITH RECURSIVE pending (line, branch_id) AS (
    (SELECT b.line, b.branch_id FROM batches AS b WHERE b.job_id IS NULL ORDER BY b.line, b.branch_id LIMIT 1)
    UNION ALL
    SELECT further.line, further.branch_id
    FROM pending
    CROSS JOIN LATERAL (
        SELECT b.line, b.branch_id FROM batches AS b
        WHERE b.job_id IS NULL AND (b.line, b.branch_id) > (pending.line, pending.branch_id)
        ORDER BY b.line, b.branch_id LIMIT 1
    ) AS further
)
SELECT p.line, p.branch_id, l.namespace, first.received_at AS oldest_received_at
FROM pending AS p
JOIN lines AS l ON l.line = p.line AND l.deleted_at IS NULL
JOIN line_heads AS h ON h.line = p.line AND NOT h.suspended AND h.pinned_generation IS NULL
CROSS JOIN LATERAL (
    SELECT b.sequence, b.received_at FROM batches AS b
    WHERE b.line = p.line AND b.branch_id = p.branch_id AND b.job_id IS NULL
    ORDER BY b.sequence LIMIT 1
) AS first
LEFT JOIN LATERAL (
    SELECT j.from_sequence, j.through_sequence FROM jobs AS j
    WHERE j.line = p.line AND j.branch_id = p.branch_id AND j.origin = 'Branch'
      AND first.sequence BETWEEN j.from_sequence AND j.through_sequence
) AS reserved ON true
WHERE (first.sequence = 1
       OR EXISTS (SELECT FROM batches AS b
                  WHERE b.line = p.line AND b.branch_id = p.branch_id AND b.sequence = first.sequence - 1))
  AND CASE
      WHEN reserved.from_sequence IS NULL
      THEN NOT EXISTS (SELECT FROM jobs AS j
                       WHERE j.line = p.line AND j.branch_id = p.branch_id AND j.origin = 'Branch'
                         AND j.automatic AND j.finished_at IS NULL AND j.state <> 'awaiting_review')
      ELSE reserved.through_sequence - reserved.from_sequence + 1 =
           (SELECT count(*) FROM batches AS b
            WHERE b.line = p.line AND b.branch_id = p.branch_id
              AND b.sequence BETWEEN reserved.from_sequence AND reserved.through_sequence)
      END
LIMIT :limit;
