-- name: be_brief()!
-- In this transaction no statement may take long, and what it looks at is held in memory.
SELECT set_config('statement_timeout', '5s', true), set_config('work_mem', '64MB', true);

-- name: corpus(line, scopes)^
-- How much is indexed in some scopes, and through which generation.
SELECT coalesce((SELECT p.through FROM search_progress AS p WHERE p.line = :line), 0) AS through,
       coalesce(sum(s.documents), 0)::bigint AS documents, coalesce(sum(s.words), 0)::bigint AS words
FROM search_segments AS s
WHERE s.line = :line AND s.scope = ANY(:scopes::text[]);

-- name: having(line, scopes, words)
-- How many documents in some scopes have each of some words, and of how many of them there are entries one by one.
SELECT w.word, sum(w.documents)::bigint AS documents,
       coalesce(sum(w.documents) FILTER (WHERE w.dense IS NULL), 0)::bigint AS listed
FROM search_segments AS s
CROSS JOIN unnest(:words::text[]) AS wanted (word)
JOIN search_words AS w ON w.line = :line AND w.segment = s.segment AND w.word = wanted.word
WHERE s.line = :line AND s.scope = ANY(:scopes::text[])
GROUP BY w.word;

-- name: lag(line, through, generation, limit)$
-- How many versions began after a generation and not after another one, counted up to so many.
SELECT count(*) FROM (
    SELECT FROM record_versions AS r
    WHERE r.line = :line AND r.from_generation > :through AND r.from_generation <= :generation
    LIMIT :limit
) AS late;

-- name: late(line, through, generation, scopes, branch_id, bytes)
-- What a generation shows of the versions that began after another one, but for those that a branch has a private record
-- of. Only so many bytes of it, by key; one row more, without a content, says that there is more.
SELECT kept.key, kept.revision, kept.scope, kept.content_hash,
       (SELECT c.body FROM contents AS c
        WHERE kept.size <= :bytes AND c.line = :line AND c.content_hash = kept.content_hash) AS body,
       (SELECT f.body FROM facts AS f WHERE f.line = :line AND f.fact_hash = kept.fact_hash) AS fact_body
FROM (
    SELECT r.key, r.revision, r.scope, r.content_hash, r.fact_hash,
           sum(octet_length(c.body)) OVER (ORDER BY r.key) AS size,
           sum(octet_length(c.body)) OVER (ORDER BY r.key) - octet_length(c.body) AS before
    FROM record_versions AS r
    JOIN contents AS c ON c.line = :line AND c.content_hash = r.content_hash
    WHERE r.line = :line AND r.from_generation > :through AND r.from_generation <= :generation
      AND r.to_generation > :generation AND NOT r.tombstone AND r.scope = ANY(:scopes::text[])
      AND NOT EXISTS (SELECT FROM private_records AS o
                      WHERE o.line = :line AND o.branch_id = :branch_id AND o.key = r.key AND o.body IS NOT NULL
                        AND (o.expires_at IS NULL OR o.expires_at > now()))
) AS kept
WHERE kept.before <= :bytes;

-- name: overlay(line, branch_id, patterns, bytes)
-- Private records in which words may be: a letter that is no ASCII may be one without its accent. Only so many bytes of
-- them, by key; one row more, without a content, says that there are more. Each costs memory beside what it says.
SELECT kept.key, kept.revision, kept.scope, kept.visibility, kept.content_hash,
       CASE WHEN kept.size <= :bytes THEN kept.body END AS body
FROM (
    SELECT p.*, cost.bytes AS own, sum(cost.bytes) OVER (ORDER BY p.key) AS size
    FROM private_records AS p
    CROSS JOIN LATERAL (SELECT p.key || ' ' || convert_from(p.body, 'UTF8') AS said) AS record
    CROSS JOIN LATERAL (SELECT octet_length(p.key) + octet_length(p.body) + 256 AS bytes) AS cost
    WHERE p.line = :line AND p.branch_id = :branch_id AND p.body IS NOT NULL
      AND (p.expires_at IS NULL OR p.expires_at > now())
      AND (octet_length(record.said) <> char_length(record.said)
           OR lower(record.said COLLATE "C") LIKE ANY(:patterns::text[]))
) AS kept
WHERE kept.size - kept.own <= :bytes;

-- name: hash_joins()!
-- From here on in this transaction, join by hashing what is not joined row by row in any case (see `rank`).
SELECT set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true);

