-- The recall gate. A program before this has none: what it publishes during an upgrade is measured afterwards.

-- What a Baseline asks of its recall, and the set of questions as it was read last.
CREATE TABLE recall_gates (
    line                text COLLATE "C" PRIMARY KEY REFERENCES lines,
    config_map          text NOT NULL,                      -- that has the set
    k                   integer NOT NULL,                   -- hits that count
    floor               float8 NOT NULL,
    max_regression      float8 NOT NULL,
    digest              bytea,                              -- of the set; null: there is none, and publications wait
    tasks               bytea,                              -- JSON Lines
    turn_at             timestamptz NOT NULL DEFAULT '-infinity'  -- when a generation was last measured after the fact
) WITH (fillfactor = 50);

-- What a generation answers, measured before it was published, or afterwards.
CREATE TABLE recall_results (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    generation          bigint NOT NULL,
    digest              bytea NOT NULL,                     -- of the set; other sets and other k do not compare
    k                   integer NOT NULL,
    tasks               integer NOT NULL,                   -- those that recall counts
    recall              float8 NOT NULL,                    -- at k, the mean over them
    recall_at_1         float8 NOT NULL,
    mrr                 float8,                             -- of those that have answers; null: none has
    against             bigint,                             -- the generation that the change is from; null: not known
    change              float8,                             -- of recall at k
    low                 float8,                             -- its 95 % interval
    high                float8,
    worse               text[] NOT NULL,                    -- ids of the tasks that were answered better there
    recalls             jsonb NOT NULL,                     -- recall at k by task
    measured_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, generation)
);

-- What was held, and what its reviewers were told: decisions that came before do not let it through.
CREATE TABLE recall_holds (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    job_id              text COLLATE "C" NOT NULL,
    ordinal             bigint GENERATED ALWAYS AS IDENTITY,
    reason              text NOT NULL CHECK (reason IN ('RecallRegressed', 'RecallBelowFloor')),
    generation          bigint NOT NULL,                    -- the head that it was measured against
    digest              bytea NOT NULL,
    k                   integer NOT NULL,
    recall              float8 NOT NULL,
    change              float8 NOT NULL,
    low                 float8 NOT NULL,
    high                float8 NOT NULL,
    failing             text[] NOT NULL,                    -- ids of tasks
    reviews_through     bigint NOT NULL,                    -- the newest entry of the job's reviews
    held_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, job_id, ordinal)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON recall_gates, recall_results, recall_holds TO anabranch_operator;
GRANT SELECT ON recall_gates, recall_results, recall_holds TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE recall_gates ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE recall_results ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE recall_holds ALTER COLUMN line SET STATISTICS 0;
