"""What the database says at the end: every row of the lines that a run used, as of one moment, and what follows.

Judges read this and nothing else of the service. What follows of the rows is computed by the plainest code that does
it, and the roots by the second implementation that the test vectors come from: a judge that asked the service's own
code whether it is right would be told yes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tests.vectors.generate import canonical, sha256, subtree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import asyncpg

    Row = Mapping[str, Any]

TABLES: Final = (
    "batches",
    "branches",
    "candidates",
    "completions",
    "contents",
    "events",
    "jobs",
    "line_heads",
    "manifests",
    "private_records",
    "publications",
    "record_versions",
    "restores",
    "reviews",
    "transitions",
)

OPEN: Final = 9_223_372_036_854_775_807
"""The end of an interval that has none."""


@dataclass(frozen=True)
class Line:
    """A line as it stands.

    Attributes:
        name: Of its Baseline.
        line: Its id.
        policy: The Baseline's review policy.
        rows: Of each table.
        status: Of the Baseline resource.
    """

    name: str
    line: str
    policy: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)

    def of(self, table: str) -> Sequence[Row]:
        return self.rows.get(table, ())

    @property
    def head(self) -> Row:
        return self.of("line_heads")[0]

    @cached_property
    def jobs(self) -> dict[str, Row]:
        return {row["job_id"]: row for row in self.of("jobs")}

    @cached_property
    def batches(self) -> dict[tuple[str, int], Row]:
        return {(row["branch_id"], row["sequence"]): row for row in self.of("batches")}

    @cached_property
    def manifests(self) -> dict[int, Row]:
        return {row["generation"]: row for row in sorted(self.of("manifests"), key=lambda row: row["generation"])}

    @cached_property
    def generation_of(self) -> dict[str, int]:
        """What each job has published."""
        return {row["job_id"]: row["generation"] for row in self.of("publications")}

    @cached_property
    def published_at(self) -> dict[str, datetime]:
        """When each job has published."""
        return {row["job_id"]: row["created_at"] for row in self.of("publications")}

    @cached_property
    def published(self) -> list[Row]:
        """The published candidates in the order of their generations."""
        found = [row for row in self.of("candidates") if row["state"] == "published"]
        return sorted(found, key=lambda row: (self.generation_of.get(row["job_id"], 0), row["key"]))

    @cached_property
    def candidates_of(self) -> dict[str, list[Row]]:
        """What each job has imported, in order."""
        found: defaultdict[str, list[Row]] = defaultdict(list)
        for row in sorted(self.of("candidates"), key=lambda row: row["ordinal"]):
            found[row["origin_job"]].append(row)
        return dict(found)

    def shown(self, generation: int) -> dict[str, Row]:
        """The versions that a generation shows, by key; deleted ones too."""
        return {
            row["key"]: row
            for row in self.of("record_versions")
            if row["from_generation"] <= generation < row["to_generation"]
        }

    def root(self, generation: int) -> bytes:
        """The root of the trie over what a generation shows."""
        return subtree([_pair(row) for row in self.shown(generation).values()], 0, [], None)

    def contents(self, generation: int, *, scopes: frozenset[str] | None = None) -> dict[str, str]:
        """The digests of the records that a generation shows, by key: of all scopes, or of some."""
        return {
            key: told(row["content_hash"])
            for key, row in self.shown(generation).items()
            if not row["tombstone"] and (scopes is None or row["scope"] in scopes)
        }


@dataclass(frozen=True)
class Ledger:
    """All lines of a run.

    Attributes:
        lines: By the Baseline's name.
        agent_events: What agents are told, of any line.
        leftover: What still waited when it was read, in words; nothing, once a run has come to rest.
    """

    lines: Mapping[str, Line]
    agent_events: Sequence[Row] = ()
    leftover: Sequence[str] = ()

    def line_of(self, branch_id: str) -> Line | None:
        """The line that a branch is of."""
        return next((line for line in self.lines.values() if branch_id in self._branches[line.name]), None)

    @cached_property
    def _branches(self) -> dict[str, set[str]]:
        return {name: {row["branch_id"] for row in line.of("branches")} for name, line in self.lines.items()}


async def read(
    conn: asyncpg.Connection,
    *,
    namespace: str,
    statuses: Mapping[str, Mapping[str, Any]],
    leftover: Sequence[str] = (),
) -> Ledger:
    """Read the lines of a namespace.

    Args:
        conn: As a role that may read everything.
        namespace: Of the Baselines and of their agents.
        statuses: Of the Baseline resources, by name.
        leftover: See `Ledger`.
    """
    lines = {}
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        for row in await conn.fetch("SELECT line, name, policy FROM lines WHERE namespace = $1", namespace):
            line = row["line"]
            rows = {
                table: [dict(found) for found in await conn.fetch(f"SELECT * FROM {table} WHERE line = $1", line)]
                for table in TABLES
            }
            policy = json.loads(row["policy"]).get("review") or {}
            status = statuses.get(row["name"], {})
            lines[row["name"]] = Line(name=row["name"], line=line, policy=policy, rows=rows, status=status)
        told_of = [
            dict(found) for found in await conn.fetch("SELECT * FROM agent_events WHERE namespace = $1", namespace)
        ]
    return Ledger(lines=lines, agent_events=told_of, leftover=leftover)


def _pair(row: Row) -> tuple[bytes, bytes]:
    descriptor = {
        "key": row["key"],
        "revision": str(row["revision"]),
        "scope": row["scope"],
        "content_hash": told(row["content_hash"]),
        "fact_hash": told(row["fact_hash"]),
        "tombstone": row["tombstone"],
    }
    return sha256(row["key"].encode()), sha256(b"anabranch.trie.descriptor.v1\0" + canonical(descriptor))


def told(digest: bytes) -> str:
    """A digest as it travels."""
    return f"sha256:{bytes(digest).hex()}"
