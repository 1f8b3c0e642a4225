"""What Alembic runs for each command: the migrations, on the connection that `anabranch.store.migrate` made.

There is no other way in: the connection carries the lock that lets one process migrate at a time.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
