-- name: lock_branch(line, branch_id)$
-- A branch, while it gets another namespace.
SELECT true FROM branches WHERE line = :line AND branch_id = :branch_id FOR NO KEY UPDATE;

-- name: open(line, branch_id, namespace, most)!
-- A namespace, if the branch may have another.
INSERT INTO kv_namespaces (line, branch_id, namespace)
SELECT :line, :branch_id, :namespace
WHERE (SELECT count(*) FROM kv_namespaces WHERE line = :line AND branch_id = :branch_id) < :most::bigint
ON CONFLICT DO NOTHING;

-- name: lock(line, branch_id, namespace, low, high)^
-- What a namespace holds, for who writes to it; and whether some of it has expired and is not taken out yet.
SELECT n.revision, n.entries, n.bytes,
       EXISTS (SELECT FROM private_records AS p
               WHERE p.line = :line AND p.branch_id = :branch_id AND p.body IS NOT NULL AND p.expires_at <= now()
                 AND p.key >= :low AND p.key < :high) AS has_expired
FROM kv_namespaces AS n
WHERE n.line = :line AND n.branch_id = :branch_id AND n.namespace = :namespace
FOR UPDATE;

-- name: sweep(line, branch_id, namespace, low, high, most)!
-- Take out some records of a namespace that have expired.
WITH gone AS (
    UPDATE private_records
    SET revision = revision + 1, body = NULL, expires_at = NULL, updated_at = now()
    WHERE ctid = ANY(ARRAY(
        SELECT p.ctid FROM private_records AS p
        WHERE p.line = :line AND p.branch_id = :branch_id AND p.body IS NOT NULL AND p.expires_at <= now()
          AND p.key >= :low AND p.key < :high
        LIMIT :most
    ))
    RETURNING substr(key, length(:low) + 1) AS key
), freed AS (
    SELECT count(*) AS entries, coalesce(sum(r.size + octet_length(r.key)), 0) AS bytes
    FROM kv_records AS r
    WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace
      AND r.key = ANY(ARRAY(SELECT key FROM gone))
), emptied AS (
    UPDATE kv_records AS r
    SET size = NULL, raw = NULL, topic = NULL, tags = NULL, occurred_at_ms = NULL, words = NULL, length = NULL
    WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace
      AND r.key = ANY(ARRAY(SELECT key FROM gone))
)
UPDATE kv_namespaces AS n SET entries = n.entries - freed.entries, bytes = n.bytes - freed.bytes
FROM freed
WHERE n.line = :line AND n.branch_id = :branch_id AND n.namespace = :namespace;

-- name: stats(line, branch_id, namespace, low, high)^
-- What a namespace holds, less what has expired; no row: it has never been written to.
SELECT n.revision, n.entries - e.entries AS entries, n.bytes - e.bytes AS bytes
FROM kv_namespaces AS n
CROSS JOIN (
    SELECT count(*) AS entries, coalesce(sum(r.size + octet_length(r.key)), 0) AS bytes
    FROM private_records AS p
    CROSS JOIN LATERAL (
        SELECT k.key, k.size FROM kv_records AS k
        WHERE k.line = :line AND k.branch_id = :branch_id AND k.namespace = :namespace
          AND k.key = substr(p.key, length(:low) + 1)
        OFFSET 0
    ) AS r
    WHERE p.line = :line AND p.branch_id = :branch_id AND p.body IS NOT NULL AND p.expires_at <= now()
      AND p.key >= :low AND p.key < :high
) AS e
WHERE n.line = :line AND n.branch_id = :branch_id AND n.namespace = :namespace;
