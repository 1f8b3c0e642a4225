-- name: page(line, after, limit)
-- What the first import said, in the order of the keys: versions that are still there, and what is noted of the others.
(SELECT r.key, r.scope, r.content_hash, r.revision FROM record_versions AS r
 WHERE r.line = :line AND r.key > :after AND r.from_generation = 1 AND NOT r.tombstone
 ORDER BY r.key LIMIT :limit)
UNION ALL
(SELECT b.key, b.scope, b.content_hash, b.revision FROM import_base AS b
 WHERE b.line = :line AND b.key > :after AND b.said_at IS NULL
 ORDER BY b.key LIMIT :limit)
ORDER BY key LIMIT :limit;
