-- name: settle()$
-- Nothing but a commit that waits for a synchronous standby, where there has to be one: behind all that was seen here.
-- False: it may not be written here.
SELECT CASE
    WHEN current_setting('synchronous_standby_names') = '' THEN true
    WHEN current_setting('transaction_read_only') = 'on' THEN false
    ELSE pg_logical_emit_message(true, 'anabranch', '') IS NOT NULL
END;

-- name: waiting(seconds)$
-- How many commits of this role wait for a synchronous standby, with a statement that began so long ago.
SELECT count(*) FROM pg_stat_activity
WHERE usename = current_user AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - make_interval(secs => :seconds);

-- name: waits()
-- What waits now, of this role's: commits for a synchronous standby, and for locks, which they hold, what is in this database.
SELECT pid, query_start AS began, wait_event = 'SyncRep' AS is_commit FROM pg_stat_activity
WHERE usename = current_user
    AND (wait_event = 'SyncRep' OR (wait_event_type = 'Lock' AND datname = current_database()));

-- name: let_go(pids, beginnings)$
-- End the waiting of those that wait still, with the same statement. How many commits that were.
WITH going AS MATERIALIZED (
    SELECT wait_event, pg_cancel_backend(a.pid) AS ended
    FROM pg_stat_activity AS a JOIN unnest(:pids::int[], :beginnings::timestamptz[]) AS w (pid, began) ON w.pid = a.pid
    WHERE a.query_start = w.began AND (a.wait_event = 'SyncRep' OR a.wait_event_type = 'Lock')
)
SELECT count(*) FILTER (WHERE wait_event = 'SyncRep' AND ended) FROM going;

-- name: promises()^
-- What a commit of this role waits for.
SELECT current_setting('synchronous_commit') AS commit, current_setting('synchronous_standby_names') AS standbys;
