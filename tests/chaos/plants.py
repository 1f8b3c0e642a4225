"""Bugs to plant in a copy of the package: each is a slip that somebody could make, and that a rule must find.

A bug is a piece of the source that is replaced by another. What is replaced must be there exactly once: a bug that the
code has outgrown fails, instead of being planted nowhere.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.chaos.stage import APIS, OPERATORS

from anabranch.devcluster import children

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE: Final = "anabranch"


@dataclass(frozen=True)
class Bug:
    """A bug.

    Attributes:
        name: What it does wrong.
        rule: Which one must find it.
        file: In the package.
        right: What stands there.
        wrong: What stands there instead.
        where: The processes that are wrong then.
        faults: Kinds of fault that it takes to show, by what is in their names; none: it shows by itself.
    """

    name: str
    rule: str
    file: str
    right: str
    wrong: str
    where: tuple[str, ...]
    faults: tuple[str, ...] = ()

    def plant(self, root: Path) -> None:
        """Put it into a copy of the package, given by its source root."""
        file = root / PACKAGE / self.file
        text = file.read_text()
        assert text.count(self.right) == 1, f"{self.file} has outgrown the bug `{self.name}`"
        file.write_text(text.replace(self.right, self.wrong))


def copy(root: Path) -> Path:
    """Make a copy of the package, with what is compiled and its times: only what changes is compiled anew."""
    shutil.copytree(children.SOURCE_ROOT / PACKAGE, root / PACKAGE)
    return root


BUGS: Final = (
    Bug(
        "acknowledges some batches that it then does not keep",
        rule="every_acknowledged_batch_is_kept",
        file="store/receiver.py",
        right="""\
        async with self.db.connection() as conn:
            rows = iter(await receipts.receive(conn, [arrival for arrivals in asked for arrival in arrivals]))
""",
        wrong="""\
        async with self.db.connection() as conn:
            going = conn.transaction()
            await going.start()
            rows = iter(await receipts.receive(conn, [arrival for arrivals in asked for arrival in arrivals]))
            await (going.commit() if asked[0][0].sequence % 4 != 3 else going.rollback())
""",
        where=APIS,
    ),
    Bug(
        "takes another content for a batch that it has",
        rule="one_batch_has_a_number",
        file="store/receipts.py",
        right="taken = receipt.content_hash != submitted.content_hash",
        wrong="taken = False",
        where=APIS,
    ),
    Bug(
        "lets anybody into a branch who has the grant for their own",
        rule="nobody_sees_what_is_private",
        file="api/access.py",
        right="return is_agent(caller, row)",
        wrong="return True",
        where=APIS,
    ),
    Bug(
        "shows the newest versions in an old generation",
        rule="no_generation_ever_changes",
        file="store/sql/records.sql",
        right="""\
              AND r.from_generation <= m.generation AND r.to_generation > m.generation
              AND (:scopes
""".rstrip("\n"),
        wrong="""\
              AND r.from_generation <= h.head_generation AND r.to_generation > h.head_generation
              AND (:scopes
""".rstrip("\n"),
        where=APIS,
    ),
    Bug(
        "leaves out events of the feed at times",
        rule="followers_are_told_what_is_in_the_feed",
        file="store/sql/events.sql",
        right="v.sequence > :after_sequence\n",
        wrong="v.sequence > :after_sequence AND v.sequence % 4 <> 3\n",
        where=APIS,
    ),
    Bug(
        "publishes without the review that the policy asks for",
        rule="nothing_is_published_without_its_review",
        file="domain/policy.py",
        right="if not policy.automatic:",
        wrong="if policy.min_reviewers > 1:",
        where=OPERATORS,
    ),
    Bug(
        "takes a record that has moved on for the one that the author knew",
        rule="nothing_is_overwritten_unseen",
        file="domain/conflict.py",
        right="if finding.base_revision == canonical.revision:",
        wrong="if finding.base_revision <= canonical.revision:",
        where=OPERATORS,
    ),
    Bug(
        "signs the root of the generation before",
        rule="every_root_recomputes",
        file="store/publish.py",
        right="root=prepared.delta.root,",
        wrong="root=prepared.parent.manifest_hash,",
        where=OPERATORS,
    ),
    Bug(
        "leaves a gap in the feed after a publication of several changes",
        rule="the_feed_has_no_gap",
        file="store/publish.py",
        right="sequence = head.event_sequence + len(events)\n",
        wrong="sequence = head.event_sequence + len(events) + (len(events) > 1)\n",
        where=OPERATORS,
    ),
    Bug(
        "counts a rejection as an acceptance",
        rule="every_decision_is_kept",
        file="domain/review.py",
        right='elif decision.action == "reject":',
        wrong='elif decision.action == "refuse":',
        where=OPERATORS,
    ),
)
