-- name: kept(namespace, namespace_uid, name)
-- The lines with manifests that a Baseline of this name left in a namespace that was deleted since, the newest first.
SELECT l.line FROM lines AS l
JOIN line_heads AS h ON h.line = l.line
WHERE l.namespace = :namespace AND l.name = :name AND l.namespace_uid <> :namespace_uid
  AND l.condemned_at IS NULL AND h.head_generation > 0
ORDER BY l.created_at DESC;

-- name: take_up(line, namespace, namespace_uid, name, uid)!
-- Move a line of this name from a namespace that was deleted into the one that has its name now.
UPDATE lines
SET namespace_uid = :namespace_uid, uid = :uid, observed_generation = 0, deleted_at = NULL, version = version + 1
WHERE line = :line AND namespace = :namespace AND name = :name AND namespace_uid <> :namespace_uid
  AND condemned_at IS NULL;
