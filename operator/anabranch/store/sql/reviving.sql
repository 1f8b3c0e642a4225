-- name: others(line, namespace, namespace_uid, name)
-- The lines that stand where one is to be put, whether they hold anything or not, and that line itself.
SELECT l.line, coalesce(h.head_generation, 0) AS head_generation
FROM lines AS l LEFT JOIN line_heads AS h ON h.line = l.line
WHERE (l.line = :line OR (l.namespace = :namespace AND l.namespace_uid = :namespace_uid AND l.name = :name))
  AND l.condemned_at IS NULL;

-- name: set_aside(line)!
-- Leave a line without a Baseline, as if its namespace had been deleted and made again.
UPDATE lines
SET namespace_uid = namespace_uid || ' until ' || now(), deleted_at = coalesce(deleted_at, now()), due_at = NULL,
    version = version + 1
WHERE line = :line;

-- name: add_line(line, namespace, namespace_uid, name, import_digest)!
-- A line whose Baseline is yet to take it up.
INSERT INTO lines (line, namespace, namespace_uid, name, uid, import_digest, deleted_at)
VALUES (:line, :namespace, :namespace_uid, :name, '', :import_digest, now());

-- name: add_head(line, generation, revision, event_sequence, epoch)!
-- Its head: nothing of its feed is kept, and what follows has another epoch and far higher revisions than it ever had.
INSERT INTO line_heads (line, head_generation, current_generation, previous_generation, revision, event_sequence,
                        event_floor, epoch)
VALUES (:line, :generation, :generation, :generation, :revision, :event_sequence, :event_sequence, :epoch);

-- name: add_manifest(line, generation, baseline_id, schema_version, parent_generation, manifest_hash, records, revision, origin, feed_watermark, created_at)!
-- The manifest as it was.
INSERT INTO manifests (line, generation, baseline_id, schema_version, parent_generation, manifest_hash, records, revision,
                       origin, feed_watermark, created_at)
VALUES (:line, :generation, :baseline_id, :schema_version, :parent_generation, :manifest_hash, :records, :revision,
        :origin, :feed_watermark, :created_at);

-- name: add_restores(line, ids, sources, generations)!
-- Restores that were ordered before, and must not act again.
INSERT INTO restores (line, restore_id, from_generation, generation)
SELECT :line, r.id, r.source, r.generation
FROM unnest(:ids::text[], :sources::bigint[], :generations::bigint[]) AS r (id, source, generation);

-- name: all_lines()
-- Every line that has a head.
SELECT line FROM line_heads ORDER BY line;

-- name: renew_epoch(line, epoch, jump)!
-- Have every place in a line's feed that was given out end, and leave the revisions out that may have been given since.
UPDATE line_heads SET epoch = greatest(epoch + 1, :epoch::integer), revision = revision + :jump::bigint WHERE line = :line;
