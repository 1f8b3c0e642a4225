"""Backups of lines: those that are recorded, and when the next is due."""

from anabranch.store.migrations import script

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Make room for them; lines whose Baselines ask for backups get their turn when they are reconciled."""
    script.run(__file__)
