-- What an agent remembers, by namespace, agent and instance: an envelope with the sections that it writes and the
-- exchanges that the platform notes for it, and a queue of what it is to be told.
--
-- Whoever changes an envelope holds its row, and raises its revision in the same transaction. Rows are locked in the order
-- of their keys, an envelope's own before those of its sections and exchanges. What belongs to an agent as a whole has the
-- instance '', which no instance is called and which comes first.

CREATE TABLE agent_envelopes (
    namespace           text COLLATE "C" NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    instance            text COLLATE "C" NOT NULL,          -- '': the agent's own, for the section that its instances share
    revision            bigint NOT NULL DEFAULT 0,          -- one more with each write of a section or an exchange
    last_seen_revision  bigint NOT NULL DEFAULT 0,          -- up to where the agent has acknowledged or read
    exchanges           bigint NOT NULL DEFAULT 0,          -- noted in all; the next one's slot follows from it
    last_sync_key       bytea,                              -- of the sync that left the sections as they are; null: none did
    last_sync_shared_revision bigint,                       -- of the shared section, where that sync gave it
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, agent_id, instance)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);

-- What the agent writes. That system_exchanges is none of it, the table says too, whatever a program believes.
CREATE TABLE agent_sections (
    namespace           text COLLATE "C" NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    instance            text COLLATE "C" NOT NULL,
    section             text COLLATE "C" NOT NULL CHECK (section IN
                        ('long_term', 'dedup_state', 'shared', 'daily', 'relationships')),
    item                text COLLATE "C" NOT NULL,          -- a date, another instance, or '' where a section has one content
    revision            bigint NOT NULL,                    -- of the envelope when it was written
    body                bytea NOT NULL,                     -- canonical JSON
    size                integer NOT NULL GENERATED ALWAYS AS (octet_length(body)) STORED,
    content_hash        bytea NOT NULL,
    visibility          text,                               -- whatever is not known to be more than private is private
    source              text NOT NULL,                      -- who wrote it, by its own word; '': not said
    updated_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, agent_id, instance, section, item),
    FOREIGN KEY (namespace, agent_id, instance) REFERENCES agent_envelopes,
    CHECK ((section = 'shared') = (instance = ''))
) WITH (fillfactor = 80);

-- What sections said before: a few of each item, and of those that are gone.
CREATE TABLE agent_section_history (
    namespace           text COLLATE "C" NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    instance            text COLLATE "C" NOT NULL,
    section             text COLLATE "C" NOT NULL,
    item                text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL,
    body                bytea NOT NULL,
    content_hash        bytea NOT NULL,
    visibility          text,
    source              text NOT NULL,
    updated_at          timestamptz NOT NULL,               -- when it was written
    replaced_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, agent_id, instance, section, item, revision)
);

-- What happened to the agent elsewhere. A ring: there are 50 slots, so there are never more entries, whoever adds to it at
-- once, and one that falls out makes room for the one that comes in. Nothing here could make an entry less than private.
CREATE TABLE agent_exchanges (
    namespace           text COLLATE "C" NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    instance            text COLLATE "C" NOT NULL,
    slot                smallint NOT NULL CHECK (slot BETWEEN 0 AND 49),
    revision            bigint NOT NULL,                    -- of the envelope, that it made
    exchange_id         text COLLATE "C" NOT NULL,
    kind                text NOT NULL,
    surface_pod_id      text NOT NULL CHECK (octet_length(surface_pod_id) <= 128),
    surface_label       text NOT NULL CHECK (char_length(surface_label) <= 64),
    peers               jsonb NOT NULL CHECK (jsonb_array_length(peers) <= 8),
    takeaway            text NOT NULL CHECK (char_length(takeaway) <= 280),
    ts                  timestamptz NOT NULL,               -- when it happened
    seen_at             timestamptz,
    PRIMARY KEY (namespace, agent_id, instance, slot),
    FOREIGN KEY (namespace, agent_id, instance) REFERENCES agent_envelopes
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Which exchanges an envelope has had, longer than they stand in it: one that comes again is known.
CREATE TABLE agent_receipts (
    namespace           text COLLATE "C" NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    instance            text COLLATE "C" NOT NULL,
    exchange_id         text COLLATE "C" NOT NULL,
    digest              bytea NOT NULL,                     -- of all that was posted
    received_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, agent_id, instance, exchange_id)
);
CREATE INDEX agent_receipts_age ON agent_receipts (received_at);

