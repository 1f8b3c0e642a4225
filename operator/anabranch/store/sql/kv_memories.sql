-- name: page(line, branch_id, namespace, low, topic, tag, since_ms, until_ms, before_ms, before_key, limit)
-- Structured memories, by when they happened, the newest first: those with these labels, beginning before a place.
SELECT r.key, r.revision, r.size, r.media_type, coalesce(r.raw, p.body) AS value, p.updated_at AS written_at,
       p.expires_at, r.occurred_at_ms
FROM kv_records AS r
JOIN private_records AS p ON p.line = :line AND p.branch_id = :branch_id AND p.key = :low || r.key
WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace
  AND r.occurred_at_ms >= :since_ms AND r.occurred_at_ms <= :until_ms
  AND (r.occurred_at_ms, r.key) < (:before_ms::bigint, :before_key::text)
  AND (:topic::text IS NULL OR r.topic = :topic) AND (:tag::text IS NULL OR :tag = ANY(r.tags))
  AND p.body IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > now())
ORDER BY r.occurred_at_ms DESC, r.key DESC
LIMIT :limit;

-- name: terms(text, more, most)
-- The words that a question asks for, as they are indexed; the first ones of it, and then of the related ones.
SELECT lexeme, min(place) AS place, bool_and(related) AS related
FROM (
    SELECT lexeme, positions[1] AS place, false AS related FROM unnest(to_tsvector('english', :text::text))
    UNION ALL
    SELECT lexeme, 100000, true FROM unnest(to_tsvector('english', :more::text))
) AS found
GROUP BY lexeme
ORDER BY related, place
LIMIT :most;

-- name: rank(line, branch_id, namespace, low, any_of, lexemes, weights, topic, tag, since_ms, until_ms, skip, limit)
-- Structured memories by BM25 (k1 1.2, b 0.75) of some words, the best first; labels are looked at after scoring.
WITH live AS (
    SELECT r.key, r.length, r.words
    FROM kv_records AS r
    JOIN private_records AS p ON p.line = :line AND p.branch_id = :branch_id AND p.key = :low || r.key
    WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace AND r.occurred_at_ms IS NOT NULL
      AND p.body IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > now())
), corpus AS (
    SELECT count(*)::float8 AS documents, greatest(avg(coalesce(length, 0)), 1)::float8 AS average FROM live
), found AS (
    SELECT l.key, l.length, u.lexeme, q.weight, cardinality(u.positions)::float8 AS times
    FROM live AS l
    CROSS JOIN LATERAL unnest(l.words) AS u
    JOIN unnest(:lexemes::text[], :weights::float8[]) AS q (lexeme, weight) ON q.lexeme = u.lexeme
    WHERE l.words @@ :any_of::tsquery
), weighed AS (
    SELECT f.key, f.lexeme, f.weight, f.times, f.length, count(*) OVER (PARTITION BY f.lexeme)::float8 AS holders
    FROM found AS f
), scored AS (
    SELECT w.key, sum(w.weight * ln(1 + (c.documents - w.holders + 0.5) / (w.holders + 0.5)) * w.times * 2.2
                      / (w.times + 1.2 * (0.25 + 0.75 * w.length / c.average))) AS score
    FROM weighed AS w CROSS JOIN corpus AS c
    GROUP BY w.key
)
SELECT s.score, count(*) OVER () AS matches, r.key, r.revision, r.size, r.media_type,
       coalesce(r.raw, p.body) AS value, p.updated_at AS written_at, p.expires_at, r.occurred_at_ms
FROM scored AS s
JOIN kv_records AS r
  ON r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace AND r.key = s.key
JOIN private_records AS p ON p.line = :line AND p.branch_id = :branch_id AND p.key = :low || s.key
WHERE r.occurred_at_ms >= :since_ms AND r.occurred_at_ms <= :until_ms
  AND (:topic::text IS NULL OR r.topic = :topic) AND (:tag::text IS NULL OR :tag = ANY(r.tags))
ORDER BY s.score DESC, r.key
OFFSET :skip
LIMIT :limit;
