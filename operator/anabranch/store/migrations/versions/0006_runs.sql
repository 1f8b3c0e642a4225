-- What a live run says of itself: that its agent is there, how far it follows the feed, and what it would need to go on
-- from after it has forgotten everything. And what it was based on before, where it was rebased.
--
-- Agents say the first two all the time, so each has a row of its own beside the branch, with room on its page, and
-- what is indexed of it stays as it is: a renewal is a HOT update of one narrow row. The operator looks at a row when it
-- is due, and writes to the branch only what its status shows.

ALTER TABLE branches
    ADD COLUMN lease_seconds integer NOT NULL DEFAULT 60,   -- spec.lease.duration
    ADD COLUMN follow text NOT NULL DEFAULT 'Apply' CHECK (follow IN ('Apply', 'Hold', 'Off')),
    ADD COLUMN forked_generation bigint;                    -- the first parent of a run that was rebased

CREATE TABLE presence (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    lease_deadline      timestamptz NOT NULL,
    task                text,                               -- what the agent is at; null: what the Branch says
    observed_epoch      integer,                            -- how far the agent has seen the feed, by its own word
    observed_sequence   bigint,
    noted               text CHECK (noted IN ('active', 'stale')),  -- what the operator has last made of it; null: nothing
    due_at              timestamptz,                        -- when the operator looks; null: once it is renewed
    PRIMARY KEY (line, branch_id),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);
CREATE INDEX presence_due ON presence (due_at) WHERE due_at IS NOT NULL;

-- Up to where a run has taken over what others published.
CREATE TABLE followers (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    epoch               integer NOT NULL,
    sequence            bigint NOT NULL,
    generation          bigint,                             -- current behind that event; null: nobody knows any more
    cursor              text NOT NULL,                      -- the place as its agent carries it
    saved_at            timestamptz NOT NULL DEFAULT now(),
    shown_cursor        text,                               -- what the status shows, and since when
    shown_lag           bigint,
    shown_at            timestamptz,
    due_at              timestamptz,                        -- when the status is to show more; null: it shows all
    PRIMARY KEY (line, branch_id),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);
CREATE INDEX followers_due ON followers (due_at) WHERE due_at IS NOT NULL;

-- Never written again: a checkpoint is what it was when it was made.
CREATE TABLE checkpoints (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    checkpoint_id       text COLLATE "C" NOT NULL,          -- the agent's own choice
    session_id          text COLLATE "C" NOT NULL,
    ordinal             bigint NOT NULL,                    -- in the branch, from 1
    content_hash        bytea NOT NULL,
    body                bytea NOT NULL,                     -- {session_id, capsule, references}, canonical
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (line, branch_id, checkpoint_id),
    UNIQUE (line, branch_id, ordinal),
    FOREIGN KEY (line, branch_id) REFERENCES branches
);
CREATE INDEX checkpoints_session ON checkpoints (line, branch_id, session_id, ordinal);

-- How a run came to its parent: what that was before each rebase.
CREATE TABLE rebases (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    ordinal             bigint NOT NULL,
    from_generation     bigint NOT NULL,
    from_baseline_id    text COLLATE "C" NOT NULL,
    from_manifest_hash  bytea NOT NULL,
    to_generation       bigint NOT NULL,
    conflicts           bigint NOT NULL,                    -- keys of the overlay that the new parent contradicted
    at                  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (line, branch_id, ordinal),
    FOREIGN KEY (line, branch_id) REFERENCES branches
);

GRANT SELECT, INSERT, UPDATE, DELETE ON presence, followers, checkpoints, rebases TO anabranch_operator;
GRANT SELECT ON rebases TO anabranch_api;
GRANT SELECT, INSERT, UPDATE ON presence, followers TO anabranch_api;
GRANT SELECT, INSERT ON checkpoints TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE presence ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE followers ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE checkpoints ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE rebases ALTER COLUMN line SET STATISTICS 0;
