-- name: relax()!
-- In this transaction one statement may sort millions of records, and the source may let it wait.
SELECT set_config('statement_timeout', '30min', true),
       set_config('idle_in_transaction_session_timeout', '10min', true),
       set_config('work_mem', '64MB', true);
