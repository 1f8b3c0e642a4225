-- name: lines()
-- The lines whose review policy names a model, and what it says of it. What is paused has time.
SELECT l.line, l.policy -> 'review' -> 'proposals' AS policy,
       jsonb_path_exists(l.conditions, '$[*] ? (@.type == "ProposalsUnavailable")') AS unavailable
FROM lines AS l
JOIN line_heads AS h ON h.line = l.line
WHERE (l.policy -> 'review' -> 'proposals' ->> 'model') IS NOT NULL AND l.condemned_at IS NULL
  AND h.pinned_generation IS NULL AND NOT h.suspended;

-- name: merges_wanted(line, limit)
-- Keys of which findings that wait in one job, or they and the record that they contradict, say different things, and
-- about which no model was asked yet, or is to be asked again. What a finding keeps private is not for a model, and where
-- somebody has written a merge that is not decided, nobody needs another one.
SELECT w.job_id, w.key, w.inputs, w.record_revision
FROM (
    SELECT c.job_id, c.key,
           array_agg(c.candidate_id ORDER BY c.candidate_id) AS inputs,
           max(c.canonical_revision) AS record_revision,
           count(DISTINCT c.content_hash) + bool_or(c.conflicting)::integer AS sides
    FROM candidates AS c
    WHERE c.line = :line AND c.state = 'waiting' AND c.origin = 'finding' AND c.op = 'put'
      AND c.visibility = 'shareable' AND c.mark IS NULL
    GROUP BY c.job_id, c.key
) AS w
JOIN jobs AS j ON j.line = :line AND j.job_id = w.job_id
LEFT JOIN proposals AS p ON p.line = :line AND p.job_id = w.job_id AND p.kind = 'merge' AND p.key = w.key
WHERE w.sides > 1 AND j.state = 'awaiting_review' AND j.finished_at IS NULL AND NOT j.failed AND j.origin <> 'Retraction'
  AND (p.key IS NULL OR p.inputs <> w.inputs OR p.record_revision IS DISTINCT FROM w.record_revision
       OR p.state = 'open' AND p.due_at <= clock_timestamp())
  AND NOT EXISTS (
      SELECT FROM merges AS m
      LEFT JOIN candidates AS c ON c.line = :line AND c.candidate_id = m.candidate_id
      WHERE m.line = :line AND m.job_id = w.job_id AND m.key = w.key AND m.origin = 'merge'
        AND (m.state = 'requested' OR c.state = 'waiting')
  )
ORDER BY w.job_id, w.key
LIMIT :limit;

-- name: summaries_wanted(line, findings, limit)
-- Topics with so many findings, or more, that wait in one job, of one scope: what their keys have before the last slash.
-- A model is asked once, and again when further findings have come; not if somebody has written a summary.
SELECT w.job_id, w.key, w.inputs, NULL::bigint AS record_revision
FROM (
    SELECT t.job_id, t.topic || '/summary' AS key, array_agg(t.candidate_id ORDER BY t.candidate_id) AS inputs
    FROM (
        SELECT c.job_id, c.candidate_id, c.key, c.scope, substring(c.key FROM '^(.+)/[^/]+$') AS topic
        FROM candidates AS c
        WHERE c.line = :line AND c.state = 'waiting' AND c.origin = 'finding' AND c.op = 'put'
          AND c.visibility = 'shareable' AND c.mark IS NULL
    ) AS t
    WHERE t.topic IS NOT NULL AND octet_length(t.topic) <= 500 AND t.key <> t.topic || '/summary'
    GROUP BY t.job_id, t.topic
    HAVING count(DISTINCT t.key) >= :findings AND count(DISTINCT t.scope) = 1
) AS w
JOIN jobs AS j ON j.line = :line AND j.job_id = w.job_id
LEFT JOIN proposals AS p ON p.line = :line AND p.job_id = w.job_id AND p.kind = 'summary' AND p.key = w.key
WHERE j.state = 'awaiting_review' AND j.finished_at IS NULL AND NOT j.failed AND j.origin <> 'Retraction'
  AND (p.key IS NULL OR NOT w.inputs <@ p.inputs OR p.state = 'open' AND p.due_at <= clock_timestamp())
  AND NOT EXISTS (
      SELECT FROM merges AS m
      WHERE m.line = :line AND m.job_id = w.job_id AND m.key = w.key AND m.origin = 'summary' AND m.state <> 'void'
  )
