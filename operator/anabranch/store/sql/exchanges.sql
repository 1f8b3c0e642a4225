-- name: append(namespaces, agent_ids, instances, exchange_ids, digests, kinds, surface_pod_ids, surface_labels, peers, takeaways, times, kept)
-- Note exchanges, each in its envelope, unless that has had it before; gives those that are new.
--
-- Locks are taken in this order: receipts, envelopes, slots, and each of them in the order of their keys. Who waits for an
-- envelope sees what it is at when it gets it, so numbers are never given twice; and the slot of the fiftieth before is
-- written over whoever wrote it, without being looked for.
WITH given AS MATERIALIZED (
    SELECT g.*
    FROM unnest(:namespaces::text[], :agent_ids::text[], :instances::text[], :exchange_ids::text[], :digests::bytea[],
                :kinds::text[], :surface_pod_ids::text[], :surface_labels::text[], :peers::text[], :takeaways::text[],
                :times::timestamptz[])
         WITH ORDINALITY AS g (namespace, agent_id, instance, exchange_id, digest, kind, surface_pod_id, surface_label,
                               peers, takeaway, ts, place)
), fresh AS MATERIALIZED (
    INSERT INTO agent_receipts (namespace, agent_id, instance, exchange_id, digest)
    SELECT g.namespace, g.agent_id, g.instance, g.exchange_id, g.digest
    FROM given AS g
    ORDER BY g.namespace, g.agent_id, g.instance, g.exchange_id, g.place
    ON CONFLICT DO NOTHING
    RETURNING namespace, agent_id, instance, exchange_id
), counted AS MATERIALIZED (
    SELECT n.*, row_number() OVER (envelope ORDER BY n.place) AS rank, count(*) OVER envelope AS number
    FROM (
        SELECT DISTINCT ON (g.namespace, g.agent_id, g.instance, g.exchange_id) g.*
        FROM given AS g
        JOIN fresh AS f ON f.namespace = g.namespace AND f.agent_id = g.agent_id AND f.instance = g.instance
                       AND f.exchange_id = g.exchange_id
        ORDER BY g.namespace, g.agent_id, g.instance, g.exchange_id, g.place
    ) AS n
    WINDOW envelope AS (PARTITION BY n.namespace, n.agent_id, n.instance)
), raised AS MATERIALIZED (
    INSERT INTO agent_envelopes AS e (namespace, agent_id, instance, revision, exchanges)
    SELECT c.namespace, c.agent_id, c.instance, c.number, c.number
    FROM counted AS c
    WHERE c.rank = 1
    ORDER BY c.namespace, c.agent_id, c.instance
    ON CONFLICT (namespace, agent_id, instance) DO UPDATE
    SET revision = e.revision + excluded.revision, exchanges = e.exchanges + excluded.exchanges
    RETURNING namespace, agent_id, instance, revision, exchanges
), noted AS (
    INSERT INTO agent_exchanges
        (namespace, agent_id, instance, slot, revision, exchange_id, kind, surface_pod_id, surface_label, peers, takeaway,
         ts)
    SELECT c.namespace, c.agent_id, c.instance, (r.exchanges - c.number + c.rank - 1) % :kept::bigint,
           r.revision - c.number + c.rank, c.exchange_id, c.kind, c.surface_pod_id, c.surface_label, c.peers::jsonb,
           c.takeaway, c.ts
    FROM counted AS c
    JOIN raised AS r ON r.namespace = c.namespace AND r.agent_id = c.agent_id AND r.instance = c.instance
    WHERE c.number - c.rank < :kept::bigint
    ON CONFLICT (namespace, agent_id, instance, slot) DO UPDATE
    SET revision = excluded.revision, exchange_id = excluded.exchange_id, kind = excluded.kind,
        surface_pod_id = excluded.surface_pod_id, surface_label = excluded.surface_label, peers = excluded.peers,
        takeaway = excluded.takeaway, ts = excluded.ts, seen_at = NULL
)
SELECT f.namespace, f.agent_id, f.instance, f.exchange_id FROM fresh AS f;

-- name: receipts(namespaces, agent_ids, instances, exchange_ids)
-- What some envelopes have had.
SELECT r.namespace, r.agent_id, r.instance, r.exchange_id, r.digest, r.received_at
FROM unnest(:namespaces::text[], :agent_ids::text[], :instances::text[], :exchange_ids::text[])
     AS g (namespace, agent_id, instance, exchange_id)
JOIN agent_receipts AS r ON r.namespace = g.namespace AND r.agent_id = g.agent_id AND r.instance = g.instance
                        AND r.exchange_id = g.exchange_id;

-- name: of_envelope(namespace, agent_id, instance)
-- The exchanges of an envelope, newest first.
SELECT revision, kind, surface_pod_id, surface_label, peers, takeaway, ts, seen_at IS NOT NULL AS seen
FROM agent_exchanges
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
ORDER BY revision DESC;

-- name: read(namespace, agent_id, instance)
-- The exchanges of an envelope, newest first, which are seen from now on: these, and not what has come in meanwhile.
WITH shown AS MATERIALIZED (
    SELECT revision, kind, surface_pod_id, surface_label, peers, takeaway, ts, seen_at
    FROM agent_exchanges
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
), raised AS MATERIALIZED (
    UPDATE agent_envelopes
    SET last_seen_revision = greatest(last_seen_revision, (SELECT max(s.revision) FROM shown AS s))
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
      AND EXISTS (SELECT FROM shown AS s WHERE s.seen_at IS NULL)
    RETURNING namespace, agent_id, instance
), seen AS (
    UPDATE agent_exchanges AS x SET seen_at = now()
    FROM raised AS r
    WHERE x.namespace = r.namespace AND x.agent_id = r.agent_id AND x.instance = r.instance
      AND x.revision = ANY(ARRAY(SELECT s.revision FROM shown AS s)) AND x.seen_at IS NULL
)
SELECT revision, kind, surface_pod_id, surface_label, peers, takeaway, ts, seen_at IS NOT NULL AS seen
FROM shown
ORDER BY revision DESC;
