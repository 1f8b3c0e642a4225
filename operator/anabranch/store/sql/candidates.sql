-- name: insert(line, candidate_id, job_id, origin_job, ordinal, branch_id, run_id, author, op, key, scope, visibility, content_hash, base_revision, sources, origin_runs, observed_at, state, conflicting, reason, detail, canonical_revision, canonical_hash, mark, cited, origin, inputs, contributors, model)*!
-- Keep candidates; one that its origin job imported before stays as it is.
INSERT INTO candidates (line, candidate_id, job_id, origin_job, ordinal, branch_id, run_id, author, op, key, scope,
                        visibility, content_hash, base_revision, sources, origin_runs, observed_at, state, conflicting,
                        reason, detail, canonical_revision, canonical_hash, mark, cited, origin, inputs, contributors,
                        model)
VALUES (:line, :candidate_id, :job_id, :origin_job, :ordinal, :branch_id, :run_id, :author, :op, :key, :scope,
        :visibility, :content_hash, :base_revision, :sources, :origin_runs, :observed_at, :state, :conflicting,
        :reason, :detail, :canonical_revision, :canonical_hash, :mark, :cited, :origin, :inputs, :contributors,
        :model)
ON CONFLICT (line, origin_job, ordinal) DO NOTHING;

-- name: get(line, candidate_id)^
-- A candidate by its id.
SELECT * FROM candidates WHERE line = :line AND candidate_id = :candidate_id;

-- name: of_job(line, job_id)
-- The candidates that a job decides, in the order of their import.
SELECT * FROM candidates WHERE line = :line AND job_id = :job_id ORDER BY origin_job, ordinal;

-- name: of_job_by_id(line, job_id, candidate_ids)
-- Those of some candidates that a job decides.
SELECT * FROM candidates
WHERE line = :line AND job_id = :job_id AND candidate_id = ANY(:candidate_ids::text[])
ORDER BY candidate_id;

-- name: next_ordinal(line, origin_job)$
-- One more than the last place that a job's candidates have.
SELECT coalesce(max(ordinal) + 1, 0) FROM candidates WHERE line = :line AND origin_job = :origin_job;

-- name: citing(line, job_id, locator)
-- Which branches' candidates of a job cite a source that was verified, and why those stand where they do.
SELECT branch_id, reason FROM candidates
WHERE line = :line AND job_id = :job_id AND branch_id IS NOT NULL
    AND sources @> jsonb_build_array(jsonb_build_object('locator', :locator::text, 'status', 'verified'))
GROUP BY branch_id, reason;

-- name: states(line, job_id)
-- How many of the candidates that a job decides are in which state.
SELECT state, count(*) AS candidates FROM candidates WHERE line = :line AND job_id = :job_id GROUP BY state;

-- name: save_outcomes(line, candidate_ids, job_ids, states, conflicting, reasons, details, canonical_revisions, canonical_hashes, sources, origin_runs)!
-- Keep what became of candidates, of those that the job still has. One statement for all: by one statement each, ten
-- thousand take minutes, since the planner cannot know that an id tells more than a job.
UPDATE candidates AS c
SET state = o.state, conflicting = o.conflicting, reason = o.reason, detail = o.detail,
    canonical_revision = o.canonical_revision, canonical_hash = o.canonical_hash, sources = o.sources,
    origin_runs = ARRAY(SELECT jsonb_array_elements_text(o.origin_runs))
FROM unnest(:candidate_ids::text[], :job_ids::text[], :states::text[], :conflicting::boolean[], :reasons::text[],
            :details::text[], :canonical_revisions::bigint[], :canonical_hashes::bytea[], :sources::jsonb[],
            :origin_runs::jsonb[])
     AS o (candidate_id, job_id, state, conflicting, reason, detail, canonical_revision, canonical_hash, sources,
           origin_runs)
WHERE c.line = :line AND c.candidate_id = o.candidate_id AND c.job_id = o.job_id;

-- name: move(line, from_job, to_job, candidate_ids)!
-- Hand candidates over to another job.
UPDATE candidates
SET job_id = :to_job
WHERE line = :line AND job_id = :from_job AND candidate_id = ANY(:candidate_ids::text[]);

