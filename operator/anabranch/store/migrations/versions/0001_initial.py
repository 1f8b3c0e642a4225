"""The first schema: lines, branches, jobs, the feed and what waits."""

from anabranch.store.migrations import script

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    script.run(__file__)
