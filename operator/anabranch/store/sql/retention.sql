-- name: claim(hold)^
-- The line of any Baseline at which retention is due to look, kept from others for a while.
UPDATE lines SET retain_at = now() + :hold::interval
WHERE line = ANY(ARRAY(
    SELECT line FROM lines WHERE retain_at <= now() AND deleted_at IS NULL
    ORDER BY retain_at LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING line, policy, retain_at;

-- name: settle(line, retain_at, pause)!
-- The look that was claimed is done; one that was asked for meanwhile stays.
UPDATE lines SET retain_at = now() + :pause::interval WHERE line = :line AND retain_at = :retain_at;

-- name: last_old_event(line, floor, before, limit)$
-- The last of the oldest events, of so many at most, that were told before a moment without a younger one among them.
SELECT coalesce(min(e.sequence) FILTER (WHERE e.created_at >= :before) - 1, max(e.sequence))
FROM (
    SELECT v.sequence, v.created_at FROM events AS v
    WHERE v.line = :line AND v.sequence > :floor
    ORDER BY v.sequence LIMIT :limit
) AS e;

-- name: drop_events(line, through)!
-- Remove the oldest events.
DELETE FROM events WHERE line = :line AND sequence <= :through;

-- name: raise_floor(line, through)!
-- Note up to where events are removed.
UPDATE line_heads SET event_floor = :through WHERE line = :line AND event_floor < :through;

-- name: drop_archives(line, imported_before, uploaded_before)!
-- Remove archives that were imported, and those that nobody came to import.
DELETE FROM archives AS a
USING lines AS l
WHERE a.line = :line AND l.line = :line
  AND (a.created_at < :uploaded_before OR (a.created_at < :imported_before AND a.digest = l.import_digest));

-- name: be_patient()!
-- In this transaction one statement may remove all that a large restore or an archive has left.
SELECT set_config('statement_timeout', '10min', true);
