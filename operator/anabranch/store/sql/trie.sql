-- name: nodes(line, generation, paths)
-- The nodes at some paths, as they are at a generation.
SELECT n.path, n.body
FROM unnest(:paths::text[]) AS wanted (path)
CROSS JOIN LATERAL (
    SELECT * FROM trie_nodes AS t
    WHERE t.line = :line AND t.path = wanted.path AND t.from_generation <= :generation
    ORDER BY t.from_generation DESC
    LIMIT 1
) AS n
WHERE n.to_generation > :generation;

-- name: relax()!
-- In this transaction one statement may read and sort all records of a line, as fast as the table gives them.
SELECT set_config('statement_timeout', '30min', true),
       set_config('work_mem', '64MB', true),
       set_config('enable_seqscan', 'on', true),
       set_config('enable_bitmapscan', 'on', true);

-- name: descriptors(line, generation, without)
-- What the manifest hash covers at a generation, in the order of the trie; not of records in some scopes.
SELECT r.key, r.revision, r.scope, r.content_hash, r.fact_hash, r.tombstone
FROM record_versions AS r
WHERE r.line = :line AND r.from_generation <= :generation AND r.to_generation > :generation
  AND r.scope <> ALL(:without::text[])
ORDER BY sha256(convert_to(r.key, 'UTF8'));
