-- Which hold of the recall gate a reviewer saw who accepts what it held: its number among those of the job.
ALTER TABLE reviews ADD COLUMN hold integer;
