"""What agents remember, what the platform notes for them, and what they are told."""

from anabranch.store.migrations import script

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Keep an envelope for each instance of an agent, and a queue of its events."""
    script.run(__file__)
