"""What retention needs to know: what it removed, what it still has to look at, and what a line may not forget."""

from anabranch.store.migrations import script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Let generations, runs and jobs be removed."""
    script.run(__file__)
