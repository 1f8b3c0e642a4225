"""The trace that findings came with goes on with them."""

from anabranch.store.migrations import script

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Make room for what brings a trace on from one process to the next."""
    script.run(__file__)
