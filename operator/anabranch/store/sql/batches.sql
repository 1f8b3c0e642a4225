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

-- name: traces(line, branch_id, from_sequence, through_sequence, limit)
-- The recorded traces that the batches of a job came with, each once, in order.
SELECT b.traceparent
FROM batches AS b
WHERE b.line = :line AND b.branch_id = :branch_id AND b.sequence BETWEEN :from_sequence AND :through_sequence
  AND b.traceparent LIKE '%-01'
GROUP BY b.traceparent
ORDER BY min(b.sequence)
LIMIT :limit;

-- name: ages(line, branch_ids, from_sequences, through_sequences, limit)
-- Since when the batches of some jobs are here, in seconds; of so many at most.
SELECT extract(epoch FROM clock_timestamp() - b.received_at)::float8 AS age
FROM unnest(:branch_ids::text[], :from_sequences::bigint[], :through_sequences::bigint[]) AS j (branch_id, first, last)
JOIN batches AS b ON b.line = :line AND b.branch_id = j.branch_id AND b.sequence BETWEEN j.first AND j.last
LIMIT :limit;

-- name: page(line, branch_id, after, limit)
-- The receipts of a branch, without the bodies.
SELECT sequence, receipt_id, content_hash, changes, final, received_at, job_id
FROM batches
WHERE line = :line AND branch_id = :branch_id AND sequence > :after
ORDER BY sequence
LIMIT :limit;

-- name: untold(limit)
-- Branches of paused lines to which batches came since their statuses told of them: the newest one, and how many wait.
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
SELECT p.line, p.branch_id, newest.sequence AS newest, counted.waiting
FROM pending AS p
JOIN line_heads AS h ON h.line = p.line AND (h.suspended OR h.pinned_generation IS NOT NULL)
JOIN branches AS r ON r.line = p.line AND r.branch_id = p.branch_id
CROSS JOIN LATERAL (
    SELECT b.sequence FROM batches AS b
    WHERE b.line = p.line AND b.branch_id = p.branch_id
    ORDER BY b.sequence DESC LIMIT 1
) AS newest
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting FROM batches AS b
    WHERE b.line = p.line AND b.branch_id = p.branch_id AND b.job_id IS NULL
) AS counted
WHERE (r.told_newest, r.told_waiting) IS DISTINCT FROM (newest.sequence, counted.waiting)
LIMIT :limit;

-- name: tell(line, branch_id, newest, waiting)!
-- Have a branch's status tell of its batches.
UPDATE branches SET told_newest = :newest, told_waiting = :waiting, version = version + 1
WHERE line = :line AND branch_id = :branch_id;

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
