-- Trace and retract: which versions of records cite which, and what was withdrawn.
--
-- That a version cites another one stands in its provenance, which its manifest commits to. The table of derivations is an
-- index over that, made by the operator after the fact, as the index of words is: neither an import nor a publication
-- waits for it, what it lacks follows from line_heads, and so a database from an older release, and what an older program
-- publishes meanwhile, is indexed without being told to.

-- The records that a provenance cites. A text in JSON begins with its quote, so the bytes tell at once of most that there
-- are none.
CREATE FUNCTION cited_records(body bytea) RETURNS TABLE (key text, revision bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT parts[1] COLLATE "C", parts[2]::bigint
    FROM json_array_elements_text(
             CASE WHEN position('"record:'::bytea IN body) > 0
                  THEN convert_from(body, 'UTF8')::json -> 'source_locators'
                  ELSE '[]' END) AS locator,
         regexp_match(locator, '^record:(.+)@([1-9][0-9]{0,17})$') AS parts
    WHERE parts IS NOT NULL
$$;

-- A version of a record cites a version of a record. Kept while the version is there, and after that for as long as
-- anything cites that one: a chain does not break because retention has removed a piece in its middle.
CREATE TABLE derivations (
    line                text COLLATE "C" NOT NULL,
    source_key          text COLLATE "C" NOT NULL,
    source_revision     bigint NOT NULL,
    key                 text COLLATE "C" NOT NULL,          -- the version that cites it
    revision            bigint NOT NULL,
    scope               text COLLATE "C" NOT NULL,          -- of that version
    source_hash         bytea,                              -- what the cited version says; null: no such version was there
    PRIMARY KEY (line, source_key, source_revision, key, revision)
);
CREATE INDEX derivations_of ON derivations (line, key, revision);

-- How far the derivations of a line are known.
CREATE TABLE derivation_progress (
    line                text COLLATE "C" PRIMARY KEY REFERENCES lines,
    through             bigint NOT NULL DEFAULT 0,          -- those of all versions that begin up to this generation
    target              bigint NOT NULL DEFAULT 0,          -- of a walk over the keys that is under way; else as through
    walked_key          text COLLATE "C" NOT NULL DEFAULT '',  -- the last version that the walk has seen
    walked_generation   bigint NOT NULL DEFAULT 0,
    turn_at             timestamptz NOT NULL DEFAULT '-infinity'  -- when the line had its last turn
) WITH (fillfactor = 70);

-- What somebody asked to be withdrawn: what a key says, whichever of its revisions says so.
CREATE TABLE retractions (
    line                text COLLATE "C" NOT NULL REFERENCES lines,
    retraction_id       text COLLATE "C" NOT NULL,
    key                 text COLLATE "C" NOT NULL,
    revision            bigint NOT NULL,                    -- the one that was named, or that was current
    scope               text COLLATE "C" NOT NULL,
    content_hash        bytea NOT NULL,
    reason              text NOT NULL,
    requested_by        text NOT NULL,                      -- username
    requested_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    state               text NOT NULL DEFAULT 'requested' CHECK (state IN
                        ('requested', 'proposed', 'published', 'rejected', 'void', 'reinstated')),
    detail              text NOT NULL DEFAULT '',           -- why it is void
    job_id              text COLLATE "C",                   -- that has it decided
    generation          bigint,                             -- in which it was withdrawn
    decided_at          timestamptz,
    PRIMARY KEY (line, retraction_id)
);
CREATE UNIQUE INDEX retractions_open ON retractions (line, key, content_hash) WHERE state IN ('requested', 'proposed');
CREATE INDEX retractions_withdrawn ON retractions (line, key, content_hash) WHERE state = 'published';
CREATE INDEX retractions_job ON retractions (line, job_id) WHERE job_id IS NOT NULL;
CREATE INDEX retractions_requested ON retractions (requested_at) WHERE state = 'requested';

-- A candidate that only puts a mark on a record as it is. Programs before this column take it for one that says nothing
-- new.
ALTER TABLE candidates ADD COLUMN mark text CHECK (mark IN ('sourceRetracted'));

-- Candidates by the records that they cite, as source locators. Most cite none, have null and are not in the index: to look
-- into `sources` for it at each write would make consolidation a third slower.
ALTER TABLE candidates ADD COLUMN cited text[];
UPDATE candidates
SET cited = ARRAY(SELECT jsonb_array_elements_text(
                      jsonb_path_query_array(sources, '$[*].locator ? (@ starts with "record:")')))
WHERE sources @? '$[*].locator ? (@ starts with "record:")';
CREATE INDEX candidates_citing ON candidates USING gin (cited) WHERE cited IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON derivations, derivation_progress, retractions TO anabranch_operator;
GRANT SELECT ON derivations, derivation_progress TO anabranch_api;
GRANT SELECT, INSERT ON retractions TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE derivations ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE derivation_progress ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE retractions ALTER COLUMN line SET STATISTICS 0;
