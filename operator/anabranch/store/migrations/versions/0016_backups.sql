-- Backups of lines: those that are recorded, and when the next is due.
--
-- An older program knows nothing of them: it publishes without waiting for one, as it did.

-- What was backed up, when, and where it lies. A row is written after the backup is whole, and never changed.
CREATE TABLE backups (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    taken_at            timestamptz NOT NULL,               -- everything that was published before is in it
    target              text COLLATE "C" NOT NULL,          -- a name of the operator's configuration
    place               text COLLATE "C" NOT NULL,          -- where in the target
    generation          bigint NOT NULL,                    -- the head, when it was taken
    baseline_id         text COLLATE "C" NOT NULL,
    manifest_hash       bytea NOT NULL,
    bytes               bigint,                             -- null: the target does not tell
    recorded_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, taken_at)
);

-- Lines whose Baseline asks for backups.
CREATE TABLE backup_turns (
    line                text COLLATE "C" PRIMARY KEY REFERENCES lines,
    target              text COLLATE "C" NOT NULL,
    max_age             interval NOT NULL,                  -- no publication without a backup younger than this
    due_at              timestamptz NOT NULL DEFAULT now(), -- when it is to be looked at next
    wanted              boolean NOT NULL DEFAULT false,     -- a publication waits for it
    claimed_until       timestamptz,                        -- somebody is at it
    fence               bigint NOT NULL DEFAULT 0,          -- raised by each who takes it
    attempt             integer NOT NULL DEFAULT 0,         -- failures since the last success
    error               text,                               -- of the last attempt
    failing_since       timestamptz
) WITH (fillfactor = 70);

CREATE INDEX backup_turns_due ON backup_turns (due_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON backups, backup_turns TO anabranch_operator;
GRANT SELECT ON backups, backup_turns TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE backups ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE backup_turns ALTER COLUMN line SET STATISTICS 0;
