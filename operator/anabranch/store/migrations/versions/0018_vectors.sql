-- Vectors of what the index has, for installations that search by meaning too.
--
-- They stand beside the segments of the index (0007): the n-th vector is that of the segment's n-th document. So they are
-- written once for a segment, and go when it goes, whichever release removes it. Like the index they are the authority
-- for nothing, and are made after the fact. An installation without an embedder has none.
CREATE TABLE search_vectors (
    line                text COLLATE "C" NOT NULL,
    segment             integer NOT NULL,
    model               text NOT NULL,                      -- vectors of different models do not compare
    claimed_until       timestamptz NOT NULL,               -- somebody makes them until then
    signs               bytea,                              -- a bit a dimension: the first 64 of each document, the next …
    codes               bytea,                              -- a byte a dimension, document after document
    PRIMARY KEY (line, segment),
    FOREIGN KEY (line, segment) REFERENCES search_segments ON DELETE CASCADE
);

-- Read in slices, and noise to a compressor.
ALTER TABLE search_vectors ALTER COLUMN signs SET STORAGE EXTERNAL, ALTER COLUMN codes SET STORAGE EXTERNAL;
ALTER TABLE search_vectors SET (autovacuum_vacuum_scale_factor = 0.05);

GRANT SELECT, INSERT, UPDATE, DELETE ON search_vectors TO anabranch_operator;
GRANT SELECT ON search_vectors TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE search_vectors ALTER COLUMN line SET STATISTICS 0;
