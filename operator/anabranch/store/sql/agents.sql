-- name: claim(namespace, agent_id, service_account)!
-- Take an agent id that belongs to nobody yet.
INSERT INTO agents (namespace, agent_id, service_account)
VALUES (:namespace, :agent_id, :service_account)
ON CONFLICT (namespace, agent_id) DO NOTHING;

-- name: owner(namespace, agent_id)$
-- Whose an agent id is.
SELECT service_account FROM agents WHERE namespace = :namespace AND agent_id = :agent_id;
