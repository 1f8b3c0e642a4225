-- name: save(line, branch_id, epoch, sequence, cursor, pause)^
-- Save how far a live run follows the feed; no row: it is not live, the feed does not reach there, or it was further.
--
-- What was current there is looked up now, while the event is kept: the head knows of its own place, the event of its,
-- and a manifest of the last event that it includes.
INSERT INTO followers AS f (line, branch_id, epoch, sequence, generation, cursor, due_at)
SELECT b.line, b.branch_id, h.epoch, :sequence::bigint,
       CASE WHEN h.event_sequence = :sequence::bigint THEN h.current_generation
            ELSE coalesce(
                (SELECT e.generation FROM events AS e WHERE e.line = :line AND e.sequence = :sequence::bigint),
                (SELECT m.generation FROM manifests AS m
                 WHERE m.line = :line AND m.feed_watermark = :sequence::bigint ORDER BY m.generation DESC LIMIT 1))
       END,
       :cursor::text, now()
FROM line_heads AS h
JOIN branches AS b ON b.line = h.line AND b.branch_id = :branch_id
WHERE h.line = :line AND h.epoch = :epoch::integer
  AND :sequence::bigint BETWEEN h.event_floor AND h.event_sequence
  AND b.phase IN ('Active', 'Stale') AND b.kept = 'whole' AND b.deleted_at IS NULL
ON CONFLICT (line, branch_id) DO UPDATE
SET epoch = excluded.epoch, sequence = excluded.sequence, generation = excluded.generation, cursor = excluded.cursor,
    saved_at = now(), due_at = coalesce(f.due_at, greatest(now(), f.shown_at + :pause::interval))
WHERE (f.epoch, f.sequence) < (excluded.epoch, excluded.sequence)
RETURNING f.line, f.branch_id, f.epoch, f.sequence, f.generation, f.saved_at;

-- name: get(line, branch_id)^
-- How far a run has saved that it follows.
SELECT line, branch_id, epoch, sequence, generation, saved_at
FROM followers
WHERE line = :line AND branch_id = :branch_id;

-- name: of_branches(lines, branch_ids)
-- How far some runs have saved that they follow.
SELECT line, branch_id, epoch, sequence, generation, saved_at
FROM followers
WHERE line = ANY(:lines::text[]) AND branch_id = ANY(:branch_ids::text[]);

-- name: due(limit)
-- Runs of any line whose status does not show yet how far they are.
SELECT line, branch_id FROM followers WHERE due_at <= now() ORDER BY due_at LIMIT :limit;

-- name: show(line, branch_ids)$
-- Let the statuses of runs show how far they are, and how far behind; of how many. What somebody holds stays due.
WITH found AS MATERIALIZED (
    SELECT f.branch_id, f.cursor, greatest(h.event_sequence - f.sequence, 0) AS lag
    FROM followers AS f
    JOIN branches AS b ON b.line = f.line AND b.branch_id = f.branch_id
    JOIN line_heads AS h ON h.line = f.line
    WHERE f.line = :line AND f.branch_id = ANY(:branch_ids::text[]) AND f.due_at <= now()
    FOR NO KEY UPDATE OF f, b SKIP LOCKED
), shown AS (
    UPDATE followers AS f
    SET shown_cursor = found.cursor, shown_lag = found.lag, shown_at = now(), due_at = NULL
    FROM found
    WHERE f.line = :line AND f.branch_id = found.branch_id
), told AS (
    UPDATE branches AS b SET version = b.version + 1
    FROM found
    WHERE b.line = :line AND b.branch_id = found.branch_id
)
SELECT count(*) FROM found;

-- name: shown(line, branch_id, key)^
-- Which generation tells what a run has taken over of a key; of a publication that it has half taken over, perhaps the
-- one before. The parent's own, where the run follows no further than what the parent includes.
SELECT b.parent_generation, f.epoch, h.epoch AS line_epoch,
       CASE WHEN f.sequence IS NULL OR f.sequence <= p.feed_watermark THEN b.parent_generation
            WHEN f.sequence < m.feed_watermark AND EXISTS (
                SELECT FROM events AS e
                WHERE e.line = :line AND e.sequence > f.sequence AND e.sequence <= m.feed_watermark AND e.key = :key)
            THEN m.parent_generation
            ELSE f.generation END AS generation
FROM branches AS b
JOIN line_heads AS h ON h.line = b.line
LEFT JOIN followers AS f ON f.line = b.line AND f.branch_id = b.branch_id
LEFT JOIN manifests AS p ON p.line = b.line AND p.generation = b.parent_generation
LEFT JOIN manifests AS m ON m.line = b.line AND m.generation = f.generation
WHERE b.line = :line AND b.branch_id = :branch_id;
