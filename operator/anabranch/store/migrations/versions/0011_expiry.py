"""For how long the resources of runs and jobs are kept after their end."""

from anabranch.store.migrations import script

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Make room for it, and find those whose time is over."""
    script.run(__file__)
