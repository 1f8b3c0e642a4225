-- name: get(line, branch_id, key)^
-- A private record that was not deleted and has not expired.
SELECT line, branch_id, key, revision, scope, visibility, content_hash, body, base_revision, updated_at
FROM private_records
WHERE line = :line AND branch_id = :branch_id AND key = :key AND body IS NOT NULL
  AND (expires_at IS NULL OR expires_at > now());

-- name: put(line, branch_id, key, scope, visibility, content_hash, body, base_revision, settle, expected)^
-- Write a private record if it is at the expected revision (null: any, 0: absent); no row: it is not.
INSERT INTO private_records AS p (line, branch_id, key, revision, scope, visibility, content_hash, body, base_revision)
SELECT :line, :branch_id, :key, 1, :scope, :visibility, :content_hash, :body, :base_revision
WHERE coalesce(:expected::bigint, 0) = 0
   OR EXISTS (SELECT FROM private_records AS e WHERE e.line = :line AND e.branch_id = :branch_id AND e.key = :key)
ON CONFLICT (line, branch_id, key) DO UPDATE
SET revision = p.revision + 1, scope = excluded.scope, visibility = excluded.visibility,
    content_hash = excluded.content_hash, body = excluded.body, updated_at = now(),
    base_revision = CASE WHEN p.body IS NULL OR :settle::boolean THEN excluded.base_revision ELSE p.base_revision END
WHERE :expected::bigint IS NULL
   OR :expected::bigint = CASE WHEN p.body IS NULL THEN 0 ELSE p.revision END
RETURNING line, branch_id, key, revision, scope, visibility, content_hash, body, base_revision, updated_at;

-- name: delete(line, branch_id, key, expected)$
-- Delete a private record if it is at the expected revision (null: any); its revisions go on from there.
UPDATE private_records
SET revision = revision + 1, body = NULL, updated_at = now()
WHERE line = :line AND branch_id = :branch_id AND key = :key AND body IS NOT NULL
  AND (:expected::bigint IS NULL OR revision = :expected::bigint)
RETURNING revision;

-- name: page(line, branch_id, after, limit, bytes)
-- The private records of a branch by key, up to the one with which their contents come to so many bytes.
SELECT line, branch_id, key, revision, scope, visibility, content_hash, body, base_revision, updated_at, listed
FROM (
    SELECT p.*, count(*) OVER () AS listed,
           sum(octet_length(p.body)) OVER (ORDER BY p.key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (
        SELECT * FROM private_records
        WHERE line = :line AND branch_id = :branch_id AND key > :after AND body IS NOT NULL
          AND (expires_at IS NULL OR expires_at > now())
        ORDER BY key
        LIMIT :limit
    ) AS p
) AS page
WHERE coalesce(before, 0) < :bytes
ORDER BY key;
