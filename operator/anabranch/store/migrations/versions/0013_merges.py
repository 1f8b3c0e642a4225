"""Merges: what reviewers, or a model, make of several candidates."""

from anabranch.store.migrations import script

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make room for proposed merges and their texts, and let candidates say what they were made of."""
    script.run(__file__)
