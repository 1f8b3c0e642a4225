-- Full-text search of lines.
--
-- An inverted index in segments: a segment is some versions of records of one scope, numbered from 0, written once, and
-- replaced as a whole when small ones are put together or when most of it is gone. Nothing here is the authority for
-- anything: it follows from record_versions and contents, and is made by the operator after the fact, so that neither an
-- import nor a publication waits for it. What is not indexed yet follows from line_heads, so an older program that
-- publishes leaves nothing out, and a database that comes from an older release is indexed without being told to.

-- How far the index of a line has come.
CREATE TABLE search_progress (
    line                text COLLATE "C" PRIMARY KEY REFERENCES lines,
    through             bigint NOT NULL DEFAULT 0,          -- all versions that begin up to this generation are indexed
    target              bigint NOT NULL DEFAULT 0,          -- of a walk over the keys that is under way; else as through
    walked_key          text COLLATE "C" NOT NULL DEFAULT '',  -- the last version that the walk has seen
    walked_generation   bigint NOT NULL DEFAULT 0,
    next_segment        integer NOT NULL DEFAULT 1,
    turn_at             timestamptz NOT NULL DEFAULT '-infinity'  -- when the line had its last turn
) WITH (fillfactor = 70);

CREATE TABLE search_segments (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    segment             integer NOT NULL,
    scope               text COLLATE "C" NOT NULL,
    documents           integer NOT NULL,
    words               bigint NOT NULL,                    -- of all its documents together
    recount             boolean NOT NULL DEFAULT false,     -- retention has removed versions since they were counted
    counted_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (line, segment)
);
CREATE INDEX search_segments_recount ON search_segments (counted_at) WHERE recount;

CREATE TABLE search_documents (
    line                text COLLATE "C" NOT NULL,
    segment             integer NOT NULL,
    document            integer NOT NULL,
    key                 text COLLATE "C" NOT NULL,          -- a version, by record_versions' key
    from_generation     bigint NOT NULL,
    PRIMARY KEY (line, segment, document)
);

-- In which documents of a segment a word is, how often, and how long they are: document << 16 | count << 8 | length.
CREATE TABLE search_words (
    line                text COLLATE "C" NOT NULL,
    segment             integer NOT NULL,
    word                text COLLATE "C" NOT NULL,
    documents           integer NOT NULL,                   -- how many have it
    entries             integer[] NOT NULL,                 -- all of them; where there is `dense`, the most telling ones
    dense               bytea,                              -- of a frequent word: its count in each document, a byte each
    PRIMARY KEY (line, segment, word)
);

-- Taken apart byte by byte by each search that asks for the word: to unpack it would take most of the time.
ALTER TABLE search_words ALTER COLUMN dense SET STORAGE EXTERNAL;

-- Segments come and go as a whole.
ALTER TABLE search_documents SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE search_words SET (autovacuum_vacuum_scale_factor = 0.05);

GRANT SELECT, INSERT, UPDATE, DELETE ON search_progress, search_segments, search_documents, search_words
    TO anabranch_operator;
GRANT SELECT ON search_progress, search_segments, search_documents, search_words TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE search_progress ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE search_segments ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE search_documents ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE search_words ALTER COLUMN line SET STATISTICS 0;
