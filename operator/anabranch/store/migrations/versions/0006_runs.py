"""What a live run says of itself: its lease, its place in the feed, its checkpoints; and what it was based on."""

from anabranch.store.migrations import script

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make their tables."""
    script.run(__file__)
