-- name: find(line, digest)^
-- A whole uploaded archive.
SELECT * FROM archives WHERE line = :line AND digest = :digest;

-- name: add(line, digest, size, uploaded_by)^
-- The archive is whole.
INSERT INTO archives (line, digest, size, uploaded_by) VALUES (:line, :digest, :size, :uploaded_by)
RETURNING *;

-- name: add_chunk(line, digest, ordinal, body)!
-- A piece of an archive.
INSERT INTO archive_chunks (line, digest, ordinal, body) VALUES (:line, :digest, :ordinal, :body);

-- name: chunk(line, digest, ordinal)$
-- A piece of an archive, by its place from 0.
SELECT body FROM archive_chunks WHERE line = :line AND digest = :digest AND ordinal = :ordinal;
