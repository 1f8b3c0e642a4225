-- Retention: generations, events, finished runs and jobs are removed, in pieces, by whoever gets to it.
--
-- Each piece is a transaction, and what is still to be done stands in a row, so that whoever dies leaves no rubbish that
-- nobody finds. What is removed is found by what came after it, never by searching a line for it.

-- When retention looks at the line next.
ALTER TABLE lines ADD COLUMN retain_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX lines_retain ON lines (retain_at) WHERE deleted_at IS NULL;

-- ------------------------------------------------------------------------------------------------------ generations

-- What removed manifests were called. Removing one leaves versions and nodes that nobody sees any more: they are there as
-- long as it is not swept.
CREATE TABLE pruned_manifests (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    generation          bigint NOT NULL,
    baseline_id         text COLLATE "C" NOT NULL,
    manifest_hash       bytea NOT NULL,
    revision            bigint NOT NULL,
    created_at          timestamptz NOT NULL,               -- of the manifest
    swept               boolean NOT NULL DEFAULT false,
    PRIMARY KEY (line, generation),
    UNIQUE (line, baseline_id)
);
CREATE INDEX pruned_manifests_unswept ON pruned_manifests (line, generation) WHERE NOT swept;

-- Hashes of contents and of provenance that a removed row had: if nothing else has them, they go too.
CREATE TABLE released_hashes (
    line                text COLLATE "C" NOT NULL,
    hash                bytea NOT NULL,
    PRIMARY KEY (line, hash)
);

-- What the Baseline's source said at first of a record whose first version is removed, and what it said later according
-- to jobs that are removed: a changed source is compared with what it said before.
CREATE TABLE import_base (
    line                text COLLATE "C" NOT NULL,
    key                 text COLLATE "C" NOT NULL,
    scope               text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL,
    revision            bigint NOT NULL,                    -- that it was published as; 0: it was only proposed
    removed             boolean NOT NULL DEFAULT false,     -- the source has dropped it
    said_at             timestamptz,                        -- null: in the first import
    PRIMARY KEY (line, key)
);

-- Whatever has this content or this provenance. The third finds deleted records, whose marks go one day; none of them
-- has to_generation in it.
CREATE INDEX candidates_content ON candidates (line, content_hash);
CREATE INDEX record_versions_facts ON record_versions (line, fact_hash);
CREATE INDEX record_versions_tombstones ON record_versions (line, from_generation) WHERE tombstone;

-- By which a removed manifest finds the rows that go with it.
CREATE INDEX publications_generation ON publications (line, generation);

-- Rows go as fast as they come: the room that they leave is to be found soon, and not when a fifth of a table is dead.
ALTER TABLE record_versions SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE trie_nodes SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE contents SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE facts SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0.05);

-- ------------------------------------------------------------------------------------------------------------- runs

-- A run holds its parent manifest while it is live; that decides a race between a fork and a prune. What a branch needs
-- to say of its parent afterwards stands in its own row.
ALTER TABLE branches
    ADD COLUMN parent_baseline_id text COLLATE "C",
    ADD COLUMN parent_manifest_hash bytea;
UPDATE branches AS b
SET parent_baseline_id = m.baseline_id, parent_manifest_hash = m.manifest_hash
FROM manifests AS m
WHERE m.line = b.line AND m.generation = b.parent_generation;
ALTER TABLE branches
    ALTER COLUMN parent_baseline_id SET NOT NULL,
    ALTER COLUMN parent_manifest_hash SET NOT NULL,
    DROP CONSTRAINT branches_line_parent_generation_fkey,
    ADD COLUMN held_generation bigint GENERATED ALWAYS AS
        (CASE WHEN phase IN ('Active', 'Stale') AND deleted_at IS NULL THEN parent_generation END) STORED,
    ADD COLUMN kept text NOT NULL DEFAULT 'whole' CHECK (kept IN
        ('whole', 'leaving', 'row')),                       -- row: its resource is still there, or its jobs
    ADD FOREIGN KEY (line, held_generation) REFERENCES manifests;
DROP INDEX branches_parent;
CREATE INDEX branches_held ON branches (line, held_generation) WHERE held_generation IS NOT NULL;
CREATE INDEX branches_ended ON branches (line, coalesce(finished_at, deleted_at))
    WHERE kept = 'whole' AND coalesce(finished_at, deleted_at) IS NOT NULL;
CREATE INDEX branches_leaving ON branches (line, branch_id) WHERE kept = 'leaving';
CREATE INDEX branches_gone ON branches (line, branch_id) WHERE kept = 'row' AND deleted_at IS NOT NULL;

ALTER TABLE jobs
    ADD COLUMN kept text NOT NULL DEFAULT 'whole' CHECK (kept IN
        ('whole', 'leaving', 'log', 'row'));                -- log: no candidates; row: its resource is still there
CREATE INDEX jobs_branchless ON jobs (line, finished_at) WHERE branch_id IS NULL AND kept IN ('whole', 'leaving');
CREATE INDEX jobs_logged ON jobs (line, finished_at) WHERE kept = 'log';
CREATE INDEX jobs_gone ON jobs (line, job_id) WHERE kept = 'row' AND (deleted_at IS NOT NULL OR uid IS NULL);
CREATE INDEX jobs_branch ON jobs (line, branch_id);

-- ---------------------------------------------------------------------------------------------------------- the rest

GRANT SELECT, INSERT, UPDATE, DELETE ON pruned_manifests, released_hashes, import_base TO anabranch_operator;
GRANT SELECT ON pruned_manifests, released_hashes, import_base TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE pruned_manifests ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE released_hashes ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE import_base ALTER COLUMN line SET STATISTICS 0;
