-- A trace leads through the rows that bring the work on: from the request that a batch came by to the job that has it, to
-- the events of what it publishes. Each holds a W3C traceparent, in the one spelling that this installation gives it; its
-- flag says whether this installation records the trace. Without a trace the columns are null and take no room.

ALTER TABLE batches ADD COLUMN traceparent text;
COMMENT ON COLUMN batches.traceparent IS 'Of the request that it was received by.';

ALTER TABLE jobs ADD COLUMN traceparent text;
COMMENT ON COLUMN jobs.traceparent IS 'Of what made it: its first batch that is part of a recorded trace, or of any.';

ALTER TABLE events ADD COLUMN traceparent text;
COMMENT ON COLUMN events.traceparent IS 'Of the publication that it tells of.';
