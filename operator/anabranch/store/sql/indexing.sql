-- name: be_patient()!
-- In this transaction the next documents are made ready while the server waits, and one statement may walk a line.
SELECT set_config('statement_timeout', '10min', true), set_config('idle_in_transaction_session_timeout', '10min', true);

-- name: next()$
-- The line of those with generations that are not indexed whose last turn is the longest ago.
SELECT h.line FROM line_heads AS h
JOIN lines AS l ON l.line = h.line
LEFT JOIN search_progress AS p ON p.line = h.line
WHERE h.head_generation > coalesce(p.through, 0) AND l.condemned_at IS NULL
ORDER BY coalesce(p.turn_at, '-infinity')
LIMIT 1;

-- name: take(line)^
-- The index of a line, which nobody else has until the transaction ends; no row: somebody has it, or there is none.
SELECT p.line, p.through, p.target, p.walked_key, p.walked_generation, p.next_segment, h.head_generation
FROM search_progress AS p
JOIN line_heads AS h ON h.line = p.line
JOIN lines AS l ON l.line = p.line
WHERE p.line = :line AND l.condemned_at IS NULL
FOR NO KEY UPDATE OF p SKIP LOCKED;

-- name: enrol(line)!
-- Begin the index of a line, unless it has one.
INSERT INTO search_progress (line) VALUES (:line) ON CONFLICT DO NOTHING;

-- name: put_off(line)!
-- Let the other lines come first.
INSERT INTO search_progress AS p (line, turn_at) VALUES (:line, clock_timestamp())
ON CONFLICT (line) DO UPDATE SET turn_at = excluded.turn_at;

-- name: advance(line, through, target, walked_key, walked_generation, next_segment)!
-- Note how far the index of a line has come.
UPDATE search_progress
SET through = :through, target = :target, walked_key = :walked_key, walked_generation = :walked_generation,
    next_segment = :next_segment, turn_at = clock_timestamp()
WHERE line = :line;

-- name: begun(line, after, through, limit)
-- The versions that began after a generation and not after another one, deletions left out.
SELECT r.key, r.from_generation, r.scope, r.content_hash,
       coalesce((SELECT octet_length(c.body) FROM contents AS c
                 WHERE c.line = :line AND c.content_hash = r.content_hash), 0) AS size
FROM record_versions AS r
WHERE r.line = :line AND r.from_generation > :after AND r.from_generation <= :through AND NOT r.tombstone
LIMIT :limit;

-- name: walk(line, after, through, key, generation, limit)
-- Likewise, some of them in the order of their keys, behind a place.
SELECT r.key, r.from_generation, r.scope, r.content_hash,
       coalesce((SELECT octet_length(c.body) FROM contents AS c
                 WHERE c.line = :line AND c.content_hash = r.content_hash), 0) AS size
FROM record_versions AS r
WHERE r.line = :line AND (r.key, r.from_generation) > (:key, :generation)
  AND r.from_generation > :after AND r.from_generation <= :through AND NOT r.tombstone
ORDER BY r.key, r.from_generation
LIMIT :limit;

-- name: remaining(line, segments)
-- The versions of some segments that are still there.
SELECT r.key, r.from_generation, r.scope, r.content_hash,
       coalesce((SELECT octet_length(c.body) FROM contents AS c
                 WHERE c.line = :line AND c.content_hash = r.content_hash), 0) AS size
FROM search_documents AS d
JOIN record_versions AS r ON r.line = :line AND r.key = d.key AND r.from_generation = d.from_generation
WHERE d.line = :line AND d.segment = ANY(:segments::integer[])
ORDER BY d.segment, d.document;

-- name: add_segment(line, segment, scope, documents, words)!
-- Begin a segment.
INSERT INTO search_segments (line, segment, scope, documents, words)
VALUES (:line, :segment, :scope, :documents, :words);

-- name: sizes(line)
-- The segments of a line.
SELECT segment, scope, documents FROM search_segments WHERE line = :line ORDER BY segment;

-- name: drop_segments(line, segments)!
-- Remove segments.
WITH documents AS (DELETE FROM search_documents WHERE line = :line AND segment = ANY(:segments::integer[])),
     words AS (DELETE FROM search_words WHERE line = :line AND segment = ANY(:segments::integer[]))
DELETE FROM search_segments WHERE line = :line AND segment = ANY(:segments::integer[]);

-- name: recount(line)!
-- Have the segments of a line counted again: versions were removed.
UPDATE search_segments SET recount = true WHERE line = :line AND NOT recount;

-- name: uncounted(older_than)^
-- A segment of any line of which versions may be gone, unless it was counted not long ago.
SELECT s.line, s.segment, s.documents FROM search_segments AS s
JOIN lines AS l ON l.line = s.line
WHERE s.recount AND s.counted_at < now() - :older_than::interval AND l.condemned_at IS NULL
ORDER BY s.counted_at
LIMIT 1;

-- name: counted(line, segment)!
-- Note that a segment was counted.
UPDATE search_segments SET recount = false, counted_at = now() WHERE line = :line AND segment = :segment;
