-- Anabranch, first schema.
--
-- Every key starts with the line (or, for what has no line yet, with the namespace): lines can be placed on several
-- servers, and no transaction spans two lines. Hashes are 32 raw bytes; what is hashed is kept as the bytes that were
-- hashed, and jsonb holds only what is derived. "Generation 9223372036854775807" means "not closed".
--
-- The work queue is a column: due_at says when a row next needs a hand (new work, a retry, an expired lease: a claim
-- moves due_at to the lease's deadline); null says that it waits for somebody else. The projection is a column pair:
-- version counts changes that status shows, projected is the version last written to status.

-- ---------------------------------------------------------------------------------------------------------- lines

CREATE TABLE lines (
    line                text COLLATE "C" PRIMARY KEY,
    namespace           text COLLATE "C" NOT NULL,
    namespace_uid       text COLLATE "C" NOT NULL,
    name                text COLLATE "C" NOT NULL,
    uid                 text COLLATE "C" NOT NULL,          -- of the Baseline resource that stands for the line now
    observed_generation bigint NOT NULL DEFAULT 0,          -- metadata.generation last reconciled
    policy              jsonb NOT NULL DEFAULT '{}',        -- spec.review and spec.limits, as last reconciled
    conditions          jsonb NOT NULL DEFAULT '[]',        -- what reconciling met: [{type, reason, message}]
    import_digest       bytea,                              -- of the source that was imported last
    created_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at          timestamptz,                        -- the resource is gone, the data stays
    due_at              timestamptz,
    version             bigint NOT NULL DEFAULT 1,
    projected           bigint NOT NULL DEFAULT 0,
    UNIQUE (namespace, namespace_uid, name)
) WITH (fillfactor = 70);
CREATE INDEX lines_due ON lines (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX lines_unprojected ON lines (line) WHERE version <> projected;

-- The row that a publication locks: narrow, and with room on its page so that each update is a HOT one.
CREATE TABLE line_heads (
    line                text COLLATE "C" PRIMARY KEY REFERENCES lines,
    head_generation     bigint NOT NULL DEFAULT 0,          -- newest manifest; 0 before the first
    current_generation  bigint NOT NULL DEFAULT 0,          -- what readers see: the head, or the pinned one
    previous_generation bigint NOT NULL DEFAULT 0,          -- what current was before its last move
    pinned_generation   bigint,                             -- set while spec.pin holds
    suspended           boolean NOT NULL DEFAULT false,     -- spec.suspend
    revision            bigint NOT NULL DEFAULT 0,          -- raised once a publication, never reused
    event_sequence      bigint NOT NULL DEFAULT 0,          -- of the newest event: the feed's watermark
    event_floor         bigint NOT NULL DEFAULT 0,          -- events up to here are pruned
    epoch               integer NOT NULL DEFAULT 1          -- changes after a restore from backup
) WITH (fillfactor = 20);

CREATE TABLE line_scopes (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    scope               text COLLATE "C" NOT NULL,
    PRIMARY KEY (line, scope)
);

CREATE TABLE manifests (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    generation          bigint NOT NULL CHECK (generation > 0),
    baseline_id         text COLLATE "C" NOT NULL,
    schema_version      integer NOT NULL DEFAULT 1,
    parent_generation   bigint NOT NULL,                    -- 0 for the first
    manifest_hash       bytea NOT NULL,                     -- root of the trie
    records             bigint NOT NULL,                    -- live records, tombstones not counted
    revision            bigint NOT NULL,                    -- the line's revision that this generation brought
    origin              jsonb NOT NULL,                     -- {kind: import | publication | restore, …}
    feed_watermark      bigint NOT NULL,                    -- sequence of its last event
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, generation),
    UNIQUE (line, baseline_id)
);

-- A version of a record is the interval of generations that show it. to_generation stands in no index, so that closing
-- a version is a HOT update.
CREATE TABLE record_versions (
    line                text COLLATE "C" NOT NULL,
    key                 text COLLATE "C" NOT NULL,
    from_generation     bigint NOT NULL,
    to_generation       bigint NOT NULL DEFAULT 9223372036854775807,
    revision            bigint NOT NULL,
    scope               text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL,
    fact_hash           bytea NOT NULL,
    tombstone           boolean NOT NULL DEFAULT false,
    PRIMARY KEY (line, key, from_generation)
) WITH (fillfactor = 90);
CREATE INDEX record_versions_opened ON record_versions (line, from_generation);
CREATE INDEX record_versions_content ON record_versions (line, content_hash);

CREATE TABLE contents (
    line                text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL,
    body                bytea NOT NULL,                     -- canonical JSON
    PRIMARY KEY (line, content_hash)
);

-- What is true of a version beside its content: canonical JSON of {source_locators, origin_runs, validated_at, supersedes}.
CREATE TABLE facts (
    line                text COLLATE "C" NOT NULL,
    fact_hash           bytea NOT NULL,
    body                bytea NOT NULL,
    PRIMARY KEY (line, fact_hash)
);

CREATE TABLE trie_nodes (
    line                text COLLATE "C" NOT NULL,
    path                text COLLATE "C" NOT NULL,          -- hex digits from the root; '' is the root
    from_generation     bigint NOT NULL,
    to_generation       bigint NOT NULL DEFAULT 9223372036854775807,
    hash                bytea NOT NULL,
    body                bytea NOT NULL,
    PRIMARY KEY (line, path, from_generation)
) WITH (fillfactor = 90);

-- Uploaded archives, in chunks of at most 1 MiB. A row in archives is a whole archive: it comes in the transaction
-- that brings the last chunk.
CREATE TABLE archives (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    digest              bytea NOT NULL,
    size                bigint NOT NULL,
    uploaded_by         text NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (line, digest)
);
CREATE TABLE archive_chunks (
    line                text COLLATE "C" NOT NULL,
    digest              bytea NOT NULL,
    ordinal             integer NOT NULL,
    body                bytea NOT NULL,
    PRIMARY KEY (line, digest, ordinal),
    FOREIGN KEY (line, digest) REFERENCES archives ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

-- Each restore id acts once per line, ever.
CREATE TABLE restores (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    restore_id          text COLLATE "C" NOT NULL,
    from_generation     bigint NOT NULL,
    generation          bigint NOT NULL,                    -- the new head that it made
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (line, restore_id)
);

-- ------------------------------------------------------------------------------------------------------- branches

CREATE TABLE branches (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    run_id              text COLLATE "C" NOT NULL,
    namespace           text COLLATE "C" NOT NULL,
    name                text COLLATE "C" NOT NULL,
    uid                 text COLLATE "C" NOT NULL,
    observed_generation bigint NOT NULL DEFAULT 0,
    agent_id            text COLLATE "C" NOT NULL,
    agent_instance      text COLLATE "C" NOT NULL,
    service_account     text COLLATE "C" NOT NULL,          -- name, in the branch's namespace
    task                text NOT NULL DEFAULT '',
    sharing_policy      jsonb NOT NULL,
    parent_generation   bigint NOT NULL,
    phase               text NOT NULL DEFAULT 'Active'
                        CHECK (phase IN ('Active', 'Stale', 'Completed', 'Denied', 'Expired')),
    final_sequence      bigint,                             -- of the run's completion: no later batch is received
    created_at          timestamptz NOT NULL DEFAULT now(),
    finished_at         timestamptz,
    deleted_at          timestamptz,
    version             bigint NOT NULL DEFAULT 1,
    projected           bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (line, branch_id),
    UNIQUE (line, uid),
    FOREIGN KEY (line, parent_generation) REFERENCES manifests  -- decides a race between a fork and a prune
) WITH (fillfactor = 70);
CREATE INDEX branches_name ON branches (namespace, name);
CREATE INDEX branches_parent ON branches (line, parent_generation);
CREATE INDEX branches_unprojected ON branches (line, branch_id) WHERE version <> projected;

-- The private overlay: answers only the branch's own agent.
CREATE TABLE private_records (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    key                 text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL,                    -- 1 at first, +1 a write; a deleted key goes on from there
    scope               text COLLATE "C" NOT NULL,
    visibility          text NOT NULL CHECK (visibility IN ('private', 'shareable')),
    content_hash        bytea NOT NULL,
    body                bytea,                              -- canonical JSON; null when deleted
    base_revision       bigint NOT NULL DEFAULT 0,          -- of the key in the parent when first written here
    updated_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (line, branch_id, key),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 70);

CREATE TABLE evidence (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    digest              bytea NOT NULL,
    size                bigint NOT NULL,
    media_type          text NOT NULL,
    body                bytea NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (line, branch_id, digest),
    FOREIGN KEY (line, branch_id) REFERENCES branches
);

-- A received batch. Never written again but for job_id, which says that a job has it.
CREATE TABLE batches (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    sequence            bigint NOT NULL CHECK (sequence > 0),
    receipt_id          text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL,
    body                bytea NOT NULL,                     -- the FindingBatch as received, canonical
    changes             integer NOT NULL,
    final               boolean NOT NULL DEFAULT false,
    prefix              bigint NOT NULL,                    -- all batches to here were in when it came: search goes on there
    received_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_id              text COLLATE "C",
    PRIMARY KEY (line, branch_id, sequence),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);
CREATE INDEX batches_unassigned ON batches (line, branch_id, sequence) WHERE job_id IS NULL;

CREATE TABLE completions (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    run_id              text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL,
    body                bytea NOT NULL,                     -- the RunCompletion as received, canonical
    last_submitted_sequence bigint NOT NULL,
    received_at         timestamptz NOT NULL DEFAULT now(),
    closed_at           timestamptz,                        -- when all batches before it were in
    PRIMARY KEY (line, branch_id),
    FOREIGN KEY (line, branch_id) REFERENCES branches
);
CREATE INDEX completions_open ON completions (line, branch_id) WHERE closed_at IS NULL;

-- Who an agent id belongs to: the first ServiceAccount of the namespace that works under it, for good. What an agent
-- remembers is kept by its id, so an id never changes hands.
CREATE TABLE agents (
    namespace           text COLLATE "C" NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    service_account     text COLLATE "C" NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, agent_id)
);

-- ----------------------------------------------------------------------------------------------------------- jobs

CREATE TABLE jobs (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    job_id              text COLLATE "C" NOT NULL,
    namespace           text COLLATE "C" NOT NULL,          -- of the Baseline, and of the ConsolidationJob
    name                text COLLATE "C" NOT NULL,          -- of the ConsolidationJob
    uid                 text COLLATE "C",                   -- null until its resource is made or adopted
    automatic           boolean NOT NULL,                   -- made by the operator, which then makes the resource
    observed_generation bigint NOT NULL DEFAULT 0,
    origin              text NOT NULL CHECK (origin IN ('Branch', 'Held', 'Import', 'Retraction')),
    branch_id           text COLLATE "C",
    from_sequence       bigint,
    through_sequence    bigint,
    held_from           text COLLATE "C",                   -- the job that this one was split off from
    held_job            text COLLATE "C",                   -- name of the job that was split off from this one
    state               text NOT NULL DEFAULT 'received' CHECK (state IN
                        ('received', 'importing', 'validating', 'awaiting_review', 'publishing', 'published')),
    failed              boolean NOT NULL DEFAULT false,     -- given up: state keeps the last durable one
    reason              text NOT NULL DEFAULT '',           -- CamelCase: BatchesMissing, NothingToPublish, …
    attempt             integer NOT NULL DEFAULT 0,         -- failures and reclaimed leases since the last progress
    fence               bigint NOT NULL DEFAULT 0,
    holder              text,
    lease_deadline      timestamptz,
    lease_seconds       integer NOT NULL DEFAULT 30,
    retry_limit         integer NOT NULL DEFAULT 5,
    last_error          text,
    retry_at            timestamptz,
    due_at              timestamptz,
    counts              jsonb NOT NULL DEFAULT '{}',
    published_generation bigint,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at         timestamptz,
    deleted_at          timestamptz,
    version             bigint NOT NULL DEFAULT 1,
    projected           bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (line, job_id),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);
CREATE UNIQUE INDEX jobs_batches ON jobs (line, branch_id, from_sequence) WHERE origin = 'Branch';
CREATE UNIQUE INDEX jobs_held_from ON jobs (line, held_from) WHERE held_from IS NOT NULL;
CREATE INDEX jobs_name ON jobs (namespace, name);
CREATE INDEX jobs_due ON jobs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_unborn ON jobs (line, job_id) WHERE uid IS NULL AND automatic;
CREATE INDEX jobs_open ON jobs (line, state) WHERE finished_at IS NULL;
CREATE INDEX jobs_unprojected ON jobs (line, job_id) WHERE version <> projected;

CREATE TABLE transitions (
    line                text COLLATE "C" NOT NULL,
    job_id              text COLLATE "C" NOT NULL,
    ordinal             bigint GENERATED ALWAYS AS IDENTITY,
    from_state          text,
    to_state            text NOT NULL,
    attempt             integer NOT NULL,
    fence               bigint NOT NULL,
    holder              text,
    detail              text NOT NULL DEFAULT '',
    at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, job_id, ordinal)
);