-- name: rank(line, generation, scopes, branch_id, words, weights, costs, champions, deep, most, large, limit, without)
-- The records that a generation shows and that score highest for some words (BM25), the best first; those that a branch
-- has a private record of, and those of some keys, are left out.
--
-- Candidates are the documents that the entries of the words list. Frequent words list only their champions, which are
-- taken where the others have too few; their counts are looked up for each candidate that could still come among the
-- first so many (`deep`) if it had all that are frequent in its segment. What a document stands for is looked at last,
-- in the order of the scores, until there are enough that the generation shows.
--
-- The planner cannot know how many candidates there are, and would compare each of them with each posting. So it is told
-- to join by hashing, and whatever is to be looked up row by row stands in a subquery that leaves no choice.
WITH posting AS MATERIALIZED (
    SELECT s.segment, wanted.weight, w.entries, w.dense || ''::bytea AS dense
    FROM search_segments AS s
    CROSS JOIN LATERAL unnest(:words::text[], :weights::float8[]) AS wanted (word, weight)
    CROSS JOIN LATERAL (
        SELECT f.entries, f.dense FROM search_words AS f
        WHERE f.line = :line AND f.segment = s.segment AND f.word = wanted.word
        OFFSET 0
    ) AS w
    WHERE s.line = :line AND s.scope = ANY(:scopes::text[])
), candidate AS MATERIALIZED (
    SELECT p.segment, e.entry >> 16 AS document, min(e.entry & 255) AS size,
           sum(CASE WHEN p.dense IS NULL
               THEN p.weight * (e.entry >> 8 & 255) / ((e.entry >> 8 & 255) + (:costs::float8[])[(e.entry & 255) + 1])
               ELSE 0 END) AS score
    FROM posting AS p
    CROSS JOIN LATERAL unnest(p.entries) AS e (entry)
    WHERE p.dense IS NULL OR :champions::boolean
    GROUP BY p.segment, e.entry >> 16
), slack AS MATERIALIZED (
    SELECT p.segment, sum(p.weight) AS most FROM posting AS p WHERE p.dense IS NOT NULL GROUP BY p.segment
), hopeful AS MATERIALIZED (
    SELECT c.* FROM candidate AS c
    LEFT JOIN slack AS s ON s.segment = c.segment
    WHERE c.score + coalesce(s.most, 0) >= coalesce(
        (SELECT o.score FROM candidate AS o ORDER BY o.score DESC OFFSET :deep LIMIT 1), 0
    )
    ORDER BY c.score DESC
    LIMIT :most
), scored AS MATERIALIZED (
    SELECT c.segment, c.document, c.score + coalesce(sum(
               p.weight * get_byte(p.dense, c.document)
               / (get_byte(p.dense, c.document) + (:costs::float8[])[c.size + 1])
           ), 0) AS score
    FROM hopeful AS c
    LEFT JOIN posting AS p ON p.segment = c.segment AND p.dense IS NOT NULL
    GROUP BY c.segment, c.document, c.score
), best AS (
    SELECT s.score, s.segment, s.document, v.*
    FROM (SELECT * FROM scored ORDER BY score DESC, segment DESC, document OFFSET 0) AS s
    CROSS JOIN LATERAL (
        SELECT d.key, d.from_generation FROM search_documents AS d
        WHERE d.line = :line AND d.segment = s.segment AND d.document = s.document
        OFFSET 0
    ) AS d
    CROSS JOIN LATERAL (
        SELECT r.key, r.revision, r.scope, r.content_hash, r.fact_hash FROM record_versions AS r
        WHERE r.line = :line AND r.key = d.key AND r.from_generation = d.from_generation
          AND r.from_generation <= :generation AND r.to_generation > :generation AND r.scope = ANY(:scopes::text[])
        OFFSET 0
    ) AS v
    WHERE (SELECT o.revision FROM private_records AS o
           WHERE o.line = :line AND o.branch_id = :branch_id AND o.key = d.key AND o.body IS NOT NULL
             AND (o.expires_at IS NULL OR o.expires_at > now())) IS NULL
      AND d.key <> ALL(:without::text[])
    LIMIT :limit
)
SELECT b.key, b.revision, b.scope, b.content_hash, b.score, b.segment, b.document,
       (SELECT CASE WHEN octet_length(c.body) <= :large THEN c.body END FROM contents AS c
        WHERE c.line = :line AND c.content_hash = b.content_hash) AS body,
       (SELECT f.body FROM facts AS f WHERE f.line = :line AND f.fact_hash = b.fact_hash) AS fact_body
FROM best AS b;
