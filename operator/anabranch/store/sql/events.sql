-- name: after(line, after_sequence, scopes, limit)
-- The feed after a sequence, with the floor and the watermark of the same snapshot; one row of nulls when there is nothing.
SELECT h.event_floor, h.event_sequence, h.epoch, e.*
FROM line_heads AS h
LEFT JOIN LATERAL (
    SELECT * FROM events AS v
    WHERE v.line = :line AND v.sequence > :after_sequence
      AND (v.scope IS NULL OR :scopes::text[] IS NULL OR v.scope = ANY(:scopes::text[]))
    ORDER BY v.sequence
    LIMIT :limit
) AS e ON true
WHERE h.line = :line
ORDER BY e.sequence;
