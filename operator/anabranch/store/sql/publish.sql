-- name: close_versions(line, generation, keys)
-- End the newest versions of some keys, which are looked up first (by their place: an exact one, whatever the statistics
-- say); gives the keys that had one, and whether that was a tombstone.
UPDATE record_versions SET to_generation = :generation
WHERE line = :line AND to_generation = 9223372036854775807 AND ctid = ANY(ARRAY(
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

-- name: add_contents(line, hashes, bodies)!
-- Store contents, each once.
INSERT INTO contents (line, content_hash, body)
SELECT :line, given.hash, given.body FROM unnest(:hashes::bytea[], :bodies::bytea[]) AS given (hash, body)
ORDER BY given.hash
ON CONFLICT DO NOTHING;

-- name: add_facts(line, hashes, bodies)!
-- Store provenance, each once.
INSERT INTO facts (line, fact_hash, body)
SELECT :line, given.hash, given.body FROM unnest(:hashes::bytea[], :bodies::bytea[]) AS given (hash, body)
ORDER BY given.hash
ON CONFLICT DO NOTHING;

-- name: open_versions(line, generation, revision, keys, scopes, content_hashes, fact_hashes, tombstones)!
-- Begin versions; one whose content is not stored is left out, which the caller sees by the count.
INSERT INTO record_versions (line, key, from_generation, revision, scope, content_hash, fact_hash, tombstone)
SELECT :line, v.key, :generation, :revision, v.scope, v.content_hash, v.fact_hash, v.tombstone
FROM unnest(:keys::text[], :scopes::text[], :content_hashes::bytea[], :fact_hashes::bytea[], :tombstones::boolean[])
    AS v (key, scope, content_hash, fact_hash, tombstone)
WHERE v.tombstone
   OR EXISTS (SELECT FROM contents AS c WHERE c.line = :line AND c.content_hash = v.content_hash);

-- name: close_nodes(line, generation, paths)!
-- End the newest nodes at some paths, where there are any.
UPDATE trie_nodes SET to_generation = :generation
WHERE line = :line AND to_generation = 9223372036854775807 AND ctid = ANY(ARRAY(
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

-- name: add_manifest(line, generation, baseline_id, parent_generation, manifest_hash, records, revision, origin, feed_watermark)^
-- Write a manifest.
INSERT INTO manifests (line, generation, baseline_id, parent_generation, manifest_hash, records, revision, origin,
                       feed_watermark)
VALUES (:line, :generation, :baseline_id, :parent_generation, :manifest_hash, :records, :revision, :origin,
        :feed_watermark)
RETURNING *;

-- name: advance_head(line, generation, revision, event_sequence)!
-- Make a generation the head, and what readers see unless another is pinned.
UPDATE line_heads
SET head_generation = :generation,
    revision = :revision,
    event_sequence = :event_sequence,
    current_generation = CASE WHEN pinned_generation IS NULL THEN :generation ELSE current_generation END,
    previous_generation = CASE WHEN pinned_generation IS NULL THEN current_generation ELSE previous_generation END
WHERE line = :line;

-- name: move_current(line, generation, pinned_generation, event_sequence)!
-- Let readers see another generation.
UPDATE line_heads
SET current_generation = :generation,
    previous_generation = current_generation,
    pinned_generation = :pinned_generation,
    event_sequence = :event_sequence
WHERE line = :line;

-- name: add_events(line, sequences, event_ids, kinds, scopes, keys, revisions, content_hashes, origin_branches, generation, published_baseline_id)!
-- Append to the feed.
INSERT INTO events (line, sequence, event_id, kind, scope, key, revision, content_hash, origin_branch, generation,
                    published_baseline_id)
SELECT :line, e.sequence, e.event_id, e.kind, e.scope, e.key, e.revision, e.content_hash, e.origin_branch, :generation,
       :published_baseline_id
FROM unnest(:sequences::bigint[], :event_ids::text[], :kinds::text[], :scopes::text[], :keys::text[],
            :revisions::bigint[], :content_hashes::bytea[], :origin_branches::text[])
    AS e (sequence, event_id, kind, scope, key, revision, content_hash, origin_branch);

-- name: record_publication(line, job_id, generation)$
-- Note that a job has published; nothing comes back when it had already.
INSERT INTO publications (line, job_id, generation) VALUES (:line, :job_id, :generation)
ON CONFLICT DO NOTHING
RETURNING generation;

-- name: publication(line, job_id)$
-- The generation that a job has published.
SELECT generation FROM publications WHERE line = :line AND job_id = :job_id;
