-- name: restored(line, restore_id)^
-- What a restore id has done, if it has acted.
SELECT * FROM restores WHERE line = :line AND restore_id = :restore_id;

-- name: be_patient()!
-- In this transaction one statement may touch every record of a line, and another restore may have to be waited for.
SELECT set_config('statement_timeout', '10min', true), set_config('lock_timeout', '10min', true),
       set_config('idle_in_transaction_session_timeout', '10min', true), set_config('work_mem', '64MB', true);

-- name: keep_others_out(line)!
-- Nobody else writes a generation of the line until the transaction ends; whoever is at it is waited for.
SELECT pg_advisory_xact_lock(hashtextextended(:line, 1));

-- name: make_stage()#
-- Where the difference waits for the lock.
CREATE TEMPORARY TABLE stage_versions (
    key text COLLATE "C" NOT NULL, scope text NOT NULL, content_hash bytea NOT NULL, fact_hash bytea NOT NULL,
    tombstone boolean NOT NULL, ends tid, ends_live boolean NOT NULL
) ON COMMIT DROP;
CREATE TEMPORARY TABLE stage_nodes (
    path text COLLATE "C" NOT NULL, hash bytea, body bytea, ends tid
) ON COMMIT DROP;

-- name: stage_versions(line, target, head, null_hash, null_fact)!
-- The versions that make the head say what the target said: what it said where that differs, tombstones for what came since.
INSERT INTO stage_versions (key, scope, content_hash, fact_hash, tombstone, ends, ends_live)
SELECT changed.key,
       coalesce(past.scope, present.scope),
       coalesce(past.content_hash, :null_hash),
       coalesce(past.fact_hash, :null_fact),
       coalesce(past.tombstone, true),
       present.ctid,
       NOT coalesce(present.tombstone, true)
FROM (
    SELECT DISTINCT r.key FROM record_versions AS r
    WHERE r.line = :line AND r.from_generation > :target AND r.from_generation <= :head
) AS changed
LEFT JOIN LATERAL (
    SELECT r.ctid, r.* FROM record_versions AS r
    WHERE r.line = :line AND r.key = changed.key AND r.from_generation <= :head
    ORDER BY r.from_generation DESC
    LIMIT 1
) AS present ON present.to_generation > :head
LEFT JOIN LATERAL (
    SELECT * FROM record_versions AS r
    WHERE r.line = :line AND r.key = changed.key AND r.from_generation <= :target
    ORDER BY r.from_generation DESC
    LIMIT 1
) AS past ON past.to_generation > :target
WHERE (past.scope, past.content_hash, past.fact_hash, past.tombstone)
      IS DISTINCT FROM (present.scope, present.content_hash, present.fact_hash, present.tombstone)
  AND NOT (coalesce(past.tombstone, true) AND coalesce(present.tombstone, true))
ORDER BY changed.key;

-- name: staged()
-- The staged versions, for their descriptors.
SELECT key, scope, content_hash, fact_hash, tombstone FROM stage_versions;

-- name: more_live()$
-- How many live records there are more once the stage is moved over.
SELECT count(*) FILTER (WHERE NOT tombstone) - count(*) FILTER (WHERE ends_live) FROM stage_versions;

-- name: stage_node_ends(line, head)!
-- Where the nodes stand that the staged ones replace.
UPDATE stage_nodes AS s SET ends = (
    SELECT t.ctid FROM trie_nodes AS t
    WHERE t.line = :line AND t.path = s.path AND t.from_generation <= :head
    ORDER BY t.from_generation DESC
    LIMIT 1
);

-- name: close_versions(line, generation)!
-- End the versions that the staged ones replace. Their places hold: whoever could change one is kept out.
UPDATE record_versions SET to_generation = :generation
WHERE (line = :line) IS TRUE AND to_generation = 9223372036854775807
  AND ctid = ANY(ARRAY(SELECT ends FROM stage_versions));

-- name: open_versions(line, generation, revision)!
-- Begin the staged versions.
INSERT INTO record_versions (line, key, from_generation, revision, scope, content_hash, fact_hash, tombstone)
SELECT :line, key, :generation, :revision, scope, content_hash, fact_hash, tombstone
FROM stage_versions;

-- name: close_nodes(line, generation)!
-- End the nodes that the staged ones replace.
UPDATE trie_nodes SET to_generation = :generation
WHERE (line = :line) IS TRUE AND to_generation = 9223372036854775807
  AND ctid = ANY(ARRAY(SELECT ends FROM stage_nodes));

-- name: open_nodes(line, generation)!
-- Begin the staged nodes.
INSERT INTO trie_nodes (line, path, from_generation, hash, body)
SELECT :line, path, :generation, hash, body FROM stage_nodes WHERE body IS NOT NULL;

-- name: record(line, restore_id, from_generation, generation)^
-- Note that a restore id has acted.
INSERT INTO restores (line, restore_id, from_generation, generation)
VALUES (:line, :restore_id, :from_generation, :generation)
RETURNING *;
