-- name: made_before(line, moment)$
-- The newest generation that was made before a moment, kept or removed. What is forgotten was made before any.
SELECT coalesce(
    (SELECT min(young.generation) - 1 FROM (
         SELECT m.generation FROM manifests AS m WHERE m.line = :line AND m.created_at >= :moment
         UNION ALL
         SELECT p.generation FROM pruned_manifests AS p WHERE p.line = :line AND p.created_at >= :moment
     ) AS young),
    (SELECT h.head_generation FROM line_heads AS h WHERE h.line = :line));

-- name: expired(line, through, limit)
-- Keys that were deleted no later than in a generation and of which nothing but the tombstone is left, oldest first.
SELECT r.key FROM record_versions AS r
WHERE r.line = :line AND r.tombstone AND r.from_generation <= :through AND r.to_generation = 9223372036854775807
  AND NOT EXISTS (SELECT FROM record_versions AS o
                  WHERE o.line = :line AND o.key = r.key AND o.from_generation < r.from_generation)
ORDER BY r.from_generation
LIMIT :limit;
