-- The oldest schema whose programs may run on this one. A migration that only adds what older programs need not know
-- leaves it; one that takes away, or that makes older programs write something wrong, raises it to its own version.
CREATE TABLE schema_floor (
    only_row            boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version             text COLLATE "C" NOT NULL
);
INSERT INTO schema_floor (version) VALUES ('0005');

GRANT SELECT ON schema_floor TO anabranch_operator, anabranch_api;
