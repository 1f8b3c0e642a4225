"""Which candidates are alike."""

from anabranch.store.migrations import script

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make room for what reviewers are told beside a candidate."""
    script.run(__file__)
