"""Counters of what lines hold: sources, verification, age."""

from anabranch.store.migrations import script

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make room for the counters; the operator fills it."""
    script.run(__file__)
