"""Vectors beside the index of words."""

from anabranch.store.migrations import script

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Make room for vectors, which the operator makes where an embedder is set."""
    script.run(__file__)
