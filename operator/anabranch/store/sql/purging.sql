-- name: line_of(uid, namespace, name)$
-- The line that this very Baseline stands for, or stood for if it is condemned.
SELECT line FROM lines WHERE namespace = :namespace AND name = :name AND uid = :uid
ORDER BY created_at DESC
LIMIT 1;

-- name: stands(line)$
-- Whether a line is there and not condemned.
SELECT EXISTS (SELECT FROM lines WHERE line = :line AND condemned_at IS NULL);

-- name: condemn(line)$
-- Give a line up: it is due to be deleted. None if it was before.
UPDATE lines
SET condemned_at = now(), deleted_at = coalesce(deleted_at, now()), due_at = now(), version = version + 1
WHERE line = :line AND condemned_at IS NULL
RETURNING line;

-- name: pause(line)!
-- Stop publications that are under way.
UPDATE line_heads SET suspended = true WHERE line = :line;

-- name: stall_branches(line, reason, message)!
-- Have the status of each Branch say that its line is gone.
INSERT INTO waiting AS w (namespace, kind, name, uid, observed_generation, condition, reason, message,
                          needs_namespace, needs_name)
SELECT DISTINCT ON (b.namespace, b.name)
       b.namespace, 'Branch', b.name, b.uid, b.observed_generation, 'Stalled', :reason, :message, l.namespace, l.name
FROM branches AS b
JOIN lines AS l ON l.line = b.line
WHERE b.line = :line AND b.deleted_at IS NULL
ORDER BY b.namespace, b.name, b.created_at DESC
ON CONFLICT (namespace, kind, name) DO UPDATE
SET uid = excluded.uid, observed_generation = excluded.observed_generation, condition = excluded.condition,
    reason = excluded.reason, message = excluded.message, needs_namespace = excluded.needs_namespace,
    needs_name = excluded.needs_name, due_at = NULL, version = w.version + 1;

-- name: stall_jobs(line, reason, message)!
-- Have the status of each ConsolidationJob say that its line is gone.
INSERT INTO waiting AS w (namespace, kind, name, uid, observed_generation, condition, reason, message,
                          needs_namespace, needs_name)
SELECT DISTINCT ON (j.namespace, j.name)
       j.namespace, 'ConsolidationJob', j.name, j.uid, j.observed_generation, 'Stalled', :reason, :message,
       l.namespace, l.name
FROM jobs AS j
JOIN lines AS l ON l.line = j.line
WHERE j.line = :line AND j.deleted_at IS NULL AND j.uid IS NOT NULL
ORDER BY j.namespace, j.name, j.created_at DESC
ON CONFLICT (namespace, kind, name) DO UPDATE
SET uid = excluded.uid, observed_generation = excluded.observed_generation, condition = excluded.condition,
    reason = excluded.reason, message = excluded.message, needs_namespace = excluded.needs_namespace,
    needs_name = excluded.needs_name, due_at = NULL, version = w.version + 1;

-- name: end_branches(line)!
-- Receive no more batches, and write no more statuses from here.
UPDATE branches
SET phase = CASE WHEN phase IN ('Active', 'Stale') THEN 'Expired' ELSE phase END,
    finished_at = coalesce(finished_at, now()), deleted_at = coalesce(deleted_at, now()), projected = version
WHERE line = :line;

-- name: end_jobs(line)!
-- Fence off whoever works on one, and make no more resources and statuses from here.
UPDATE jobs
SET fence = fence + 1, holder = NULL, lease_deadline = NULL, due_at = NULL,
    finished_at = coalesce(finished_at, now()), deleted_at = coalesce(deleted_at, now()), projected = version
WHERE line = :line;

