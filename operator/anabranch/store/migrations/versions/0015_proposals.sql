-- Proposals by models: what was asked about candidates that wait in a job, and what came of it.
--
-- A row says what a model has cost already, and is written before it is asked: whoever dies meanwhile has spent at most
-- that request. There is one for each key of a job, so its candidates may change as often as they like.
CREATE TABLE proposals (
    line                text COLLATE "C" NOT NULL,
    job_id              text COLLATE "C" NOT NULL,
    kind                text NOT NULL CHECK (kind IN ('merge', 'summary')),
    key                 text COLLATE "C" NOT NULL,          -- of what is proposed
    inputs              text[] NOT NULL,                    -- ids of the candidates that it was asked about last
    record_revision     bigint,                             -- of the record that they were compared with; null: none
    model               text NOT NULL,                      -- name in the configuration
    state               text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'proposed', 'nothing')),
    reason              text NOT NULL DEFAULT '',           -- CamelCase: why there is nothing, or why it is open
    attempts            integer NOT NULL,                   -- times that it was asked about these candidates
    requests            integer NOT NULL,                   -- times that it was asked for this: the fence, too
    tokens              bigint NOT NULL,                    -- what that came to; before an answer, what it may come to
    due_at              timestamptz NOT NULL,               -- open: when it may be asked (again)
    candidate_id        text COLLATE "C",                   -- the proposal
    PRIMARY KEY (line, job_id, kind, key),
    FOREIGN KEY (line, job_id) REFERENCES jobs ON DELETE CASCADE
) WITH (fillfactor = 80);

-- The few lines whose review policy names a model.
CREATE INDEX lines_proposing ON lines (line) WHERE (policy -> 'review' -> 'proposals' ->> 'model') IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON proposals TO anabranch_operator;

-- As with every table (0001): no statistics of lines.
ALTER TABLE proposals ALTER COLUMN line SET STATISTICS 0;
