-- name: add(line, kinds, branch_ids, details)!
-- Keep what agents are to be told, in the transaction that makes it true.
INSERT INTO agent_outbox (line, outbox_id, kind, branch_id, details)
SELECT :line, gen_random_uuid()::text, n.kind, n.branch_id, n.details
FROM unnest(:kinds::text[], :branch_ids::text[], :details::jsonb[]) AS n (kind, branch_id, details);

-- name: claim(limit, hold)
-- Take what is due in any line, the oldest first, and what it is about. It comes up again after a while, each time a longer
-- one, unless it is removed.
WITH due AS MATERIALIZED (
    SELECT o.line, o.outbox_id
    FROM agent_outbox AS o
    WHERE o.due_at <= statement_timestamp()
    ORDER BY o.due_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE agent_outbox
    SET attempts = attempts + 1, due_at = statement_timestamp() + :hold::interval * (1 << least(attempts, 6))
    -- Each id is one of its own, so the two lists match pairwise.
    WHERE line = ANY(ARRAY(SELECT due.line FROM due)) AND outbox_id = ANY(ARRAY(SELECT due.outbox_id FROM due))
    RETURNING line, outbox_id, kind, branch_id, details, progress, attempts, created_at
)
SELECT t.*, l.namespace AS baseline_namespace, l.name AS baseline_name,
       b.namespace, b.name AS branch_name, b.run_id, b.agent_id, b.agent_instance
FROM taken AS t
JOIN lines AS l ON l.line = t.line
LEFT JOIN branches AS b ON b.line = t.line AND b.branch_id = t.branch_id
ORDER BY t.created_at, t.outbox_id;

-- name: live_branches(line, after, known_by, generation, limit)
-- Runs that are going on and that a move of the line's records concerns: those that were there before it, and those that
-- have another generation for a parent than the one which readers see since.
SELECT b.branch_id, b.namespace, b.name AS branch_name, b.run_id, b.agent_id, b.agent_instance
FROM branches AS b
WHERE b.line = :line AND b.branch_id > :after AND b.phase IN ('Active', 'Stale') AND b.deleted_at IS NULL
  AND (b.created_at <= :known_by OR b.parent_generation <> :generation::bigint)
ORDER BY b.branch_id
LIMIT :limit;

-- name: witnesses(line, after, key, content_hash, limit)
-- Runs that have what a key once said, or had: their parent shows it, or one before a rebase, or they have come to the end
-- of the publication that brought it.
SELECT b.branch_id, b.namespace, b.name AS branch_name, b.run_id, b.agent_id, b.agent_instance
FROM branches AS b
LEFT JOIN followers AS f ON f.line = :line AND f.branch_id = b.branch_id
WHERE b.line = :line AND b.branch_id > :after AND b.deleted_at IS NULL AND b.kept = 'whole'
  AND b.phase IN ('Active', 'Stale', 'Completed')
  AND EXISTS (
      SELECT FROM record_versions AS v
      LEFT JOIN manifests AS m ON m.line = :line AND m.generation = v.from_generation
      WHERE v.line = :line AND v.key = :key AND v.content_hash = :content_hash AND NOT v.tombstone
        AND ((b.parent_generation >= v.from_generation AND b.parent_generation < v.to_generation)
             OR (b.forked_generation >= v.from_generation AND b.forked_generation < v.to_generation)
             OR EXISTS (SELECT FROM rebases AS r
                        WHERE r.line = :line AND r.branch_id = b.branch_id
                          AND r.from_generation >= v.from_generation AND r.from_generation < v.to_generation)
             OR (coalesce(b.forked_generation, b.parent_generation) < v.from_generation
                 AND (f.generation >= v.from_generation OR f.sequence >= m.feed_watermark))))
ORDER BY b.branch_id
LIMIT :limit;

-- name: settle(line, outbox_ids)!
-- Remove what was told.
DELETE FROM agent_outbox WHERE line = :line AND outbox_id = ANY(:outbox_ids::text[]);

-- name: go_on(line, outbox_id, progress)!
-- Note how far the runs of a line were told; the next ones are due at once.
UPDATE agent_outbox
SET progress = :progress, attempts = 0, due_at = statement_timestamp()
WHERE line = :line AND outbox_id = :outbox_id AND progress < :progress;
