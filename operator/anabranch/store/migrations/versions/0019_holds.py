"""Decisions name the hold of the recall gate that their reviewer saw."""

from anabranch.store.migrations import script

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Make room for the number of a hold in each decision; those of before name none."""
    script.run(__file__)
