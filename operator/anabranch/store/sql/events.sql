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

-- name: add(line, sequences, event_ids, kinds, scopes, keys, revisions, content_hashes, origin_branches, traceparents, generation, published_baseline_id)!
-- Append to the feed.
INSERT INTO events (line, sequence, event_id, kind, scope, key, revision, content_hash, origin_branch, traceparent,
                    generation, published_baseline_id)
SELECT :line, e.sequence, e.event_id, e.kind, e.scope, e.key, e.revision, e.content_hash, e.origin_branch, e.traceparent,
       :generation, :published_baseline_id
FROM unnest(:sequences::bigint[], :event_ids::text[], :kinds::text[], :scopes::text[], :keys::text[],
            :revisions::bigint[], :content_hashes::bytea[], :origin_branches::text[], :traceparents::text[])
    AS e (sequence, event_id, kind, scope, key, revision, content_hash, origin_branch, traceparent);
