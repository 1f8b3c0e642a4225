-- name: held(line, branch_id, namespace, key, private_key)^
-- What a namespace has under a key, for who holds its lock; no row: nothing.
SELECT r.revision, r.size, p.expires_at <= now() AS expired, r.occurred_at_ms IS NOT NULL AS is_memory
FROM kv_records AS r
JOIN private_records AS p ON p.line = :line AND p.branch_id = :branch_id AND p.key = :private_key
WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace AND r.key = :key
  AND r.size IS NOT NULL;

-- name: put(line, branch_id, namespace, key, private_key, revision, entries, bytes, visibility, content_hash, body, raw, size, media_type, base_revision, ttl_seconds, topic, tags, occurred_at_ms, text)^
-- Write a record, its place in the private overlay, and what its namespace holds now.
WITH counted AS (
    UPDATE kv_namespaces SET revision = :revision, entries = :entries, bytes = :bytes
    WHERE line = :line AND branch_id = :branch_id AND namespace = :namespace
), kept AS (
    INSERT INTO private_records AS p
        (line, branch_id, key, revision, scope, visibility, content_hash, body, base_revision, expires_at)
    VALUES (:line, :branch_id, :private_key, 1, 'shared', :visibility, :content_hash, :body, :base_revision,
            now() + make_interval(secs => :ttl_seconds::float8))
    ON CONFLICT (line, branch_id, key) DO UPDATE
    SET revision = p.revision + 1, scope = excluded.scope, visibility = excluded.visibility,
        content_hash = excluded.content_hash, body = excluded.body, expires_at = excluded.expires_at, updated_at = now(),
        base_revision = CASE WHEN p.body IS NULL THEN excluded.base_revision ELSE p.base_revision END
    RETURNING updated_at, expires_at
), written AS (
    INSERT INTO kv_records AS r
        (line, branch_id, namespace, key, revision, size, raw, media_type, topic, tags, occurred_at_ms, words, length)
    SELECT :line, :branch_id, :namespace, :key, :revision, :size, :raw, :media_type, :topic, :tags::text[],
           :occurred_at_ms, w.words, (SELECT sum(cardinality(u.positions)) FROM unnest(w.words) AS u)
    FROM (SELECT to_tsvector('english', :text::text) AS words) AS w
    ON CONFLICT (line, branch_id, namespace, key) DO UPDATE
    SET revision = excluded.revision, size = excluded.size, raw = excluded.raw, media_type = excluded.media_type,
        topic = excluded.topic, tags = excluded.tags, occurred_at_ms = excluded.occurred_at_ms, words = excluded.words,
        length = excluded.length
)
SELECT updated_at AS written_at, expires_at FROM kept;

-- name: remove(line, branch_id, namespace, key, private_key, entries, bytes)!
-- Take a record out of its namespace and of the private overlay.
WITH gone AS (
    UPDATE private_records SET revision = revision + 1, body = NULL, expires_at = NULL, updated_at = now()
    WHERE line = :line AND branch_id = :branch_id AND key = :private_key
), emptied AS (
    UPDATE kv_records
    SET size = NULL, raw = NULL, topic = NULL, tags = NULL, occurred_at_ms = NULL, words = NULL, length = NULL
    WHERE line = :line AND branch_id = :branch_id AND namespace = :namespace AND key = :key
)
UPDATE kv_namespaces SET entries = :entries, bytes = :bytes
WHERE line = :line AND branch_id = :branch_id AND namespace = :namespace;

-- name: get(line, branch_id, namespace, key, private_key)^
-- A record that is there and has not expired.
SELECT r.key, r.revision, r.size, r.media_type, coalesce(r.raw, p.body) AS value, p.updated_at AS written_at,
       p.expires_at, r.occurred_at_ms
FROM kv_records AS r
JOIN private_records AS p ON p.line = :line AND p.branch_id = :branch_id AND p.key = :private_key
WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace AND r.key = :key
  AND p.body IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > now());

-- name: page(line, branch_id, namespace, prefix, until, after, low, limit)
-- Records by key, without their values: those that begin with a prefix, so lie before a text, beginning after a key.
SELECT r.key, r.revision, r.size, p.expires_at
FROM kv_records AS r
CROSS JOIN LATERAL (
    SELECT o.body, o.expires_at FROM private_records AS o
    WHERE o.line = :line AND o.branch_id = :branch_id AND o.key = :low || r.key
    OFFSET 0  -- one by its key for each, whatever the planner believes to be cheaper
) AS p
WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace
  AND r.key >= :prefix AND r.key > :after AND (:until::text IS NULL OR r.key < :until) AND r.size IS NOT NULL
  AND p.body IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > now())
ORDER BY r.key
LIMIT :limit;
