"""Lines that are condemned: their Baseline was deleted together with its data."""

from anabranch.store.migrations import script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Let a line be condemned, and free its place for a successor."""
    script.run(__file__)
