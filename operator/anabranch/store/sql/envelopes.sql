-- name: get(namespace, agent_id, instance)^
-- An envelope; no row: nothing was ever written to it.
SELECT revision, last_seen_revision FROM agent_envelopes
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance;

-- name: begin_write(namespace, agent_id, instance)$
-- Hold an envelope for a write of its owner, which its last sync knows nothing of; the write's revision.
INSERT INTO agent_envelopes AS e (namespace, agent_id, instance, revision)
VALUES (:namespace, :agent_id, :instance, 1)
ON CONFLICT (namespace, agent_id, instance) DO UPDATE
SET revision = e.revision + 1, last_sync_key = NULL
RETURNING revision;

-- name: open(namespace, agent_id, instance)!
-- An envelope that is there from now on.
INSERT INTO agent_envelopes (namespace, agent_id, instance) VALUES (:namespace, :agent_id, :instance)
ON CONFLICT DO NOTHING;

-- name: hold(namespace, agent_id, instance)^
-- An envelope that nobody else changes until the transaction ends, and which day it is in UTC.
SELECT revision, last_sync_key, last_sync_shared_revision, (statement_timestamp() AT TIME ZONE 'UTC')::date AS today
FROM agent_envelopes
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
FOR NO KEY UPDATE;

-- name: synced(namespace, agent_id, instance, revision, sync_key, shared_revision)!
-- Note what a sync has made of an envelope that is held.
UPDATE agent_envelopes
SET revision = :revision, last_sync_key = :sync_key, last_sync_shared_revision = :shared_revision
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance;
