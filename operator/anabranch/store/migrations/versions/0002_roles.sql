-- What the operator and the API may do with the tables.
--
-- Roles belong to the server, and grants to each database. So the roles are made here when they are missing and the
-- migration may (then without login: `anabranch migrate --roles-from-env` gives them a password), and where it may not,
-- the error says who must. A login of another name works by membership: GRANT anabranch_api TO whoever.

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['anabranch_operator', 'anabranch_api'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN
                    NULL;  -- another database of this server is being migrated at the same moment
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'the role % does not exist, and % may not create it', wanted, current_user
                        USING ERRCODE = 'insufficient_privilege',
                              HINT = 'Run "anabranch migrate --roles-from-env" as a role with CREATEROLE first.';
            END;
        END IF;
    END LOOP;
END
$$;

-- The operator consolidates, publishes and reclaims: it writes every table, and alters none.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO anabranch_operator;

-- The API receives. What is published (versions, manifests, nodes, contents, events, heads) it can only read, whatever is
-- wrong with it.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO anabranch_api;
GRANT INSERT, UPDATE ON batches, evidence, private_records, completions, archives, archive_chunks TO anabranch_api;
GRANT INSERT ON reviews TO anabranch_api;
GRANT UPDATE (phase, final_sequence, finished_at, version) ON branches TO anabranch_api;
GRANT UPDATE (due_at, version) ON jobs TO anabranch_api;
GRANT UPDATE (due_at) ON lines TO anabranch_api;

-- Alembic's own table: read by all, to check the version; written by migrations alone.
REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM anabranch_operator;
