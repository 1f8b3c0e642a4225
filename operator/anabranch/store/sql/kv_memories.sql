-- name: page(line, branch_id, namespace, low, topic, tag, since_ms, until_ms, before_ms, before_key, limit)
-- Structured memories, by when they happened, the newest first: those with these labels, beginning before a place.
SELECT r.key, r.revision, r.size, r.media_type, coalesce(r.raw, p.body) AS value, p.updated_at AS written_at,
       p.expires_at, r.occurred_at_ms
FROM kv_records AS r
CROSS JOIN LATERAL (
    SELECT o.body, o.updated_at, o.expires_at FROM private_records AS o
    WHERE o.line = :line AND o.branch_id = :branch_id AND o.key = :low || r.key
    OFFSET 0  -- one by its key for each, whatever the planner believes to be cheaper
) AS p
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
    SELECT r.key, r.length, r.words, r.occurred_at_ms, r.topic, r.tags
    FROM kv_records AS r
    WHERE r.line = :line AND r.branch_id = :branch_id AND r.namespace = :namespace AND r.occurred_at_ms IS NOT NULL
      AND (SELECT p.expires_at IS NULL OR p.expires_at > now() FROM private_records AS p
           WHERE p.line = :line AND p.branch_id = :branch_id AND p.key = :low || r.key AND p.body IS NOT NULL)
), corpus AS MATERIALIZED (
    SELECT count(*)::float8 AS documents, greatest(avg(coalesce(length, 0)), 1)::float8 AS average FROM live
), found AS (
    SELECT l.key, l.length, l.occurred_at_ms, l.topic, l.tags, u.lexeme, cardinality(u.positions)::float8 AS times,
           (:weights::float8[])[array_position(:lexemes::text[], u.lexeme)] AS weight
    FROM live AS l CROSS JOIN LATERAL unnest(l.words) AS u
    WHERE l.words @@ :any_of::tsquery AND u.lexeme = ANY(:lexemes::text[])
), weighed AS (
    SELECT f.*, count(*) OVER (PARTITION BY f.lexeme)::float8 AS holders FROM found AS f
), scored AS (
    SELECT w.key, w.occurred_at_ms, w.topic, w.tags,
           sum(w.weight * ln(1 + (c.documents - w.holders + 0.5) / (w.holders + 0.5)) * w.times * 2.2
               / (w.times + 1.2 * (0.25 + 0.75 * w.length / c.average))) AS score
    FROM weighed AS w CROSS JOIN corpus AS c
    GROUP BY w.key, w.occurred_at_ms, w.topic, w.tags
), best AS (
    SELECT s.key, s.score, count(*) OVER () AS matches
    FROM scored AS s
    WHERE s.occurred_at_ms >= :since_ms AND s.occurred_at_ms <= :until_ms
      AND (:topic::text IS NULL OR s.topic = :topic) AND (:tag::text IS NULL OR :tag = ANY(s.tags))
    ORDER BY s.score DESC, s.key
    OFFSET :skip
    LIMIT :limit
)
SELECT b.score, b.matches, r.key, r.revision, r.size, r.media_type, coalesce(r.raw, p.body) AS value,
       p.updated_at AS written_at, p.expires_at, r.occurred_at_ms
FROM best AS b
CROSS JOIN LATERAL (
    SELECT k.* FROM kv_records AS k
    WHERE k.line = :line AND k.branch_id = :branch_id AND k.namespace = :namespace AND k.key = b.key
    OFFSET 0
) AS r
CROSS JOIN LATERAL (
    SELECT o.body, o.updated_at, o.expires_at FROM private_records AS o
    WHERE o.line = :line AND o.branch_id = :branch_id AND o.key = :low || b.key
    OFFSET 0
) AS p
ORDER BY b.score DESC, b.key;
