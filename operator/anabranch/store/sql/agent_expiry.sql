-- name: drop_events(before, limit)!
-- Remove events of any agent that are older, the oldest first, unless somebody works on them now, or is about to.
DELETE FROM agent_events
WHERE ctid = ANY(ARRAY(
    SELECT e.ctid FROM agent_events AS e
    WHERE e.created_at < :before AND NOT (e.status = 'claimed' AND e.due_at > statement_timestamp())
    ORDER BY e.created_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
));

-- name: drop_receipts(before, limit)!
-- Remove receipts of exchanges of any agent that are older, the oldest first.
DELETE FROM agent_receipts
WHERE ctid = ANY(ARRAY(
    SELECT r.ctid FROM agent_receipts AS r WHERE r.received_at < :before ORDER BY r.received_at LIMIT :limit
));