CREATE TABLE candidates (
    line                text COLLATE "C" NOT NULL,
    candidate_id        text COLLATE "C" NOT NULL,
    job_id              text COLLATE "C" NOT NULL,          -- the job that decides it now
    origin_job          text COLLATE "C" NOT NULL,          -- the job that imported it
    ordinal             integer NOT NULL,                   -- its place in the origin job
    branch_id           text COLLATE "C",
    run_id              text COLLATE "C",
    author              text NOT NULL,                      -- username of the identity that submitted it
    op                  text NOT NULL CHECK (op IN ('put', 'tombstone')),
    key                 text COLLATE "C" NOT NULL,
    scope               text COLLATE "C" NOT NULL,
    visibility          text NOT NULL CHECK (visibility IN ('private', 'shareable')),
    content_hash        bytea NOT NULL,
    base_revision       bigint NOT NULL,
    sources             jsonb NOT NULL DEFAULT '[]',        -- [{locator, status: pending|verified|unresolved, detail}]
    origin_runs         text[] NOT NULL DEFAULT '{}',
    observed_at         timestamptz NOT NULL,
    state               text NOT NULL DEFAULT 'pending' CHECK (state IN
                        ('pending', 'duplicate', 'waiting', 'accepted', 'rejected', 'published')),
    conflicting         boolean NOT NULL DEFAULT false,     -- base_revision and content both differ from the canonical record
    reason              text NOT NULL DEFAULT '',           -- CamelCase: BaseRevisionSuperseded, Unsupported, …
    detail              text NOT NULL DEFAULT '',
    canonical_revision  bigint,                             -- the record that it was compared with; null: none
    canonical_hash      bytea,
    PRIMARY KEY (line, candidate_id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX candidates_origin ON candidates (line, origin_job, ordinal);
CREATE INDEX candidates_job ON candidates (line, job_id);
CREATE INDEX candidates_waiting ON candidates (line, key) WHERE state = 'waiting';

-- Decisions, append-only; the latest of a reviewer on a candidate counts. Deleting a job's resource loses none.
CREATE TABLE reviews (
    line                text COLLATE "C" NOT NULL,
    job_id              text COLLATE "C" NOT NULL,
    ordinal             bigint GENERATED ALWAYS AS IDENTITY,
    candidate_id        text COLLATE "C" NOT NULL,
    reviewer            text NOT NULL,
    content_hash        bytea NOT NULL,                     -- what the reviewer saw
    base_revision       bigint NOT NULL,                    -- the canonical revision that the reviewer saw; 0: none
    action              text NOT NULL CHECK (action IN ('accept', 'reject', 'withdraw')),
    reason              text NOT NULL DEFAULT '',
    via                 text NOT NULL CHECK (via IN ('resource', 'http')),
    at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, job_id, ordinal)
);

-- Once per job, whatever crashes.
CREATE TABLE publications (
    line                text COLLATE "C" NOT NULL,
    job_id              text COLLATE "C" NOT NULL,
    generation          bigint NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, job_id),
    FOREIGN KEY (line, job_id) REFERENCES jobs,
    FOREIGN KEY (line, generation) REFERENCES manifests ON DELETE CASCADE
);

