-- Counters of quality, by line, scope and generation.
--
-- Like the index of words they follow from what is published, and are made by the operator after the fact: a publication
-- does nothing for them, an older program's publications are counted like any other's, and so is a database that comes
-- from an older release.

-- How far a line is counted.
CREATE TABLE quality_progress (
    line                text COLLATE "C" PRIMARY KEY REFERENCES lines,
    since               bigint NOT NULL DEFAULT 0,          -- generations from this one on are counted each; 0: none is
    through             bigint NOT NULL DEFAULT 0,          -- up to this one
    turn_at             timestamptz NOT NULL DEFAULT '-infinity'  -- when the line had its last turn
) WITH (fillfactor = 70);

-- What a generation has in a scope. A scope has a row for each generation that changed it: that of the newest one up to a
-- generation counts.
CREATE TABLE quality_counts (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    scope               text COLLATE "C" NOT NULL,
    generation          bigint NOT NULL,
    records             bigint NOT NULL,                    -- live ones
    sourced             bigint NOT NULL,                    -- that name a source
    verified            bigint NOT NULL,                    -- and were validated, or imported by digest
    undated             bigint NOT NULL,                    -- that nobody has validated: imported
    weeks               jsonb NOT NULL,                     -- how many were validated when: {week since 1970: records}
    PRIMARY KEY (line, scope, generation)
);

-- Findings that said what was known already, ever: kept where a job's end is noted, in the same transaction.
ALTER TABLE lines ADD COLUMN duplicates bigint NOT NULL DEFAULT 0;

GRANT SELECT, INSERT, UPDATE, DELETE ON quality_progress, quality_counts TO anabranch_operator;
GRANT SELECT ON quality_progress, quality_counts TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE quality_progress ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE quality_counts ALTER COLUMN line SET STATISTICS 0;
