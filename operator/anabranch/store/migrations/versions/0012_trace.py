"""Which records were derived from which, and what was withdrawn."""

from anabranch.store.migrations import script

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make room for derivations, which the operator finds, and for retractions."""
    script.run(__file__)
