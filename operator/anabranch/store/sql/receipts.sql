-- name: receive(lines, branch_ids, sequences, receipt_ids, content_hashes, bodies, changes, finals, traceparents, window, batch_bytes)
-- Receive batches, or find those that have their places; one without a row may not come (see refusal), or met a race.
--
-- All checks are part of the one statement that writes. The key-share lock on a branch is what the foreign key would take
-- anyhow; taken here, it waits for a completion that is being submitted and then reads final_sequence as that left it. A
-- duplicate takes no lock and writes nothing. The prefix is a lower bound: a batch that another transaction brings in just
-- now is counted by whoever comes next. The walk leaps over what this statement brings, and goes on step by step over what
-- is there. It asks for a value, not for EXISTS, which the planner would answer by hashing all batches of the branch. Places
-- are taken in one order, so that two statements never wait for each other.
WITH RECURSIVE arrived AS MATERIALIZED (
    SELECT *
    FROM unnest(:lines::text[], :branch_ids::text[], :sequences::bigint[], :receipt_ids::text[], :content_hashes::bytea[],
                :bodies::bytea[], :changes::integer[], :finals::boolean[], :traceparents::text[])
         WITH ORDINALITY AS a (line, branch_id, sequence, receipt_id, content_hash, body, changes, final, traceparent, place)
), known AS MATERIALIZED (
    SELECT a.place, b.line, b.branch_id, b.receipt_id, b.content_hash, b.received_at
    FROM arrived AS a
    JOIN batches AS b ON b.line = a.line AND b.branch_id = a.branch_id AND b.sequence = a.sequence
), branch AS MATERIALIZED (
    SELECT b.line, b.branch_id, b.final_sequence,
           coalesce((l.policy #>> '{limits,batchBytes}')::bigint, :batch_bytes::bigint) AS batch_bytes
    FROM (SELECT DISTINCT a.line, a.branch_id FROM arrived AS a
          WHERE NOT EXISTS (SELECT FROM known AS k WHERE k.place = a.place)) AS wanted
    JOIN branches AS b ON b.line = wanted.line AND b.branch_id = wanted.branch_id
    JOIN lines AS l ON l.line = b.line
    WHERE b.phase IN ('Active', 'Stale') AND b.kept = 'whole' AND b.deleted_at IS NULL
    FOR KEY SHARE OF b
), fit AS MATERIALIZED (
    SELECT a.*, a.sequence - dense_rank() OVER (PARTITION BY a.line, a.branch_id ORDER BY a.sequence) AS run
    FROM arrived AS a
    JOIN branch AS b ON b.line = a.line AND b.branch_id = a.branch_id
    WHERE octet_length(a.body) <= b.batch_bytes AND (b.final_sequence IS NULL OR b.final_sequence >= a.sequence)
), runs AS MATERIALIZED (
    SELECT f.line, f.branch_id, min(f.sequence) AS first, max(f.sequence) AS last
    FROM fit AS f
    GROUP BY f.line, f.branch_id, f.run
), walk (line, branch_id, n) AS (
    SELECT a.line, a.branch_id, greatest(
        (SELECT b.prefix FROM batches AS b
         WHERE b.line = a.line AND b.branch_id = a.branch_id ORDER BY b.sequence DESC LIMIT 1),
        (SELECT b.prefix FROM batches AS b
         WHERE b.line = a.line AND b.branch_id = a.branch_id AND b.sequence = min(a.sequence) - 1),
        0)
    FROM arrived AS a
    GROUP BY a.line, a.branch_id
    UNION ALL
    SELECT further.line, further.branch_id, further.n
    FROM (
        SELECT w.line, w.branch_id, coalesce(
            (SELECT r.last FROM runs AS r
             WHERE r.line = w.line AND r.branch_id = w.branch_id AND w.n + 1 BETWEEN r.first AND r.last),
            (SELECT b.sequence FROM batches AS b
             WHERE b.line = w.line AND b.branch_id = w.branch_id AND b.sequence = w.n + 1)) AS n
        FROM walk AS w
    ) AS further
    WHERE further.n IS NOT NULL
), reach AS MATERIALIZED (
    SELECT w.line, w.branch_id, max(w.n) AS prefix FROM walk AS w GROUP BY w.line, w.branch_id
), made AS (
    INSERT INTO batches (line, branch_id, sequence, receipt_id, content_hash, body, changes, final, traceparent, prefix)
    SELECT f.line, f.branch_id, f.sequence, f.receipt_id, f.content_hash, f.body, f.changes, f.final, f.traceparent, r.prefix
    FROM fit AS f
    JOIN reach AS r ON r.line = f.line AND r.branch_id = f.branch_id
    WHERE f.sequence <= r.prefix + :window::bigint AND NOT EXISTS (SELECT FROM known AS k WHERE k.place = f.place)
    ORDER BY f.line, f.branch_id, f.sequence, f.place
    ON CONFLICT (line, branch_id, sequence) DO NOTHING
    RETURNING line, branch_id, receipt_id, content_hash, received_at
)
SELECT a.place, m.receipt_id, m.content_hash, m.received_at, r.prefix AS contiguous_through, false AS duplicate,
       coalesce(b.final_sequence <= r.prefix, false) AS completes
FROM made AS m
JOIN arrived AS a ON a.receipt_id = m.receipt_id
JOIN reach AS r ON r.line = m.line AND r.branch_id = m.branch_id
JOIN branch AS b ON b.line = m.line AND b.branch_id = m.branch_id
UNION ALL
SELECT k.place, k.receipt_id, k.content_hash, k.received_at, r.prefix, true,
       coalesce(b.phase <> 'Completed' AND b.final_sequence <= r.prefix, false)
FROM known AS k
JOIN reach AS r ON r.line = k.line AND r.branch_id = k.branch_id
JOIN branches AS b ON b.line = k.line AND b.branch_id = k.branch_id AND b.kept = 'whole' AND b.deleted_at IS NULL;

-- name: refusal(line, branch_id, sequence)^
-- What a refused batch may have run into, and whether its place is taken by now.
SELECT b.phase, b.final_sequence, b.kept, b.deleted_at, (l.policy #>> '{limits,batchBytes}')::bigint AS batch_bytes,
       EXISTS (SELECT FROM batches AS t
               WHERE t.line = :line AND t.branch_id = :branch_id AND t.sequence = :sequence) AS taken
FROM branches AS b
JOIN lines AS l ON l.line = b.line
WHERE b.line = :line AND b.branch_id = :branch_id;
