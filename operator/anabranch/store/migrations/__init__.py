"""The history of the schema: numbered SQL files, each with the few lines that Alembic reads."""
