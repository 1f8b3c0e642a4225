-- name: get(line, branch_id, namespace, checkpoint_id)^
-- A checkpoint, a deleted one too, and what its session's next one has to name.
SELECT c.checkpoint_id, c.agent_id, c.session_id, c.revision, c.latest_revision IS NOT NULL AS is_latest,
       coalesce(c.latest_revision, l.latest_revision) AS latest_revision, c.refs, c.size, c.content_hash,
       c.deleted_at IS NOT NULL AS deleted
FROM kv_checkpoints AS c
LEFT JOIN kv_checkpoints AS l
  ON l.line = :line AND l.branch_id = :branch_id AND l.namespace = :namespace
 AND l.agent_id = c.agent_id AND l.session_id = c.session_id AND l.latest_revision IS NOT NULL
WHERE c.line = :line AND c.branch_id = :branch_id AND c.namespace = :namespace AND c.checkpoint_id = :checkpoint_id;

-- name: latest(line, branch_id, namespace, agent_id, session_id)^
-- A session's latest checkpoint.
SELECT checkpoint_id, latest_revision FROM kv_checkpoints
WHERE line = :line AND branch_id = :branch_id AND namespace = :namespace AND agent_id = :agent_id
  AND session_id = :session_id AND latest_revision IS NOT NULL;

-- name: supersede(line, branch_id, namespace, agent_id, session_id)!
-- A session's latest checkpoint is so no more.
UPDATE kv_checkpoints SET latest_revision = NULL
WHERE line = :line AND branch_id = :branch_id AND namespace = :namespace AND agent_id = :agent_id
  AND session_id = :session_id AND latest_revision IS NOT NULL;

-- name: add(line, branch_id, namespace, checkpoint_id, agent_id, session_id, revision, latest_revision, refs, size, content_hash)!
-- A session's new latest checkpoint.
INSERT INTO kv_checkpoints (line, branch_id, namespace, checkpoint_id, agent_id, session_id, revision, latest_revision,
                            refs, size, content_hash)
VALUES (:line, :branch_id, :namespace, :checkpoint_id, :agent_id, :session_id, :revision, :latest_revision, :refs, :size,
        :content_hash);

-- name: delete(line, branch_id, namespace, checkpoint_id)!
-- A checkpoint that is no longer told of.
UPDATE kv_checkpoints SET deleted_at = now()
WHERE line = :line AND branch_id = :branch_id AND namespace = :namespace AND checkpoint_id = :checkpoint_id;

-- name: count(line, branch_id, namespace, revision, entries, bytes)!
-- What a namespace holds now.
UPDATE kv_namespaces SET revision = :revision, entries = :entries, bytes = :bytes
WHERE line = :line AND branch_id = :branch_id AND namespace = :namespace;

-- name: revisions(line, branch_id, namespaces, keys)
-- Which revision some records are at, in the order that they are named in; null: they are not there.
SELECT (SELECT r.revision
        FROM kv_records AS r
        JOIN private_records AS p
          ON p.line = :line AND p.branch_id = :branch_id AND p.key = 'kv/' || w.namespace || '/' || w.key
        WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = w.namespace AND r.key = w.key
          AND p.body IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > now())) AS revision
FROM unnest(:namespaces::text[], :keys::text[]) WITH ORDINALITY AS w (namespace, key, place)
ORDER BY w.place;