-- name: count_waiting(line, job_id, candidate_ids)$
-- How many of some candidates of a job wait for a review.
SELECT count(*) FROM candidates
WHERE line = :line AND job_id = :job_id AND candidate_id = ANY(:candidate_ids::text[]) AND state = 'waiting';

-- name: waiting_on_keys(line, keys)
-- Candidates that wait for a review, for some keys.
SELECT * FROM candidates
WHERE line = :line AND state = 'waiting' AND key = ANY(:keys::text[])
ORDER BY key, candidate_id;

-- name: import_changes(line)
-- What imports after the first one proposed last for each key, those included whose candidates are gone.
SELECT DISTINCT ON (said.key) said.key, said.op, said.scope, said.content_hash
FROM (
    SELECT c.key, c.op, c.scope, c.content_hash, j.created_at AS said_at, c.ordinal
    FROM jobs AS j
    JOIN candidates AS c ON c.line = :line AND c.origin_job = j.job_id AND c.origin = 'finding'
    WHERE j.line = :line AND j.origin = 'Import'
    UNION ALL
    SELECT b.key, CASE WHEN b.removed THEN 'tombstone' ELSE 'put' END, b.scope, b.content_hash, b.said_at, 0
    FROM import_base AS b
    WHERE b.line = :line AND b.said_at IS NOT NULL
) AS said
ORDER BY said.key, said.said_at DESC, said.ordinal DESC;

-- name: with_content(line, job_id, after, limit, bytes)
-- Candidates with their content, and the record that each was compared with, as a reviewer sees them; up to the one
-- with which all that comes to so many bytes.
SELECT *
FROM (
    SELECT c.*, own.body AS content,
           v.revision AS record_revision, v.scope AS record_scope, v.content_hash AS record_content_hash,
           v.fact_hash AS record_fact_hash, v.tombstone AS record_tombstone, theirs.body AS record_body,
           f.body AS record_fact, count(*) OVER () AS listed,
           sum(octet_length(c.sources::text) + coalesce(octet_length(own.body), 0)
               + coalesce(octet_length(theirs.body), 0) + coalesce(octet_length(f.body), 0))
           OVER (ORDER BY c.candidate_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (
        SELECT * FROM candidates
        WHERE line = :line AND job_id = :job_id AND candidate_id > :after
        ORDER BY candidate_id
        LIMIT :limit
    ) AS c
    LEFT JOIN contents AS own ON own.line = :line AND own.content_hash = c.content_hash
    LEFT JOIN LATERAL (
        SELECT r.* FROM record_versions AS r
        WHERE r.line = :line AND r.key = c.key AND r.revision = c.canonical_revision
        ORDER BY r.from_generation DESC LIMIT 1
    ) AS v ON true
    LEFT JOIN contents AS theirs ON theirs.line = :line AND theirs.content_hash = v.content_hash AND NOT v.tombstone
    LEFT JOIN facts AS f ON f.line = :line AND f.fact_hash = v.fact_hash
) AS page
WHERE coalesce(before, 0) < :bytes
ORDER BY candidate_id;

-- name: view(line, candidate_id)^
-- One candidate with its content, and the record that it was compared with.
SELECT c.*, own.body AS content,
       v.revision AS record_revision, v.scope AS record_scope, v.content_hash AS record_content_hash,
       v.fact_hash AS record_fact_hash, v.tombstone AS record_tombstone, theirs.body AS record_body, f.body AS record_fact
FROM candidates AS c
LEFT JOIN contents AS own ON own.line = :line AND own.content_hash = c.content_hash
LEFT JOIN LATERAL (
    SELECT r.* FROM record_versions AS r
    WHERE r.line = :line AND r.key = c.key AND r.revision = c.canonical_revision
    ORDER BY r.from_generation DESC LIMIT 1
) AS v ON true
LEFT JOIN contents AS theirs ON theirs.line = :line AND theirs.content_hash = v.content_hash AND NOT v.tombstone
LEFT JOIN facts AS f ON f.line = :line AND f.fact_hash = v.fact_hash
WHERE c.line = :line AND c.candidate_id = :candidate_id;
