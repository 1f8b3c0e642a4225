-- name: fork(line, branch_id, run_id, namespace, name, uid, observed_generation, agent_id, agent_instance, service_account, task, sharing_policy, follow, lease_seconds, ttl_seconds, generation)^
-- Pin a branch to a manifest, or give the one that this resource made before; no row: the manifest is not there, or a race.
WITH parent AS MATERIALIZED (
    SELECT m.generation, m.baseline_id, m.manifest_hash
    FROM manifests AS m
    WHERE m.line = :line
      AND m.generation = coalesce(:generation::bigint, (SELECT h.current_generation FROM line_heads AS h WHERE h.line = :line))
      AND NOT EXISTS (SELECT FROM branches AS b WHERE b.line = :line AND b.uid = :uid)
    FOR KEY SHARE OF m
), made AS (
    INSERT INTO branches (line, branch_id, run_id, namespace, name, uid, observed_generation, agent_id, agent_instance,
                          service_account, task, sharing_policy, follow, lease_seconds, ttl_seconds, parent_generation,
                          parent_baseline_id, parent_manifest_hash)
    SELECT :line, :branch_id, :run_id, :namespace, :name, :uid, :observed_generation, :agent_id, :agent_instance,
           :service_account, :task, :sharing_policy, :follow, :lease_seconds, :ttl_seconds, parent.generation,
           parent.baseline_id, parent.manifest_hash
    FROM parent
    ON CONFLICT (line, uid) DO NOTHING
    RETURNING *
), branch AS (
    SELECT * FROM made
    UNION ALL
    SELECT * FROM branches WHERE line = :line AND uid = :uid
)
SELECT b.line, b.branch_id, b.run_id, b.namespace, b.name, b.uid, b.observed_generation, b.agent_id, b.agent_instance,
       b.service_account, b.task, b.sharing_policy, b.parent_generation, b.phase, b.final_sequence, b.created_at,
       b.finished_at, b.deleted_at, b.kept, b.version, b.parent_baseline_id, b.parent_manifest_hash,
       b.follow, b.lease_seconds, coalesce(b.forked_generation, b.parent_generation) AS forked_generation,
       l.namespace AS baseline_namespace, l.name AS baseline_name
FROM branch AS b
JOIN lines AS l ON l.line = b.line;

-- name: parent(line, generation)^
-- Why a manifest cannot be forked from: the head's generation, and whether the wanted one is there.
SELECT h.head_generation, h.current_generation,
       EXISTS (SELECT FROM manifests AS m
               WHERE m.line = :line AND m.generation = coalesce(:generation::bigint, h.current_generation)) AS present
FROM line_heads AS h
WHERE h.line = :line;

-- name: get(line, branch_id)^
-- A branch by its id.
SELECT b.line, b.branch_id, b.run_id, b.namespace, b.name, b.uid, b.observed_generation, b.agent_id, b.agent_instance,
       b.service_account, b.task, b.sharing_policy, b.parent_generation, b.phase, b.final_sequence, b.created_at,
       b.finished_at, b.deleted_at, b.kept, b.version, b.parent_baseline_id, b.parent_manifest_hash,
       b.follow, b.lease_seconds, coalesce(b.forked_generation, b.parent_generation) AS forked_generation,
       l.namespace AS baseline_namespace, l.name AS baseline_name
FROM branches AS b
JOIN lines AS l ON l.line = b.line
WHERE b.line = :line AND b.branch_id = :branch_id;

-- name: by_name(namespace, name, uid)^
-- The branch that a resource stands for; without a uid the one whose resource was not deleted.
SELECT b.line, b.branch_id, b.run_id, b.namespace, b.name, b.uid, b.observed_generation, b.agent_id, b.agent_instance,
       b.service_account, b.task, b.sharing_policy, b.parent_generation, b.phase, b.final_sequence, b.created_at,
       b.finished_at, b.deleted_at, b.kept, b.version, b.parent_baseline_id, b.parent_manifest_hash,
       b.follow, b.lease_seconds, coalesce(b.forked_generation, b.parent_generation) AS forked_generation,
       l.namespace AS baseline_namespace, l.name AS baseline_name
FROM branches AS b
JOIN lines AS l ON l.line = b.line
WHERE b.namespace = :namespace AND b.name = :name
  AND CASE WHEN :uid::text IS NULL THEN b.deleted_at IS NULL ELSE b.uid = :uid END
