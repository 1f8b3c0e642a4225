-- name: record(line, job_id, generation)$
-- Note that a job has published; nothing comes back when it had already.
INSERT INTO publications (line, job_id, generation) VALUES (:line, :job_id, :generation)
ON CONFLICT DO NOTHING
RETURNING generation;

-- name: of_job(line, job_id)$
-- The generation that a job has published.
SELECT generation FROM publications WHERE line = :line AND job_id = :job_id;
