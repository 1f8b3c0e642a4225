-- name: find(namespace, name)^
-- The line that a Baseline resource stands for, with its head and all scopes that its records ever had.
SELECT *, ARRAY(SELECT s.scope FROM line_scopes AS s WHERE s.line = lines.line ORDER BY s.scope) AS scopes
FROM lines JOIN line_heads USING (line)
WHERE namespace = :namespace AND name = :name AND deleted_at IS NULL AND condemned_at IS NULL
ORDER BY created_at DESC
LIMIT 1;

-- name: get(line)^
-- One line with its head, whether its resource is still there or not.
SELECT * FROM lines JOIN line_heads USING (line) WHERE line = :line;

-- name: list_by_namespace(namespace)
-- The lines of all Baselines of a namespace.
SELECT * FROM lines JOIN line_heads USING (line)
WHERE namespace = :namespace AND deleted_at IS NULL AND condemned_at IS NULL
ORDER BY name;

-- name: directory()
-- The names of all Baselines, by namespace.
SELECT namespace, array_agg(name ORDER BY name) AS names
FROM lines
WHERE deleted_at IS NULL AND condemned_at IS NULL
GROUP BY namespace
ORDER BY namespace;

-- name: adopt(line, namespace, namespace_uid, name, uid)$
-- Take up the line of this name in this very namespace, or make it; gives its id.
INSERT INTO lines (line, namespace, namespace_uid, name, uid)
VALUES (:line, :namespace, :namespace_uid, :name, :uid)
ON CONFLICT (namespace, namespace_uid, name) WHERE condemned_at IS NULL DO UPDATE
SET uid = excluded.uid,
    observed_generation = CASE WHEN lines.uid = excluded.uid THEN lines.observed_generation ELSE 0 END,
    deleted_at = NULL,
    version = lines.version + 1
WHERE lines.uid <> excluded.uid OR lines.deleted_at IS NOT NULL
RETURNING line;

-- name: adopted(namespace, namespace_uid, name)$
-- The id of the line of this name in this very namespace.
SELECT line FROM lines
WHERE namespace = :namespace AND namespace_uid = :namespace_uid AND name = :name AND condemned_at IS NULL;

-- name: retire_namesakes(namespace, namespace_uid, name)!
-- Set aside the line of the same name in a namespace that was deleted since and made again.
UPDATE lines SET deleted_at = now(), due_at = NULL, version = version + 1
WHERE namespace = :namespace AND name = :name AND namespace_uid <> :namespace_uid
  AND deleted_at IS NULL AND condemned_at IS NULL;

-- name: add_head(line)!
-- Give a new line its head. One that is there is not waited for: whoever publishes holds it, and will want the line.
INSERT INTO line_heads (line)
SELECT :line WHERE NOT EXISTS (SELECT FROM line_heads WHERE line = :line)
ON CONFLICT (line) DO NOTHING;

-- name: save_spec(line, observed_generation, policy)!
-- Keep what a reconciliation read; an older one that comes late changes nothing. Other promises of retention act at once.
UPDATE lines
SET observed_generation = :observed_generation, policy = :policy, version = version + 1,
    retain_at = CASE WHEN policy -> 'retention' IS DISTINCT FROM :policy::jsonb -> 'retention' THEN now()
                ELSE retain_at END
WHERE line = :line
  AND observed_generation <= :observed_generation::bigint
  AND (observed_generation <> :observed_generation::bigint OR policy <> :policy::jsonb);

-- name: lock(line)^
-- One line, held until the transaction ends: nobody else concludes a reconciliation of it meanwhile.
SELECT * FROM lines WHERE line = :line FOR NO KEY UPDATE;

-- name: set_suspended(line, suspended)!
-- Pause consolidation of the line, or let it go on.
UPDATE line_heads SET suspended = :suspended WHERE line = :line AND suspended <> :suspended::boolean;

-- name: set_conditions(line, conditions)!
-- Keep what a reconciliation met.
UPDATE lines SET conditions = :conditions, version = version + 1
WHERE line = :line AND conditions <> :conditions::jsonb;

-- name: set_import_digest(line, digest)!
-- Remember which source was imported last.
UPDATE lines SET import_digest = :digest, version = version + 1
WHERE line = :line AND import_digest IS DISTINCT FROM :digest::bytea;

-- name: touch(line)!
-- Say that status has something new to show.
UPDATE lines SET version = version + 1 WHERE line = :line;

-- name: mark_deleted(line, uid)!
-- The resource is gone; the data stays.
UPDATE lines SET deleted_at = now(), due_at = NULL, version = version + 1
WHERE line = :line AND uid = :uid AND deleted_at IS NULL;

-- name: head(line)^
-- The head of a line.
SELECT * FROM line_heads WHERE line = :line;

-- name: lock_head(line)^
-- The head of a line, held until the transaction ends: whoever publishes waits, readers and receipts do not.
SELECT * FROM line_heads WHERE line = :line FOR NO KEY UPDATE;

-- name: scopes(line)
-- All scopes that a record of the line ever had.
SELECT scope FROM line_scopes WHERE line = :line ORDER BY scope;

-- name: add_scopes(line, scopes)!
-- Add scopes to those of the line.
INSERT INTO line_scopes (line, scope)
SELECT :line, scope FROM unnest(:scopes::text[]) AS scope
ON CONFLICT DO NOTHING;

-- name: set_due(line, delay)!
-- Ask for a reconciliation after a delay, or for none.
UPDATE lines SET due_at = now() + :delay::interval WHERE line = :line AND deleted_at IS NULL;

-- name: claim_due(limit, hold)
-- The lines whose reconciliation is due, kept from other claimants for a while.
UPDATE lines SET due_at = now() + :hold::interval
WHERE line = ANY(ARRAY(
    SELECT line FROM lines
    WHERE due_at <= now() AND condemned_at IS NULL
    ORDER BY due_at LIMIT :limit
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING *;

-- name: settle(line, due_at)!
-- The reconciliation that was claimed is done; one that was asked for meanwhile stays.
UPDATE lines SET due_at = NULL WHERE line = :line AND due_at = :due_at;
