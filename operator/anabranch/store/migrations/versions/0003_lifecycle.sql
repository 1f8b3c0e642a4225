-- Lines that are condemned.
--
-- Deleting a Baseline with deletionPolicy Delete takes its data along, in pieces, which takes a while. That it is to go is
-- written first, and once and for all: whoever dies half-way leaves a line that nobody finds and that somebody ends. Its
-- place is free at once, so that a namesake never takes up half a line.

ALTER TABLE lines ADD COLUMN condemned_at timestamptz;

ALTER TABLE lines DROP CONSTRAINT lines_namespace_namespace_uid_name_key;
CREATE UNIQUE INDEX lines_place ON lines (namespace, namespace_uid, name) WHERE condemned_at IS NULL;
CREATE INDEX lines_name ON lines (namespace, name);
CREATE INDEX lines_condemned ON lines (due_at) WHERE condemned_at IS NOT NULL;
