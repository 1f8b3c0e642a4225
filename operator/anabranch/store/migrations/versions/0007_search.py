"""An index of words over what lines say, made after the fact."""

from anabranch.store.migrations import script

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make room for the index; the operator fills it."""
    script.run(__file__)
