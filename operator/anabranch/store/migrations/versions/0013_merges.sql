-- Merges: a reviewer, or a model, writes one text of several candidates.
--
-- As with retractions, a row is what the API writes, and the operator makes the candidate of it, once: only whoever holds
-- a job adds to what it decides, and the API can write no candidate.

-- Texts that somebody has written for a job, by their hash: what a merge in the job's resource names, which has no room
-- for content. A text alone does nothing, and is shown to nobody.
CREATE TABLE drafts (
    line                text COLLATE "C" NOT NULL,
    job_id              text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL CHECK (content_hash = sha256(body)),
    body                bytea NOT NULL,                     -- canonical JSON
    uploaded_by         text NOT NULL,                      -- username
    uploaded_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, job_id, content_hash)
);

CREATE TABLE merges (
    line                text COLLATE "C" NOT NULL,
    candidate_id        text COLLATE "C" NOT NULL,          -- of the candidate that the operator makes of it
    job_id              text COLLATE "C" NOT NULL,          -- that decides its inputs; their new one if they are split off
    digest              bytea NOT NULL,                     -- of all that makes it the same merge
    origin              text NOT NULL CHECK (origin IN ('merge', 'summary')),
    author              text NOT NULL,                      -- username
    model               text,                               -- that wrote it; null: a person did
    key                 text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL,
    inputs              text[] NOT NULL,                    -- candidate ids
    base_revision       bigint NOT NULL,                    -- of the record, as its author saw it; 0: none
    with_record         boolean NOT NULL,                   -- the record is an input too
    state               text NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'made', 'void')),
    detail              text NOT NULL DEFAULT '',           -- why it is void
    proposed_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (line, candidate_id)
);
CREATE UNIQUE INDEX merges_same ON merges (line, digest) WHERE state <> 'void';
CREATE INDEX merges_job ON merges (line, job_id);

-- What a candidate was made of. Programs before these columns take it for a finding that waits for a review.
ALTER TABLE candidates ADD COLUMN origin text NOT NULL DEFAULT 'finding'
    CHECK (origin IN ('finding', 'merge', 'summary'));
ALTER TABLE candidates ADD COLUMN inputs text[];            -- ids of the candidates that it was made of
ALTER TABLE candidates ADD COLUMN contributors text[];      -- usernames of who wrote these: they are its authors, too
ALTER TABLE candidates ADD COLUMN model text;               -- that wrote it; null: none did

GRANT SELECT, INSERT, UPDATE, DELETE ON drafts, merges TO anabranch_operator;
GRANT SELECT, INSERT ON drafts, merges TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE drafts ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE merges ALTER COLUMN line SET STATISTICS 0;
