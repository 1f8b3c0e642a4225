-- Likeness of candidates that wait for a review: suggestions, which decide nothing. They stand beside the candidates and not
-- in them: they are written once, and a candidate's row changes with every step. What an older program validates has none.

CREATE TABLE likenesses (
    line                text COLLATE "C" NOT NULL,
    candidate_id        text COLLATE "C" NOT NULL,
    scope               text COLLATE "C" NOT NULL,
    sketch              bytea NOT NULL,                     -- domain/likeness.py
    group_id            text COLLATE "C",                   -- first candidate of the near-identical ones of its job; null: none
    resembles           jsonb NOT NULL DEFAULT '[]',        -- [{candidate_id, likeness}], the most alike first
    PRIMARY KEY (line, candidate_id),
    FOREIGN KEY (line, candidate_id) REFERENCES candidates ON DELETE CASCADE
);
CREATE INDEX likenesses_scope ON likenesses (line, scope, candidate_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON likenesses TO anabranch_operator;
GRANT SELECT ON likenesses TO anabranch_api;

-- As with every table (0001): no statistics of lines.
ALTER TABLE likenesses ALTER COLUMN line SET STATISTICS 0;