-- name: claim(hold)^
-- A condemned line of any Baseline that nobody has taken up for a while.
UPDATE lines SET due_at = now() + :hold::interval
WHERE line = ANY(ARRAY(
    SELECT line FROM lines
    WHERE condemned_at IS NOT NULL AND due_at <= now()
    ORDER BY due_at LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING line, namespace, name;

-- name: lock(line)$
-- The head of a condemned line, to be deleted; none: it is gone.
SELECT h.line FROM line_heads AS h
WHERE h.line = :line AND EXISTS (SELECT FROM lines AS l WHERE l.line = :line AND l.condemned_at IS NOT NULL)
FOR UPDATE OF h;

-- name: delete_line(line)!
-- The last of a line.
WITH scopes AS (DELETE FROM line_scopes WHERE line = :line), head AS (DELETE FROM line_heads WHERE line = :line)
DELETE FROM lines WHERE line = :line;

-- name: delete_publications(line, limit)!
-- Delete up to so many rows of a line: which jobs have published.
DELETE FROM publications
WHERE ctid = ANY(ARRAY(SELECT ctid FROM publications WHERE line = :line LIMIT :limit));

-- name: delete_reviews(line, limit)!
-- Delete up to so many rows of a line: decisions.
DELETE FROM reviews
WHERE ctid = ANY(ARRAY(SELECT ctid FROM reviews WHERE line = :line LIMIT :limit));

-- name: delete_merges(line, limit)!
-- Delete up to so many rows of a line: what was to be made of candidates.
DELETE FROM merges
WHERE ctid = ANY(ARRAY(SELECT ctid FROM merges WHERE line = :line LIMIT :limit));

-- name: delete_drafts(line, limit)!
-- Delete up to so many rows of a line: texts that were written for that.
DELETE FROM drafts
WHERE ctid = ANY(ARRAY(SELECT ctid FROM drafts WHERE line = :line LIMIT :limit));

-- name: delete_transitions(line, limit)!
-- Delete up to so many rows of a line: what happened to jobs.
DELETE FROM transitions
WHERE ctid = ANY(ARRAY(SELECT ctid FROM transitions WHERE line = :line LIMIT :limit));

-- name: delete_proposals(line, limit)!
-- Delete up to so many rows of a line: what models were asked.
DELETE FROM proposals
WHERE ctid = ANY(ARRAY(SELECT ctid FROM proposals WHERE line = :line LIMIT :limit));

-- name: delete_likenesses(line, limit)!
-- Delete up to so many rows of a line: which candidates are alike.
DELETE FROM likenesses
WHERE ctid = ANY(ARRAY(SELECT ctid FROM likenesses WHERE line = :line LIMIT :limit));

-- name: delete_candidates(line, limit)!
-- Delete up to so many rows of a line: candidates.
DELETE FROM candidates
WHERE ctid = ANY(ARRAY(SELECT ctid FROM candidates WHERE line = :line LIMIT :limit));

-- name: delete_jobs(line, limit)!
-- Delete up to so many rows of a line: jobs.
DELETE FROM jobs
WHERE ctid = ANY(ARRAY(SELECT ctid FROM jobs WHERE line = :line LIMIT :limit));

-- name: delete_completions(line, limit)!
-- Delete up to so many rows of a line: completions of runs.
DELETE FROM completions
WHERE ctid = ANY(ARRAY(SELECT ctid FROM completions WHERE line = :line LIMIT :limit));

-- name: delete_batches(line, limit)!
-- Delete up to so many rows of a line: received batches.
DELETE FROM batches
WHERE ctid = ANY(ARRAY(SELECT ctid FROM batches WHERE line = :line LIMIT :limit));

-- name: delete_evidence(line, limit)!
-- Delete up to so many rows of a line: evidence.
DELETE FROM evidence
WHERE ctid = ANY(ARRAY(SELECT ctid FROM evidence WHERE line = :line LIMIT :limit));

-- name: delete_kv_records(line, limit)!
-- Delete up to so many rows of a line: records of key-value namespaces.
DELETE FROM kv_records
WHERE ctid = ANY(ARRAY(SELECT ctid FROM kv_records WHERE line = :line LIMIT :limit));

-- name: delete_kv_checkpoints(line, limit)!
-- Delete up to so many rows of a line: their checkpoints.
DELETE FROM kv_checkpoints
WHERE ctid = ANY(ARRAY(SELECT ctid FROM kv_checkpoints WHERE line = :line LIMIT :limit));

-- name: delete_kv_namespaces(line, limit)!
-- Delete up to so many rows of a line: key-value namespaces.
DELETE FROM kv_namespaces
WHERE ctid = ANY(ARRAY(SELECT ctid FROM kv_namespaces WHERE line = :line LIMIT :limit));

-- name: delete_private_records(line, limit)!
-- Delete up to so many rows of a line: private records.
DELETE FROM private_records
WHERE ctid = ANY(ARRAY(SELECT ctid FROM private_records WHERE line = :line LIMIT :limit));

-- name: delete_presence(line, limit)!
-- Delete up to so many rows of a line: leases of agents.
DELETE FROM presence
WHERE ctid = ANY(ARRAY(SELECT ctid FROM presence WHERE line = :line LIMIT :limit));

-- name: delete_followers(line, limit)!
-- Delete up to so many rows of a line: places in the feed.
DELETE FROM followers
WHERE ctid = ANY(ARRAY(SELECT ctid FROM followers WHERE line = :line LIMIT :limit));

-- name: delete_checkpoints(line, limit)!
-- Delete up to so many rows of a line: checkpoints.
DELETE FROM checkpoints
WHERE ctid = ANY(ARRAY(SELECT ctid FROM checkpoints WHERE line = :line LIMIT :limit));

-- name: delete_rebases(line, limit)!
-- Delete up to so many rows of a line: earlier parents of its runs.
DELETE FROM rebases
WHERE ctid = ANY(ARRAY(SELECT ctid FROM rebases WHERE line = :line LIMIT :limit));

-- name: delete_agent_outbox(line, limit)!
-- Delete up to so many rows of a line: what its agents were still to be told.
DELETE FROM agent_outbox
WHERE ctid = ANY(ARRAY(SELECT ctid FROM agent_outbox WHERE line = :line LIMIT :limit));

-- name: delete_branches(line, limit)!
-- Delete up to so many rows of a line: branches.
DELETE FROM branches
WHERE ctid = ANY(ARRAY(SELECT ctid FROM branches WHERE line = :line LIMIT :limit));

-- name: delete_restores(line, limit)!
-- Delete up to so many rows of a line: restores.
DELETE FROM restores
WHERE ctid = ANY(ARRAY(SELECT ctid FROM restores WHERE line = :line LIMIT :limit));

-- name: delete_archive_chunks(line, limit)!
-- Delete up to so many rows of a line: the pieces of archives.
DELETE FROM archive_chunks
WHERE ctid = ANY(ARRAY(SELECT ctid FROM archive_chunks WHERE line = :line LIMIT :limit));

-- name: delete_archives(line, limit)!
-- Delete up to so many rows of a line: archives.
DELETE FROM archives
WHERE ctid = ANY(ARRAY(SELECT ctid FROM archives WHERE line = :line LIMIT :limit));

-- name: delete_manifests(line, limit)!
-- Delete up to so many rows of a line: manifests.
DELETE FROM manifests
WHERE ctid = ANY(ARRAY(SELECT ctid FROM manifests WHERE line = :line LIMIT :limit));

-- name: delete_pruned_manifests(line, limit)!
-- Delete up to so many rows of a line: what removed manifests were called.
DELETE FROM pruned_manifests
WHERE ctid = ANY(ARRAY(SELECT ctid FROM pruned_manifests WHERE line = :line LIMIT :limit));

-- name: delete_events(line, limit)!
-- Delete up to so many rows of a line: the feed.
DELETE FROM events
WHERE ctid = ANY(ARRAY(SELECT ctid FROM events WHERE line = :line LIMIT :limit));

-- name: delete_record_versions(line, limit)!
-- Delete up to so many rows of a line: versions of records.
DELETE FROM record_versions
WHERE ctid = ANY(ARRAY(SELECT ctid FROM record_versions WHERE line = :line LIMIT :limit));

-- name: delete_trie_nodes(line, limit)!
-- Delete up to so many rows of a line: nodes of the trie.
DELETE FROM trie_nodes
WHERE ctid = ANY(ARRAY(SELECT ctid FROM trie_nodes WHERE line = :line LIMIT :limit));

-- name: delete_contents(line, limit)!
-- Delete up to so many rows of a line: contents.
DELETE FROM contents
WHERE ctid = ANY(ARRAY(SELECT ctid FROM contents WHERE line = :line LIMIT :limit));

-- name: delete_facts(line, limit)!
-- Delete up to so many rows of a line: provenance.
DELETE FROM facts
WHERE ctid = ANY(ARRAY(SELECT ctid FROM facts WHERE line = :line LIMIT :limit));

-- name: delete_released_hashes(line, limit)!
-- Delete up to so many rows of a line: what retention still has to look at.
DELETE FROM released_hashes
WHERE ctid = ANY(ARRAY(SELECT ctid FROM released_hashes WHERE line = :line LIMIT :limit));

-- name: delete_import_base(line, limit)!
-- Delete up to so many rows of a line: what its source once said.
DELETE FROM import_base
WHERE ctid = ANY(ARRAY(SELECT ctid FROM import_base WHERE line = :line LIMIT :limit));

-- name: delete_search_vectors(line, limit)!
-- Delete up to so many rows of a line: the vectors beside its index.
DELETE FROM search_vectors
WHERE ctid = ANY(ARRAY(SELECT ctid FROM search_vectors WHERE line = :line LIMIT :limit));

-- name: delete_search_segments(line, limit)!
-- Delete up to so many rows of a line: the segments of its index.
DELETE FROM search_segments
WHERE ctid = ANY(ARRAY(SELECT ctid FROM search_segments WHERE line = :line LIMIT :limit));

-- name: delete_search_documents(line, limit)!
-- Delete up to so many rows of a line: the documents of its index.
DELETE FROM search_documents
WHERE ctid = ANY(ARRAY(SELECT ctid FROM search_documents WHERE line = :line LIMIT :limit));

-- name: delete_search_words(line, limit)!
-- Delete up to so many rows of a line: the words of its index.
DELETE FROM search_words
WHERE ctid = ANY(ARRAY(SELECT ctid FROM search_words WHERE line = :line LIMIT :limit));

-- name: delete_search_progress(line, limit)!
-- Delete up to so many rows of a line: how far its index has come.
DELETE FROM search_progress
WHERE ctid = ANY(ARRAY(SELECT ctid FROM search_progress WHERE line = :line LIMIT :limit));

-- name: delete_quality_counts(line, limit)!
-- Delete up to so many rows of a line: its counters of quality.
DELETE FROM quality_counts
WHERE ctid = ANY(ARRAY(SELECT ctid FROM quality_counts WHERE line = :line LIMIT :limit));

-- name: delete_recall_gates(line, limit)!
-- Delete up to so many rows of a line: what it asks of its recall.
DELETE FROM recall_gates
WHERE ctid = ANY(ARRAY(SELECT ctid FROM recall_gates WHERE line = :line LIMIT :limit));

-- name: delete_recall_results(line, limit)!
-- Delete up to so many rows of a line: what its generations answer.
DELETE FROM recall_results
WHERE ctid = ANY(ARRAY(SELECT ctid FROM recall_results WHERE line = :line LIMIT :limit));

-- name: delete_recall_holds(line, limit)!
-- Delete up to so many rows of a line: what was held for its recall.
DELETE FROM recall_holds
WHERE ctid = ANY(ARRAY(SELECT ctid FROM recall_holds WHERE line = :line LIMIT :limit));

-- name: delete_quality_progress(line, limit)!
-- Delete up to so many rows of a line: how far it is counted.
DELETE FROM quality_progress
WHERE ctid = ANY(ARRAY(SELECT ctid FROM quality_progress WHERE line = :line LIMIT :limit));

-- name: delete_derivations(line, limit)!
-- Delete up to so many rows of a line: which of its records cite which.
DELETE FROM derivations
WHERE ctid = ANY(ARRAY(SELECT ctid FROM derivations WHERE line = :line LIMIT :limit));

-- name: delete_derivation_progress(line, limit)!
-- Delete up to so many rows of a line: how far that is known.
DELETE FROM derivation_progress
WHERE ctid = ANY(ARRAY(SELECT ctid FROM derivation_progress WHERE line = :line LIMIT :limit));

-- name: delete_retractions(line, limit)!
-- Delete up to so many rows of a line: what was to be withdrawn of it.
DELETE FROM retractions
WHERE ctid = ANY(ARRAY(SELECT ctid FROM retractions WHERE line = :line LIMIT :limit));

-- name: delete_backups(line, limit)!
-- Delete up to so many rows of a line: what is recorded of its backups.
DELETE FROM backups
WHERE ctid = ANY(ARRAY(SELECT ctid FROM backups WHERE line = :line LIMIT :limit));

-- name: delete_backup_turns(line, limit)!
-- Delete up to so many rows of a line: when its next backup is due.
DELETE FROM backup_turns
WHERE ctid = ANY(ARRAY(SELECT ctid FROM backup_turns WHERE line = :line LIMIT :limit));
