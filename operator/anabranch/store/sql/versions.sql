-- name: close_versions(line, generation, keys)
-- End the newest versions of some keys, which are looked up first (by their place: an exact one, whatever the statistics
-- say); gives the keys that had one, and whether that was a tombstone.
UPDATE record_versions SET to_generation = :generation
WHERE to_generation = 9223372036854775807 AND ctid = ANY(ARRAY(
    SELECT newest.ctid
    FROM unnest(:keys::text[]) AS wanted (key)
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM record_versions AS r
        WHERE r.line = :line AND r.key = wanted.key
        ORDER BY r.from_generation DESC
        LIMIT 1
    ) AS newest
))
RETURNING key, tombstone;

-- name: open_versions(line, generation, revision, keys, scopes, content_hashes, fact_hashes, tombstones)!
-- Begin versions; one whose content is not stored is left out, which the caller sees by the count.
INSERT INTO record_versions (line, key, from_generation, revision, scope, content_hash, fact_hash, tombstone)
SELECT :line, v.key, :generation, :revision, v.scope, v.content_hash, v.fact_hash, v.tombstone
FROM unnest(:keys::text[], :scopes::text[], :content_hashes::bytea[], :fact_hashes::bytea[], :tombstones::boolean[])
    AS v (key, scope, content_hash, fact_hash, tombstone)
WHERE v.tombstone
   OR (SELECT true FROM contents AS c WHERE c.line = :line AND c.content_hash = v.content_hash);

-- name: add_facts(line, hashes, bodies)!
-- Store provenance, each once. One that is there is locked, so that retention does not find it unused in between.
INSERT INTO facts (line, fact_hash, body)
SELECT :line, given.hash, given.body FROM unnest(:hashes::bytea[], :bodies::bytea[]) AS given (hash, body)
ORDER BY given.hash
ON CONFLICT (line, fact_hash) DO UPDATE SET body = facts.body;

-- name: close_nodes(line, generation, paths)!
-- End the newest nodes at some paths, where there are any.
UPDATE trie_nodes SET to_generation = :generation
WHERE to_generation = 9223372036854775807 AND ctid = ANY(ARRAY(
    SELECT newest.ctid
    FROM unnest(:paths::text[]) AS wanted (path)
    CROSS JOIN LATERAL (
        SELECT t.ctid FROM trie_nodes AS t
        WHERE t.line = :line AND t.path = wanted.path
        ORDER BY t.from_generation DESC
        LIMIT 1
    ) AS newest
));

-- name: open_nodes(line, generation, paths, hashes, bodies)!
-- Begin nodes.
INSERT INTO trie_nodes (line, path, from_generation, hash, body)
SELECT :line, n.path, :generation, n.hash, n.body
FROM unnest(:paths::text[], :hashes::bytea[], :bodies::bytea[]) AS n (path, hash, body);
