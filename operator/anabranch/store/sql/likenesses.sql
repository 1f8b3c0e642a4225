-- name: put(line, candidate_ids, scopes, sketches, group_ids, resembles)!
-- Keep what some candidates are like, of those that are there; again: what was found last.
INSERT INTO likenesses (line, candidate_id, scope, sketch, group_id, resembles)
SELECT :line, given.candidate_id, given.scope, given.sketch, given.group_id, given.alike
FROM unnest(:candidate_ids::text[], :scopes::text[], :sketches::bytea[], :group_ids::text[], :resembles::jsonb[])
     AS given (candidate_id, scope, sketch, group_id, alike)
JOIN candidates AS c ON c.line = :line AND c.candidate_id = given.candidate_id
ORDER BY given.candidate_id
ON CONFLICT (line, candidate_id) DO UPDATE
SET sketch = excluded.sketch, group_id = excluded.group_id, resembles = excluded.resembles;

-- name: add(line, candidate_ids, others, likenesses, most)!
-- Tell some candidates of others that came later, unless they know of enough. In one order, so that two who do so at once
-- cannot block each other.
WITH given AS (
    SELECT g.candidate_id, jsonb_agg(jsonb_build_object('candidate_id', g.other, 'likeness', g.likeness)
                                     ORDER BY g.likeness DESC, g.other) AS alike
    FROM unnest(:candidate_ids::text[], :others::text[], :likenesses::float8[]) AS g (candidate_id, other, likeness)
    GROUP BY g.candidate_id
), locked AS (
    SELECT k.candidate_id, k.resembles FROM likenesses AS k
    WHERE k.line = :line AND k.candidate_id = ANY(:candidate_ids::text[])
    ORDER BY k.candidate_id
    FOR NO KEY UPDATE
), known AS (
    SELECT l.candidate_id,
           ARRAY(SELECT e.value FROM jsonb_array_elements(l.resembles || given.alike) WITH ORDINALITY AS e
                 WHERE e.ordinality <= jsonb_array_length(l.resembles)
                    OR NOT l.resembles @> jsonb_build_array(jsonb_build_object('candidate_id', e.value -> 'candidate_id'))
                 ORDER BY e.ordinality
                 LIMIT :most) AS resembles
    FROM locked AS l
    JOIN given ON given.candidate_id = l.candidate_id
)
UPDATE likenesses AS k
SET resembles = to_jsonb(known.resembles)
FROM known
WHERE k.line = :line AND k.candidate_id = known.candidate_id AND k.resembles <> to_jsonb(known.resembles);

-- name: waiting(line, scope, without, limit)
-- Sketches of candidates of a scope that wait for a review, of the newest ones that have a sketch; those of some left out.
SELECT newest.candidate_id, newest.sketch
FROM (
    SELECT k.candidate_id, k.sketch FROM likenesses AS k
    WHERE k.line = :line AND k.scope = :scope
    ORDER BY k.candidate_id DESC
    LIMIT :limit
) AS newest
JOIN candidates AS c ON c.line = :line AND c.candidate_id = newest.candidate_id
WHERE c.state = 'waiting' AND newest.candidate_id <> ALL(:without::text[]);

-- name: of_candidates(line, candidate_ids)
-- What some candidates are like, with where those are and how they stand now.
SELECT k.candidate_id, k.group_id,
       coalesce(jsonb_agg(jsonb_build_object('candidate_id', c.candidate_id, 'job_id', c.job_id, 'state', c.state,
                                             'branch_id', c.branch_id, 'likeness', s.value -> 'likeness')
                          ORDER BY s.ordinality) FILTER (WHERE c.candidate_id IS NOT NULL), '[]') AS resembles
FROM likenesses AS k
LEFT JOIN LATERAL jsonb_array_elements(k.resembles) WITH ORDINALITY AS s ON true
LEFT JOIN candidates AS c ON c.line = :line AND c.candidate_id = s.value ->> 'candidate_id'
WHERE k.line = :line AND k.candidate_id = ANY(:candidate_ids::text[])
GROUP BY k.line, k.candidate_id;

-- name: members(line, job_id, group_ids)
-- The candidates of a job that are of some groups, or of any (null), with the group of each.
SELECT c.*, k.group_id
FROM candidates AS c
JOIN likenesses AS k ON k.line = :line AND k.candidate_id = c.candidate_id
WHERE c.line = :line AND c.job_id = :job_id AND k.group_id IS NOT NULL
    AND (:group_ids::text[] IS NULL OR k.group_id = ANY(:group_ids::text[]))
ORDER BY c.candidate_id;
