"""Which programs may go on while a newer one has migrated, so that an upgrade can roll."""

from anabranch.store.migrations import script

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Name the oldest schema whose programs understand this one."""
    script.run(__file__)
