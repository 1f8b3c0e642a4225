-- name: upsert(namespace, kind, name, uid, observed_generation, condition, reason, message, needs_namespace, needs_name, due_in)^
-- Note what a resource waits for; the same wait again counts an attempt, another one begins anew.
INSERT INTO waiting AS w (namespace, kind, name, uid, observed_generation, condition, reason, message,
                          needs_namespace, needs_name, due_at)
VALUES (:namespace, :kind, :name, :uid, :observed_generation, :condition, :reason, :message,
        :needs_namespace, :needs_name, statement_timestamp() + :due_in::interval)
ON CONFLICT (namespace, kind, name) DO UPDATE
SET uid = excluded.uid, observed_generation = excluded.observed_generation, condition = excluded.condition,
    reason = excluded.reason, message = excluded.message, needs_namespace = excluded.needs_namespace,
    needs_name = excluded.needs_name, due_at = excluded.due_at,
    attempt = CASE WHEN (w.uid, w.reason, w.needs_namespace, w.needs_name)
                      = (excluded.uid, excluded.reason, excluded.needs_namespace, excluded.needs_name)
                   THEN w.attempt + 1 ELSE 0 END,
    version = CASE WHEN (w.uid, w.observed_generation, w.condition, w.reason, w.message)
                      = (excluded.uid, excluded.observed_generation, excluded.condition, excluded.reason, excluded.message)
                   THEN w.version ELSE w.version + 1 END
RETURNING *;

-- name: delete(namespace, kind, name, uid)!
-- It waits no more: of one resource, or (without a uid) of whichever has the name.
DELETE FROM waiting
WHERE namespace = :namespace AND kind = :kind AND name = :name AND (:uid::text IS NULL OR uid = :uid);

-- name: settle(namespace, kind, name, uid, final)!
-- It waits no more, and neither does another one that had its name; but what is final for it stays.
DELETE FROM waiting
WHERE namespace = :namespace AND kind = :kind AND name = :name AND NOT (uid = :uid AND reason = :final);

-- name: get(namespace, kind, name)^
-- What a resource waits for.
SELECT * FROM waiting WHERE namespace = :namespace AND kind = :kind AND name = :name;

-- name: due(limit)
-- Resources of any namespace that are to be looked at again.
SELECT * FROM waiting WHERE due_at <= statement_timestamp() ORDER BY due_at LIMIT :limit;

-- name: wake(needs_namespace, needs_name)!
-- What they wait for is there now, or may be.
UPDATE waiting SET due_at = statement_timestamp()
WHERE needs_namespace = :needs_namespace AND needs_name = :needs_name;
