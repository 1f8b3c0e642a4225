"""Key-value namespaces of a branch, for clients of instantKV."""

from anabranch.store.migrations import script

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Let a private record expire, and know what the key-value contract asks beside the overlay."""
    script.run(__file__)
