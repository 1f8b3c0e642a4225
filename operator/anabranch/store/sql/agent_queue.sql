-- name: page(namespace, agent_id, instance, status, before_created_at, before_event_id, row_limit)
-- Events of an instance, newest first.
SELECT event_id, kind, status, attempts, created_at, due_at, finished_at, error
FROM agent_events
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
    AND (:status::text IS NULL OR status = :status)
    AND (:before_created_at::timestamptz IS NULL
        OR (created_at, event_id) < (:before_created_at, :before_event_id::text))
ORDER BY created_at DESC, event_id DESC
LIMIT :row_limit;

-- name: out(namespace, agent_id, instance, event_ids, claim_ids)
-- Those of some events that are still out under the claims that they were delivered with.
SELECT event_id
FROM agent_events
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
    AND (event_id, claim_id) IN (SELECT * FROM unnest(:event_ids::text[], :claim_ids::uuid[]))
    AND status = 'claimed' AND due_at > clock_timestamp();
