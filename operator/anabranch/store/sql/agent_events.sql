-- name: enqueue(namespaces, agent_ids, instances, event_ids, kinds, subjects, data, times)
-- Add events to the queues of agents, but for those that are there; gives those that are new.
INSERT INTO agent_events (namespace, agent_id, instance, event_id, kind, subject, data, happened_at)
SELECT g.namespace, g.agent_id, g.instance, g.event_id, g.kind, g.subject, g.data, g.happened_at
FROM unnest(:namespaces::text[], :agent_ids::text[], :instances::text[], :event_ids::text[], :kinds::text[],
            :subjects::text[], :data::jsonb[], :times::timestamptz[])
     WITH ORDINALITY AS g (namespace, agent_id, instance, event_id, kind, subject, data, happened_at, place)
ORDER BY g.namespace, g.agent_id, g.instance, g.place
ON CONFLICT DO NOTHING
RETURNING namespace, agent_id, instance, event_id;

-- name: claim(namespace, agent_id, instance, limit, visibility, attempts)
-- Take the oldest events of a queue that nobody has, or of which a claim has run out; of those that were claimed as often as
-- may be, a claim that ran out was the last. They are sought at the front of the queue alone, where whatever was claimed
-- comes to be: however many wait behind it, a claim takes the same time. (That they are `claimed` keeps the planner from
-- walking the whole queue for them.) Others who claim at this moment take others. The first row says what of the envelope's
-- exchanges is unseen: in the snapshot in which the events were found, so what one of them tells of is there.
WITH spent AS (
    UPDATE agent_events SET status = 'failed', finished_at = now(), error = coalesce(error, 'Its last claim ran out.')
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance AND event_id = ANY(ARRAY(
        SELECT e.event_id FROM agent_events AS e
        WHERE e.namespace = :namespace AND e.agent_id = :agent_id AND e.instance = :instance
          AND e.event_id = ANY(ARRAY(
              SELECT o.event_id
              FROM (SELECT event_id, attempts FROM agent_events
                    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
                      AND finished_at IS NULL AND due_at <= statement_timestamp()
                    ORDER BY ordinal
                    LIMIT 200) AS o
              WHERE o.attempts >= :attempts::bigint
          ))
          AND e.status = 'claimed' AND e.due_at <= statement_timestamp() AND e.attempts >= :attempts::bigint
        FOR NO KEY UPDATE SKIP LOCKED
    ))
), taken AS (
    UPDATE agent_events
    SET status = 'claimed', claim_id = gen_random_uuid(), attempts = attempts + 1, error = NULL, delivered = '{}',
        due_at = statement_timestamp() + :visibility::interval,
        memory_revision_at_delivery = coalesce(
            (SELECT v.revision FROM agent_envelopes AS v
             WHERE v.namespace = :namespace AND v.agent_id = :agent_id AND v.instance = :instance), 0)
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance AND event_id = ANY(ARRAY(
        SELECT e.event_id FROM agent_events AS e
        WHERE e.namespace = :namespace AND e.agent_id = :agent_id AND e.instance = :instance
          AND e.finished_at IS NULL AND e.due_at <= statement_timestamp() AND e.attempts < :attempts::bigint
        ORDER BY e.ordinal
        LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING event_id, ordinal, kind, subject, data, happened_at, claim_id, attempts, due_at,
              memory_revision_at_delivery
)
SELECT t.*, CASE WHEN row_number() OVER (ORDER BY t.ordinal) = 1 THEN (
    SELECT jsonb_agg(jsonb_build_array(x.revision, x.kind, x.surface_pod_id, x.surface_label, x.peers, x.takeaway, x.ts)
                     ORDER BY x.revision DESC)
    FROM agent_exchanges AS x
    WHERE x.namespace = :namespace AND x.agent_id = :agent_id AND x.instance = :instance AND x.seen_at IS NULL
) END AS unseen
FROM taken AS t
ORDER BY t.ordinal;

-- name: deliver(namespace, agent_id, instance, event_ids, revisions)!
-- Note which exchanges are told with events that this transaction has claimed.
UPDATE agent_events AS e SET delivered = d.revisions
FROM (
    SELECT g.event_id, array_agg(g.revision) AS revisions
    FROM unnest(:event_ids::text[], :revisions::bigint[]) AS g (event_id, revision)
    GROUP BY g.event_id
) AS d
WHERE e.namespace = :namespace AND e.agent_id = :agent_id AND e.instance = :instance AND e.event_id = d.event_id;

-- name: acknowledge(namespace, agent_id, instance, event_id, claim_id)^
-- Finish an event that is held by this claim: what was told with it is seen, and the envelope up to what it was at then.
-- No row: it is not. The envelope comes before its exchanges, as everywhere.
WITH acked AS MATERIALIZED (
    UPDATE agent_events SET status = 'acked', finished_at = now()
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance AND event_id = :event_id
      AND claim_id = :claim_id AND status = 'claimed'
    RETURNING event_id, claim_id, status, attempts, memory_revision_at_delivery, error, due_at, delivered
), raised AS MATERIALIZED (
    UPDATE agent_envelopes AS v SET last_seen_revision = greatest(v.last_seen_revision, a.memory_revision_at_delivery)
    FROM acked AS a
    WHERE v.namespace = :namespace AND v.agent_id = :agent_id AND v.instance = :instance
    RETURNING a.delivered
), seen AS (
    UPDATE agent_exchanges AS x SET seen_at = now()
    FROM raised AS r
    WHERE x.namespace = :namespace AND x.agent_id = :agent_id AND x.instance = :instance
      AND x.revision = ANY(r.delivered) AND x.seen_at IS NULL
)
SELECT event_id, claim_id, status, attempts, memory_revision_at_delivery, error, due_at FROM acked;

-- name: give_back(namespace, agent_id, instance, event_id, claim_id, error, retry_in, attempts)^
-- Let go of an event that is held by this claim, since it could not be dealt with. No row: it is not.
UPDATE agent_events
SET error = :error,
    status = CASE WHEN attempts < :attempts::bigint THEN 'pending' ELSE 'failed' END,
    due_at = statement_timestamp() + :retry_in::interval,
    finished_at = CASE WHEN attempts < :attempts::bigint THEN NULL ELSE now() END
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance AND event_id = :event_id
  AND claim_id = :claim_id AND status = 'claimed'
RETURNING event_id, claim_id, status, attempts, memory_revision_at_delivery, error, due_at;

-- name: get(namespace, agent_id, instance, event_id)^
-- Where an event is.
SELECT event_id, claim_id, status, attempts, memory_revision_at_delivery, error, due_at
FROM agent_events
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance AND event_id = :event_id;
