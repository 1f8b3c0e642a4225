-- name: put_many(line, hashes, bodies)!
-- Store contents, each once; in one order, so that two writers of the same ones cannot block each other. One that is there
-- is locked: whoever stores it is about to refer to it, and retention may not find it unused in between.
INSERT INTO contents (line, content_hash, body)
SELECT :line, given.hash, given.body
FROM unnest(:hashes::bytea[], :bodies::bytea[]) AS given (hash, body)
ORDER BY given.hash
ON CONFLICT (line, content_hash) DO UPDATE SET body = contents.body;

-- name: get_many(line, hashes)
-- Contents by their hashes.
SELECT content_hash, body FROM contents WHERE line = :line AND content_hash = ANY(:hashes::bytea[]);

-- name: sizes(line, hashes)
-- Bytes of contents by their hashes.
SELECT content_hash, octet_length(body) AS size FROM contents
WHERE line = :line AND content_hash = ANY(:hashes::bytea[]);