-- What an agent is to be told. A claim changes nothing that is indexed.
CREATE TABLE agent_events (
    namespace           text COLLATE "C" NOT NULL,
    agent_id            text COLLATE "C" NOT NULL,
    instance            text COLLATE "C" NOT NULL,
    event_id            text COLLATE "C" NOT NULL,
    ordinal             bigint GENERATED ALWAYS AS IDENTITY,
    kind                text NOT NULL,
    subject             text,
    data                jsonb NOT NULL,
    happened_at         timestamptz NOT NULL,
    status              text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'claimed', 'acked', 'failed')),
    due_at              timestamptz NOT NULL DEFAULT now(), -- when it may be claimed, or claimed again
    claim_id            uuid,                               -- of the last claim
    attempts            integer NOT NULL DEFAULT 0,
    memory_revision_at_delivery bigint,                     -- what the envelope was at when it was claimed
    delivered           bigint[] NOT NULL DEFAULT '{}',     -- revisions of the exchanges that were told with it
    error               text,
    created_at          timestamptz NOT NULL DEFAULT now(),
    finished_at         timestamptz,                        -- acknowledged, or given up
    PRIMARY KEY (namespace, agent_id, instance, event_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);
CREATE INDEX agent_events_open ON agent_events (namespace, agent_id, instance, ordinal) WHERE finished_at IS NULL;
CREATE INDEX agent_events_age ON agent_events (created_at);

-- What is to become exchanges and events of agents, written where it is made true and drained by the operator. Agents may be
-- kept on another server than the line, so nothing but this row is shared between the two.
CREATE TABLE agent_outbox (
    line                text COLLATE "C" NOT NULL,
    outbox_id           text COLLATE "C" NOT NULL,
    kind                text NOT NULL,
    branch_id           text COLLATE "C",
    details             jsonb NOT NULL,
    progress            text COLLATE "C" NOT NULL DEFAULT '',
    attempts            integer NOT NULL DEFAULT 0,
    due_at              timestamptz NOT NULL DEFAULT now(),
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, outbox_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);
CREATE INDEX agent_outbox_due ON agent_outbox (due_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON agent_envelopes, agent_sections, agent_section_history, agent_exchanges,
    agent_receipts, agent_events, agent_outbox TO anabranch_operator;

-- The API writes what agents and chat platforms bring. An agent may have what it wrote forgotten; nothing else is deleted.
GRANT SELECT, INSERT, UPDATE ON agent_envelopes, agent_exchanges, agent_events TO anabranch_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON agent_sections TO anabranch_api;
GRANT SELECT, INSERT, DELETE ON agent_section_history TO anabranch_api;
GRANT SELECT, INSERT ON agent_receipts, agent_outbox, agents TO anabranch_api;

-- As with every table (0001): no statistics of lines; nor of what takes their place here.
ALTER TABLE agent_envelopes ALTER COLUMN namespace SET STATISTICS 0;
ALTER TABLE agent_sections ALTER COLUMN namespace SET STATISTICS 0;
ALTER TABLE agent_section_history ALTER COLUMN namespace SET STATISTICS 0;
ALTER TABLE agent_exchanges ALTER COLUMN namespace SET STATISTICS 0;
ALTER TABLE agent_receipts ALTER COLUMN namespace SET STATISTICS 0;
ALTER TABLE agent_events ALTER COLUMN namespace SET STATISTICS 0;
ALTER TABLE agent_outbox ALTER COLUMN line SET STATISTICS 0;
