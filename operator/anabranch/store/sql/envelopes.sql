-- name: get(namespace, agent_id, instance)^
-- An envelope; no row: nothing was ever written to it.
SELECT revision, last_seen_revision FROM agent_envelopes
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance;

-- name: begin_write(namespace, agent_id, instance)^
-- Hold an envelope for a write of its owner, which its last sync knows nothing of; the write's revision, which is the first
-- of an envelope that was not there.
INSERT INTO agent_envelopes AS e (namespace, agent_id, instance, revision)
VALUES (:namespace, :agent_id, :instance, 1)
ON CONFLICT (namespace, agent_id, instance) DO UPDATE
SET revision = e.revision + 1, last_sync_key = NULL
RETURNING revision, xmax = 0 AS is_new;

-- name: open(namespace, agent_id, instance)$
-- An envelope that is there from now on; true if it was not before.
INSERT INTO agent_envelopes (namespace, agent_id, instance) VALUES (:namespace, :agent_id, :instance)
ON CONFLICT DO NOTHING
RETURNING true;

-- name: one_at_a_time(namespace, agent_id)!
-- Let nobody else add an envelope to an agent until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('agent envelopes ' || :namespace || '/' || :agent_id, 0));

-- name: instances(namespace, agent_id)$
-- How many instances of an agent have an envelope, each of them once those that add one wait for each other.
SELECT count(*) FROM agent_envelopes
WHERE namespace = :namespace AND agent_id = :agent_id AND instance <> '';

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
