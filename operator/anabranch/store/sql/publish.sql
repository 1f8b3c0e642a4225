-- name: enter(line)$
-- Keep restores from writing until the transaction ends; false: one is at it.
SELECT pg_try_advisory_xact_lock_shared(hashtextextended(:line, 1));

-- name: keep_others_out(line)!
-- Nobody else writes a generation of the line until the transaction ends; whoever is at it is waited for.
SELECT pg_advisory_xact_lock(hashtextextended(:line, 1));

-- name: add_manifest(line, generation, baseline_id, parent_generation, manifest_hash, records, revision, origin, feed_watermark)^
-- Write a manifest.
INSERT INTO manifests (line, generation, baseline_id, parent_generation, manifest_hash, records, revision, origin,
                       feed_watermark)
VALUES (:line, :generation, :baseline_id, :parent_generation, :manifest_hash, :records, :revision, :origin,
        :feed_watermark)
RETURNING *;

-- name: advance_head(line, generation, revision, event_sequence)!
-- Make a generation the head, and what readers see unless another is pinned.
UPDATE line_heads
SET head_generation = :generation,
    revision = :revision,
    event_sequence = :event_sequence,
    current_generation = CASE WHEN pinned_generation IS NULL THEN :generation ELSE current_generation END,
    previous_generation = CASE WHEN pinned_generation IS NULL THEN current_generation ELSE previous_generation END
WHERE line = :line;

-- name: move_current(line, generation, pinned_generation, event_sequence)!
-- Let readers see another generation.
UPDATE line_heads
SET current_generation = :generation,
    previous_generation = current_generation,
    pinned_generation = :pinned_generation,
    event_sequence = :event_sequence
WHERE line = :line;