ORDER BY b.created_at DESC, b.branch_id DESC
LIMIT 1;

-- name: namespaces()
-- All namespaces that ever had a branch, by steps through the index of names.
WITH RECURSIVE step AS (
    (SELECT namespace FROM branches ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT b.namespace FROM branches AS b WHERE b.namespace > step.namespace ORDER BY b.namespace LIMIT 1)
    FROM step
    WHERE step.namespace IS NOT NULL
)
SELECT namespace FROM step WHERE namespace IS NOT NULL;

-- name: list_by_namespace(namespace, after, limit)
-- The branches of a namespace whose resources were not deleted, by name.
SELECT b.line, b.branch_id, b.run_id, b.namespace, b.name, b.uid, b.observed_generation, b.agent_id, b.agent_instance,
       b.service_account, b.task, b.sharing_policy, b.parent_generation, b.phase, b.final_sequence, b.created_at,
       b.finished_at, b.deleted_at, b.kept, b.version, b.parent_baseline_id, b.parent_manifest_hash,
       b.follow, b.lease_seconds, coalesce(b.forked_generation, b.parent_generation) AS forked_generation,
       l.namespace AS baseline_namespace, l.name AS baseline_name
FROM branches AS b
JOIN lines AS l ON l.line = b.line
WHERE b.namespace = :namespace AND b.name > :after AND b.deleted_at IS NULL
ORDER BY b.name
LIMIT :limit;

-- name: update_spec(line, branch_id, observed_generation, task, sharing_policy, follow, lease_seconds, ttl_seconds)!
-- Take over what a resource may change; an older resource than the one seen last changes nothing.
UPDATE branches
SET observed_generation = :observed_generation, task = :task, sharing_policy = :sharing_policy, follow = :follow,
    lease_seconds = :lease_seconds, ttl_seconds = :ttl_seconds, version = version + 1
WHERE line = :line AND branch_id = :branch_id AND observed_generation <= :observed_generation
  AND (observed_generation, task, sharing_policy, follow, lease_seconds, ttl_seconds)
      IS DISTINCT FROM (:observed_generation, :task, :sharing_policy, :follow, :lease_seconds, :ttl_seconds);

-- name: set_phase(line, branch_id, phase)!
-- Move a branch that has not ended to another phase; one whose parent is pruned cannot come back to life.
UPDATE branches
SET phase = :phase, version = version + 1,
    finished_at = CASE WHEN :phase IN ('Denied', 'Expired') THEN now() END
WHERE line = :line AND branch_id = :branch_id AND phase <> :phase AND phase <> 'Completed'
  AND (:phase IN ('Denied', 'Expired')
       OR EXISTS (SELECT FROM manifests AS m WHERE m.line = :line AND m.generation = branches.parent_generation));

-- name: hold(line, branch_id)$
-- The phase of a branch, which does not end, nor lose its data, before the transaction does. Writers do not keep each
-- other waiting.
SELECT phase FROM branches WHERE line = :line AND branch_id = :branch_id AND kept = 'whole' FOR KEY SHARE;

-- name: mark_deleted(line, branch_id)!
-- The resource is gone: there is no status to write any more, and the data stays.
UPDATE branches
SET deleted_at = now(), projected = version
WHERE line = :line AND branch_id = :branch_id AND deleted_at IS NULL;

-- name: contiguous_through(line, branch_id)$
-- The last sequence before the first gap: the newest batch knows how far it was, and from there the walk is short. Of a
-- run whose batches retention has removed, the branch knows.
WITH RECURSIVE walk (n) AS (
    SELECT coalesce((SELECT b.prefix FROM batches AS b
                     WHERE b.line = :line AND b.branch_id = :branch_id ORDER BY b.sequence DESC LIMIT 1), 0)
    UNION ALL
    SELECT walk.n + 1 FROM walk
    WHERE (SELECT true FROM batches AS b
           WHERE b.line = :line AND b.branch_id = :branch_id AND b.sequence = walk.n + 1)
)
SELECT greatest(max(n), (SELECT b.final_sequence FROM branches AS b
                         WHERE b.line = :line AND b.branch_id = :branch_id AND b.kept <> 'whole'))
FROM walk;