ORDER BY w.job_id, w.key
LIMIT :limit;

-- name: lock_job(line, job_id)$
-- Whether a job waits for a review; if so, nobody works on it, decides on it or asks about it until the transaction ends.
SELECT true FROM jobs
WHERE line = :line AND job_id = :job_id AND state = 'awaiting_review' AND finished_at IS NULL AND NOT failed
FOR NO KEY UPDATE;

-- name: earlier(line, job_id, kind, key, inputs, record_revision)^
-- How often a model was asked about some candidates, and whether it need not be asked now.
SELECT p.attempts, p.state <> 'open' OR p.due_at > clock_timestamp() AS settled
FROM proposals AS p
WHERE p.line = :line AND p.job_id = :job_id AND p.kind = :kind AND p.key = :key AND p.inputs = :inputs::text[]
  AND p.record_revision IS NOT DISTINCT FROM :record_revision::bigint;

-- name: spent(line, job_id)^
-- What a job has cost so far.
SELECT coalesce(sum(p.requests), 0)::bigint AS requests, coalesce(sum(p.tokens), 0)::bigint AS tokens
FROM proposals AS p
WHERE p.line = :line AND p.job_id = :job_id;

-- name: begin(line, job_id, kind, key, inputs, record_revision, model, tokens, hold)^
-- Count a request that is about to be made.
INSERT INTO proposals AS p (line, job_id, kind, key, inputs, record_revision, model, attempts, requests, tokens, due_at)
VALUES (:line, :job_id, :kind, :key, :inputs::text[], :record_revision, :model, 1, 1, :tokens,
        clock_timestamp() + :hold::interval)
ON CONFLICT (line, job_id, kind, key) DO UPDATE
SET inputs = excluded.inputs, record_revision = excluded.record_revision, model = excluded.model, state = 'open',
    reason = '', requests = p.requests + 1, tokens = p.tokens + excluded.tokens, due_at = excluded.due_at,
    candidate_id = NULL,
    attempts = CASE WHEN p.inputs = excluded.inputs AND p.record_revision IS NOT DISTINCT FROM excluded.record_revision
                    THEN p.attempts + 1 ELSE 1 END
RETURNING p.attempts, p.requests;

-- name: note(line, job_id, kind, key, inputs, record_revision, model, state, reason, due_in)!
-- Note why a model is not asked about some candidates, for good or for now.
INSERT INTO proposals AS p (line, job_id, kind, key, inputs, record_revision, model, state, reason, attempts, requests,
                            tokens, due_at)
VALUES (:line, :job_id, :kind, :key, :inputs::text[], :record_revision, :model, :state, :reason, 0, 0, 0,
        clock_timestamp() + :due_in::interval)
ON CONFLICT (line, job_id, kind, key) DO UPDATE
SET inputs = excluded.inputs, record_revision = excluded.record_revision, model = excluded.model, state = excluded.state,
    reason = excluded.reason, due_at = excluded.due_at, candidate_id = NULL,
    attempts = CASE WHEN p.inputs = excluded.inputs AND p.record_revision IS NOT DISTINCT FROM excluded.record_revision
                    THEN p.attempts ELSE 0 END;

-- name: settle(line, job_id, kind, key, requests, state, reason, candidate_id, saved, due_in)!
-- Note what came of the newest request; nothing happens if another one was made since.
UPDATE proposals
SET state = :state, reason = :reason, candidate_id = :candidate_id, tokens = greatest(tokens - :saved::bigint, 0),
    due_at = clock_timestamp() + :due_in::interval
WHERE line = :line AND job_id = :job_id AND kind = :kind AND key = :key AND requests = :requests AND state = 'open';
