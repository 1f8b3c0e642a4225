-- Key-value namespaces of a branch. A record of one is a private record, under kv/<namespace>/<key>, and a row here with
-- what the overlay does not know of it. Whether it is there, and until when, the overlay's row says.

ALTER TABLE private_records ADD COLUMN expires_at timestamptz;  -- seen by nobody from then on; null: never
CREATE INDEX private_records_expiring ON private_records (line, branch_id, expires_at)
    WHERE expires_at IS NOT NULL AND body IS NOT NULL;

-- The row that a write to a namespace locks.
CREATE TABLE kv_namespaces (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    namespace           text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL DEFAULT 0,          -- of the newest write, never given twice
    entries             bigint NOT NULL DEFAULT 0,          -- what has expired counts until it is taken out
    bytes               bigint NOT NULL DEFAULT 0,          -- of keys and values
    PRIMARY KEY (line, branch_id, namespace),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);

CREATE TABLE kv_records (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    namespace           text COLLATE "C" NOT NULL,
    key                 text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL,                    -- of the namespace when it was written
    size                integer,                            -- of the value, bytes; null: taken out
    raw                 bytea,                              -- the value as it came; null: as the overlay has it
    media_type          text NOT NULL,
    topic               text COLLATE "C",                   -- these of a structured memory
    tags                text[],
    occurred_at_ms      bigint,
    words               tsvector,
    length              integer,                            -- how many words, those left out that say nothing
    PRIMARY KEY (line, branch_id, namespace, key),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 80);
CREATE INDEX kv_records_memories ON kv_records (line, branch_id, namespace, occurred_at_ms, key)
    WHERE occurred_at_ms IS NOT NULL;

-- A checkpoint of a namespace is one of the branch, of which the rest stands here.
CREATE TABLE kv_checkpoints (
    line                text COLLATE "C" NOT NULL,
    branch_id           text COLLATE "C" NOT NULL,
    namespace           text COLLATE "C" NOT NULL,
    checkpoint_id       text COLLATE "C" NOT NULL,          -- in the namespace; the branch's is <namespace>.<checkpoint_id>
    agent_id            text COLLATE "C" NOT NULL,          -- as the client calls itself
    session_id          text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL,
    latest_revision     bigint,                             -- while it is its session's latest; null: it is not
    refs                jsonb NOT NULL,                     -- records that it stands on: [{namespace, key, revision}]
    size                integer NOT NULL,                   -- of the request, bytes
    content_hash        bytea NOT NULL,                     -- of the request
    deleted_at          timestamptz,
    PRIMARY KEY (line, branch_id, namespace, checkpoint_id),
    FOREIGN KEY (line, branch_id) REFERENCES branches
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX kv_checkpoints_latest ON kv_checkpoints (line, branch_id, namespace, agent_id, session_id)
    WHERE latest_revision IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON kv_namespaces, kv_records, kv_checkpoints TO anabranch_operator;
GRANT SELECT, INSERT, UPDATE ON kv_namespaces, kv_records, kv_checkpoints TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE kv_namespaces ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE kv_records ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE kv_checkpoints ALTER COLUMN line SET STATISTICS 0;
