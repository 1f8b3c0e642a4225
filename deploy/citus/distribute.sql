-- Distributes what grows with the records of lines over the workers of a Citus cluster: once, after `anabranch migrate`, on the coordinator,
-- as the owner of the tables. What it leaves alone stays on the coordinator. See docs/guides/citus.md before you use it: nobody has run
-- Anabranch on Citus yet. A test holds this file to the schema: a table that is neither here nor named there fails it.
BEGIN;

SELECT create_distributed_table('record_versions', 'line', shard_count => 32);
SELECT create_distributed_table('contents', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('facts', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('trie_nodes', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('events', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('derivations', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('search_documents', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('search_words', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('import_base', 'line', colocate_with => 'record_versions');
SELECT create_distributed_table('released_hashes', 'line', colocate_with => 'record_versions');

COMMIT;
