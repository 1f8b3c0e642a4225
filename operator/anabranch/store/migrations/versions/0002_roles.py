"""What the operator and the API may do with the tables."""

from anabranch.store.migrations import script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Grant each role what it needs, and no more."""
    script.run(__file__)
