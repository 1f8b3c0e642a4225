"""The recall gate: sets of questions, what generations answer, and what was held."""

from anabranch.store.migrations import script

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Make room for the gates, which Baselines declare; without one nothing changes."""
    script.run(__file__)
