"""What models were asked about candidates, and what came of it."""

from anabranch.store.migrations import script

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make room for what the operator asks models."""
    script.run(__file__)
