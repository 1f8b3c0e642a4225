-- One file is one run. Times are seconds of the Unix epoch; `fact` is a PublishedFact, and `event` a SharedEvent, as JSON.

-- Where the run is. One row.
CREATE TABLE run (
    one                INTEGER PRIMARY KEY CHECK (one = 1),
    namespace          TEXT NOT NULL,
    name               TEXT NOT NULL,              -- of the Branch
    branch             TEXT,                       -- BranchManifest; null: not forked yet
    recovered          INTEGER NOT NULL DEFAULT 0, -- whether what the API has of the run already was taken up
    next_sequence      INTEGER NOT NULL DEFAULT 1, -- of the next batch
    base               INTEGER,                    -- generation that reads go to; null: none is complete
    -- The follower: where it goes on, what it has, and what it has applied. Without a cursor it begins behind `start`.
    cursor             TEXT,
    start              INTEGER,
    received           INTEGER NOT NULL DEFAULT 0,
    applied            INTEGER NOT NULL DEFAULT 0,
    applied_cursor     TEXT,
    applied_generation INTEGER,
    saved_cursor       TEXT,                       -- the applied cursor that the API has
    -- The replica's terms, and when the API last showed that the grants are there.
    max_age            REAL,
    on_revoke          TEXT NOT NULL DEFAULT 'Purge',
    seen_at            REAL,
    purged             TEXT                        -- why the replica was purged; null: it was not
);

-- Parent snapshots: the one that reads go to, and one on its way for a rebase. Pages and the place behind them are
-- written together; `complete` is set with the last page.
CREATE TABLE snapshots (
    generation INTEGER PRIMARY KEY,
    cursor     TEXT,
    complete   INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE base (
    generation INTEGER NOT NULL REFERENCES snapshots ON DELETE CASCADE,
    key        TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    scope      TEXT NOT NULL,
    gone       INTEGER NOT NULL,                   -- a tombstone
    fact       TEXT NOT NULL,
    UNIQUE (generation, key)
);
CREATE INDEX base_scopes ON base (generation, scope, key);

-- The shared-updates overlay: what accepted changes have made of the snapshot.
CREATE TABLE shared (
    key      TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,                     -- 0 where the followed generation has no such key
    scope    TEXT NOT NULL,
    gone     INTEGER NOT NULL,
    fact     TEXT
);

-- Events that have come and are not applied, and what each brings: one row a key; a rebuild brings the whole overlay.
CREATE TABLE inbox (
    sequence   INTEGER PRIMARY KEY,
    event      TEXT,                               -- null: a snapshot, for the feed no longer reached back
    generation INTEGER NOT NULL,
    rebuilds   INTEGER NOT NULL,
    cursor     TEXT                                -- behind this event, where one is known
);
CREATE TABLE arrivals (
    sequence INTEGER NOT NULL,
    key      TEXT NOT NULL,
    revision INTEGER NOT NULL,
    scope    TEXT NOT NULL,
    gone     INTEGER NOT NULL,
    fact     TEXT,
    PRIMARY KEY (sequence, key)
);

-- The private overlay. `dirty`: the API has not got it as it is here.
CREATE TABLE private (
    key           TEXT PRIMARY KEY,
    revision      INTEGER NOT NULL,                -- one more with each write here
    scope         TEXT NOT NULL,
    visibility    TEXT NOT NULL,
    content       BLOB NOT NULL,                   -- canonical JSON
    content_hash  TEXT NOT NULL,
    base_revision INTEGER NOT NULL,
    created_at    REAL NOT NULL,
    updated_at    REAL NOT NULL,
    deleted       INTEGER NOT NULL DEFAULT 0,
    dirty         INTEGER NOT NULL DEFAULT 1,
    known         INTEGER NOT NULL DEFAULT 0,      -- revision that the API has; 0: none
    sent          TEXT,                            -- what is being sent: its hash, scope, visibility; '': a deletion
    problem       TEXT                             -- why the API refused it
);
CREATE INDEX private_dirty ON private (key) WHERE dirty;

-- The outbox. A batch keeps its bytes until the API has them.
CREATE TABLE batches (
    sequence     INTEGER PRIMARY KEY,
    content_hash TEXT NOT NULL,
    body         BLOB,
    state        TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'received', 'refused')),
    answer       TEXT,                             -- the receipt, or the problem
    made_at      REAL NOT NULL
);
CREATE INDEX batches_open ON batches (sequence) WHERE state <> 'received';
CREATE TABLE evidence (
    digest     TEXT PRIMARY KEY,
    media_type TEXT NOT NULL,
    body       BLOB                                -- null: the API has it
);
CREATE TABLE checkpoints (
    place   INTEGER PRIMARY KEY,                   -- in the order in which they were made
    id      TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    write   TEXT NOT NULL,                         -- CheckpointWrite
    made_at REAL NOT NULL,
    sent    INTEGER NOT NULL DEFAULT 0,
    problem TEXT
);
CREATE INDEX checkpoints_latest ON checkpoints (session, place);
CREATE TABLE completion (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    body   BLOB NOT NULL,
    answer TEXT
);

-- Never leaves this file.
CREATE TABLE scratch (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
);