-- ----------------------------------------------------------------------------------------------------------- feed

CREATE TABLE events (
    line                text COLLATE "C" NOT NULL,
    sequence            bigint NOT NULL,
    event_id            text COLLATE "C" NOT NULL,
    kind                text NOT NULL CHECK (kind IN
                        ('published', 'superseded', 'tombstone', 'rollback', 'resumed', 'restored')),
    scope               text COLLATE "C",                   -- null: concerns the whole line
    key                 text COLLATE "C",
    revision            bigint,
    content_hash        bytea,
    origin_branch       text COLLATE "C",
    generation          bigint NOT NULL,                    -- of published_baseline_id
    published_baseline_id text COLLATE "C" NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, sequence)
);

-- -------------------------------------------------------------------------------------------------------- waiting

-- Resources that have no line yet, or not the grant: a Branch or a ConsolidationJob applied before what it needs.
CREATE TABLE waiting (
    namespace           text COLLATE "C" NOT NULL,
    kind                text COLLATE "C" NOT NULL CHECK (kind IN ('Baseline', 'Branch', 'ConsolidationJob')),
    name                text COLLATE "C" NOT NULL,
    uid                 text COLLATE "C" NOT NULL,
    observed_generation bigint NOT NULL,
    condition           text NOT NULL CHECK (condition IN ('Reconciling', 'Stalled')),
    reason              text NOT NULL,
    message             text NOT NULL,
    needs_namespace     text COLLATE "C" NOT NULL,          -- of the Baseline or Branch that it waits for
    needs_name          text COLLATE "C" NOT NULL,
    attempt             integer NOT NULL DEFAULT 0,
    due_at              timestamptz,
    version             bigint NOT NULL DEFAULT 1,
    projected           bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, kind, name)
) WITH (fillfactor = 70);
CREATE INDEX waiting_due ON waiting (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX waiting_needs ON waiting (needs_namespace, needs_name);
CREATE INDEX waiting_unprojected ON waiting (namespace, kind, name) WHERE version <> projected;

-- ------------------------------------------------------------------------------------------------------- planning

-- Lines come suddenly: an import brings a million rows of a line that the statistics do not know yet. The planner would
-- expect one row of it, and then find it cheapest to read the line whole, by any index that begins with it. Without
-- statistics of this column it expects a fixed share of the table, and the index that tells more wins.
DO $$
DECLARE
    of_line regclass;
BEGIN
    FOR of_line IN
        SELECT attrelid::regclass FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attname = 'line'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN line SET STATISTICS 0', of_line);
    END LOOP;
END
$$;
