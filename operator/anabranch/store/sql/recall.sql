-- name: gate(line)^
-- What a Baseline asks of its recall.
SELECT g.line, g.config_map, g.k, g.floor, g.max_regression, g.digest FROM recall_gates AS g WHERE g.line = :line;

-- name: keep(line, config_map, k, floor, max_regression, digest, tasks)$
-- Keep what a Baseline asks of its recall; the line if that is anything new.
INSERT INTO recall_gates AS g (line, config_map, k, floor, max_regression, digest, tasks)
VALUES (:line, :config_map, :k, :floor, :max_regression, :digest, :tasks)
ON CONFLICT (line) DO UPDATE
SET config_map = excluded.config_map, k = excluded.k, floor = excluded.floor, max_regression = excluded.max_regression,
    digest = excluded.digest, tasks = excluded.tasks, turn_at = '-infinity'
WHERE (g.config_map, g.k, g.floor, g.max_regression, g.digest)
      IS DISTINCT FROM (excluded.config_map, excluded.k, excluded.floor, excluded.max_regression, excluded.digest)
RETURNING g.line;

-- name: drop(line)$
-- A Baseline asks nothing of its recall any more; the line if it did.
DELETE FROM recall_gates WHERE line = :line RETURNING line;

-- name: tasks(line, digest)$
-- The set of questions, unless it is another one by now.
SELECT g.tasks FROM recall_gates AS g WHERE g.line = :line AND g.digest = :digest;

-- name: write(line, generation, digest, k, tasks, recall, recall_at_1, mrr, against, change, low, high, worse, recalls)!
-- Note what a generation answers, in place of what another set said of it.
INSERT INTO recall_results (line, generation, digest, k, tasks, recall, recall_at_1, mrr, against, change, low, high,
                            worse, recalls)
VALUES (:line, :generation, :digest, :k, :tasks, :recall, :recall_at_1, :mrr, :against, :change, :low, :high,
        :worse::text[], :recalls)
ON CONFLICT (line, generation) DO UPDATE
SET digest = excluded.digest, k = excluded.k, tasks = excluded.tasks, recall = excluded.recall,
    recall_at_1 = excluded.recall_at_1, mrr = excluded.mrr, against = excluded.against, change = excluded.change,
    low = excluded.low, high = excluded.high, worse = excluded.worse, recalls = excluded.recalls,
    measured_at = excluded.measured_at;

-- name: recalls(line, before, digest, k)^
-- What the newest generation before one answers that was asked the same, by task.
SELECT r.generation, r.recalls FROM recall_results AS r
WHERE r.line = :line AND r.generation < :before AND r.digest = :digest AND r.k = :k
ORDER BY r.generation DESC
LIMIT 1;

-- name: results(line, before, limit)
-- What retained generations before one answer, newest first.
SELECT r.generation, r.digest, r.k, r.tasks, r.recall, r.recall_at_1, r.mrr, r.against, r.change, r.low, r.high, r.worse
FROM recall_results AS r
WHERE r.line = :line AND r.generation < :before
  AND EXISTS (SELECT FROM manifests AS m WHERE m.line = :line AND m.generation = r.generation)
ORDER BY r.generation DESC
LIMIT :limit;

-- name: next(every)^
-- A generation that readers see, or that would be the next, and that was not asked what its Baseline has asked since; of
-- the line whose last turn is the longest ago.
SELECT g.line, g.digest, g.k, seen.generation
FROM recall_gates AS g
JOIN lines AS l ON l.line = g.line
JOIN line_heads AS h ON h.line = g.line
CROSS JOIN LATERAL (
    SELECT m.generation FROM unnest(ARRAY[h.current_generation, h.head_generation]) AS m (generation)
    WHERE m.generation > 0
      AND NOT EXISTS (SELECT FROM recall_results AS r
                      WHERE r.line = g.line AND r.generation = m.generation AND r.digest = g.digest AND r.k = g.k)
    ORDER BY m.generation
    LIMIT 1
) AS seen
WHERE g.digest IS NOT NULL AND l.condemned_at IS NULL AND l.deleted_at IS NULL
  AND (g.turn_at <= statement_timestamp() - :every::interval OR g.turn_at > statement_timestamp())
ORDER BY g.turn_at
LIMIT 1;

-- name: turned(line)!
-- Let the other lines come first.
UPDATE recall_gates SET turn_at = clock_timestamp() WHERE line = :line;

-- name: forget(line)!
-- Forget what generations answered that are not kept any more.
DELETE FROM recall_results AS r
WHERE r.line = :line AND r.generation < (SELECT min(m.generation) FROM manifests AS m WHERE m.line = :line);

-- name: hold(line, job_id, reason, generation, digest, k, recall, change, low, high, failing)!
-- Note what was held, and how far its reviews went.
INSERT INTO recall_holds (line, job_id, reason, generation, digest, k, recall, change, low, high, failing,
                          reviews_through)
SELECT :line, :job_id, :reason, :generation, :digest, :k, :recall, :change, :low, :high, :failing::text[],
       coalesce((SELECT max(v.ordinal) FROM reviews AS v WHERE v.line = :line AND v.job_id = :job_id), 0);

-- name: holds(line, job_ids)
-- The newest hold of each of some jobs.
SELECT DISTINCT ON (d.job_id) d.job_id, count(*) OVER (PARTITION BY d.job_id) AS number, d.reason, d.generation,
       d.recall, d.change, d.failing, d.reviews_through
FROM recall_holds AS d
WHERE d.line = :line AND d.job_id = ANY(:job_ids::text[])
ORDER BY d.job_id, d.ordinal DESC;
