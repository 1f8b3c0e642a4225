-- name: page(line, from_generation, to_generation, after_key, scopes, limit)
-- What differs between two generations, in the order of the keys; one row of nulls if nothing does.
SELECT a.generation AS from_found, b.generation AS to_found, h.head_generation, d.*
FROM line_heads AS h
LEFT JOIN manifests AS a ON a.line = h.line AND a.generation = :from_generation
LEFT JOIN manifests AS b ON b.line = h.line AND b.generation = :to_generation
LEFT JOIN LATERAL (
    SELECT changed.key,
           x.revision AS from_revision, x.scope AS from_scope, x.content_hash AS from_content_hash,
           x.fact_hash AS from_fact_hash, x.tombstone AS from_tombstone,
           y.revision AS to_revision, y.scope AS to_scope, y.content_hash AS to_content_hash,
           y.fact_hash AS to_fact_hash, y.tombstone AS to_tombstone
    FROM (
        SELECT DISTINCT r.key FROM record_versions AS r
        WHERE r.line = :line
          AND r.from_generation > least(a.generation, b.generation)
          AND r.from_generation <= greatest(a.generation, b.generation)
          AND r.key > :after_key
        ORDER BY r.key
    ) AS changed
    LEFT JOIN LATERAL (
        SELECT * FROM record_versions AS r
        WHERE r.line = :line AND r.key = changed.key AND r.from_generation <= a.generation
        ORDER BY r.from_generation DESC
        LIMIT 1
    ) AS x ON x.to_generation > a.generation AND (:scopes::text[] IS NULL OR x.scope = ANY(:scopes::text[]))
    LEFT JOIN LATERAL (
        SELECT * FROM record_versions AS r
        WHERE r.line = :line AND r.key = changed.key AND r.from_generation <= b.generation
        ORDER BY r.from_generation DESC
        LIMIT 1
    ) AS y ON y.to_generation > b.generation AND (:scopes::text[] IS NULL OR y.scope = ANY(:scopes::text[]))
    WHERE x.revision IS DISTINCT FROM y.revision
    ORDER BY changed.key
    LIMIT :limit
) AS d ON true
WHERE h.line = :line
ORDER BY d.key;
