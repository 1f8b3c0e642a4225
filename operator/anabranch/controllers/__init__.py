"""The operator: watches the three kinds, works the queue in Postgres, and writes what is so into `status`."""
