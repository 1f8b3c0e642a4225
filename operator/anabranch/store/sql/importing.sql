-- name: be_patient()!
-- In this transaction the source may let the server wait.
SELECT set_config('idle_in_transaction_session_timeout', '10min', true);
