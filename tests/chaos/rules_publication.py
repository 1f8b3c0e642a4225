"""What a publication promises: once, reviewed where it must be, over what was known, and in a history that adds up."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tests.chaos.ledger import OPEN, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.chaos.history import History
    from tests.chaos.ledger import Ledger, Line, Row

PATH: Final = frozenset({
    (None, "received"),
    (None, "awaiting_review"),  # split off from another job
    ("received", "importing"),
    ("importing", "validating"),
    ("validating", "awaiting_review"),
    ("validating", "publishing"),
    ("validating", "published"),
    ("awaiting_review", "publishing"),
    ("awaiting_review", "published"),
    ("publishing", "awaiting_review"),  # what was accepted has moved
    ("publishing", "published"),
})  # fmt: skip
"""Where a job may go. It may also note something where it stands."""


def nothing_is_published_twice(_history: History, ledger: Ledger) -> Iterator[str]:
    """A change becomes a version once, whatever was repeated or taken over: each content here is unlike any other."""
    for line in ledger.lines.values():
        found = Counter(row["content_hash"] for row in line.published if row["op"] == "put")
        for digest, times in found.items():
            if times > 1:
                yield f"{line.name}: content {told(digest)} was published {times} times"
        versions = Counter((row["key"], row["revision"]) for row in line.of("record_versions"))
        for (key, revision), times in versions.items():
            if times > 1:
                yield f"{line.name}: {key} has revision {revision} {times} times"


def every_generation_follows_from_the_one_before(_history: History, ledger: Ledger) -> Iterator[str]:
    """A generation shows what the one before it showed, and what its jobs or its restore have changed; nothing else."""
    for line in ledger.lines.values():
        generations = list(line.manifests)
        if generations != list(range(1, len(generations) + 1)):
            yield f"{line.name}: the generations are {generations}"
            continue
        changed = defaultdict(list)
        for row in line.published:
            changed[line.generation_of.get(row["job_id"])].append(row)
        restored = {row["generation"]: row["from_generation"] for row in line.of("restores")}
        expected: dict[int, dict[str, str]] = {}
        for generation, manifest in line.manifests.items():
            if generation > 1 and manifest["parent_generation"] != generation - 1:
                yield f"{line.name}: generation {generation} follows {manifest['parent_generation']}"
            before = expected.get(generation - 1, line.contents(1))
            expected[generation] = _after(
                expected[restored[generation]] if generation in restored else before, changed[generation]
            )
            if (shown := line.contents(generation)) != expected[generation]:
                yield f"{line.name}: generation {generation} {_unlike(shown, expected[generation])}"
            if manifest["records"] != len(shown):
                yield f"{line.name}: generation {generation} says {manifest['records']} records, and has {len(shown)}"


def _after(before: Mapping[str, str], changes: list[Row]) -> dict[str, str]:
    after = dict(before)
    for row in changes:
        after.pop(row["key"], None)
        if row["op"] == "put":
            after[row["key"]] = told(row["content_hash"])
    return after


def _unlike(shown: Mapping[str, str], expected: Mapping[str, str]) -> str:
    keys = sorted(key for key in {*shown, *expected} if shown.get(key) != expected.get(key))
    return f"should differ in {keys[:5]} ({len(keys)} keys)"


def every_root_recomputes(_history: History, ledger: Ledger) -> Iterator[str]:
    """The hash of a manifest is that of what it shows, each content that of its bytes, and intervals do not overlap."""
    for line in ledger.lines.values():
        for generation, manifest in line.manifests.items():
            if line.root(generation) != bytes(manifest["manifest_hash"]):
                yield f"{line.name}: the root of generation {generation} is not {told(manifest['manifest_hash'])}"
        yield from _bodies(line)
        yield from _intervals(line)


def _bodies(line: Line) -> Iterator[str]:
    """Whether each version has its content, and each content its hash."""
    bodies = {bytes(row["content_hash"]): bytes(row["body"]) for row in line.of("contents")}
    for digest, body in bodies.items():
        if hashlib.sha256(body).digest() != digest:
            yield f"{line.name}: content {told(digest)} has another hash"
    for row in line.of("record_versions"):
        if not row["tombstone"] and bytes(row["content_hash"]) not in bodies:
            yield f"{line.name}: the content of {row['key']} at {row['from_generation']} is missing"


def _intervals(line: Line) -> Iterator[str]:
    """Whether each key has one version in each generation."""
    by_key = defaultdict(list)
    for row in sorted(line.of("record_versions"), key=lambda row: row["from_generation"]):
        by_key[row["key"]].append(row)
    for key, rows in by_key.items():
        for one, other in pairwise(rows):
            if one["to_generation"] > other["from_generation"]:
                yield f"{line.name}: {key} has two versions in generation {other['from_generation']}"


def nothing_is_overwritten_unseen(_history: History, ledger: Ledger) -> Iterator[str]:
    """What replaces a record that its author did not know was accepted by somebody who saw both."""
    for line in ledger.lines.values():
        for row in line.published:
            before = line.shown(line.generation_of.get(row["job_id"], 1) - 1).get(row["key"])
            revision = 0 if before is None or before["tombstone"] else before["revision"]
            says = None if before is None else before["content_hash"]
            same = before is not None and row["op"] == "put" and says == row["content_hash"]
            known = {revision} | ({before["revision"]} if before is not None else set())
            if row["base_revision"] in known or same:
                continue
            accepts = {said["base_revision"] for said in _all_said_before(line, row) if said["action"] == "accept"}
            if accepts.isdisjoint(known):
                yield (
                    f"{line.name}: {row['key']} at revision {revision} was overwritten by {row['candidate_id']}, which "
                    f"knew {row['base_revision']}, and nobody accepted that"
                )


def nothing_is_published_without_its_review(_history: History, ledger: Ledger) -> Iterator[str]:
    """What a policy has somebody decide was accepted, and by somebody else than its author; so are deletions."""
    for line in ledger.lines.values():
        for row in line.published:
            latest = _said_before(line, row)
            accepted = [each for each in latest if each["action"] == "accept" and each["reviewer"] != row["author"]]
            must = line.policy.get("mode", "Manual") == "Manual" or row["op"] == "tombstone" or row["conflicting"]
            if must and not accepted:
                yield f"{line.name}: {row['candidate_id']} for {row['key']} is published, and nobody has accepted it"
            if any(bytes(each["content_hash"]) != bytes(row["content_hash"]) for each in accepted):
                yield f"{line.name}: {row['candidate_id']} is published with another content than was accepted"


def every_decision_is_kept(history: History, ledger: Ledger) -> Iterator[str]:
    """A decision that was acknowledged is in the log, and what a reviewer has rejected last is not published."""
    logged = {
        (row["candidate_id"], row["reviewer"].rpartition(":")[2], row["action"])
        for line in ledger.lines.values()
        for row in line.of("reviews")
    }
    for entry in history.of("decide", "ok"):
        if (entry["candidate"], entry.client, entry["action"]) not in logged:
            yield f"{entry.client} was told that {entry['action']} of {entry['candidate']} counts, and it is not logged"
    for line in ledger.lines.values():
        for row in line.published:
            if {each["action"] for each in _said_before(line, row)} == {"reject"}:
                yield f"{line.name}: {row['candidate_id']} is published, and was rejected"


def _said_before(line: Line, candidate: Row) -> list[Row]:
    """What each reviewer had said last of a candidate when it was published.

    What somebody writes into a job's resource later is noted too, and changes nothing. Both moments are told by
    Postgres' clock with the job locked, so they are in order.
    """
    return [*{row["reviewer"]: row for row in _all_said_before(line, candidate)}.values()]


def _all_said_before(line: Line, candidate: Row) -> list[Row]:
    at = line.published_at.get(candidate["job_id"])
    return [
        row
        for row in sorted(line.of("reviews"), key=lambda row: row["ordinal"])
        if row["candidate_id"] == candidate["candidate_id"] and (at is None or row["at"] <= at)
    ]


def every_job_goes_a_legal_path(_history: History, ledger: Ledger) -> Iterator[str]:
    """Steps follow each other, fences only rise, one holder has each of them, and a job ends once."""
    for line in ledger.lines.values():
        log = defaultdict(list)
        for row in sorted(line.of("transitions"), key=lambda row: row["ordinal"]):
            log[row["job_id"]].append(row)
        for job_id, job in line.jobs.items():
            yield from (f"{line.name}: job {job_id} {wrong}" for wrong in _path(job, log[job_id]))


def _path(job: Row, steps: list[Row]) -> Iterator[str]:
    if not steps or steps[-1]["to_state"] != job["state"]:
        yield f"is {job['state']}, and its log ends with {steps[-1]['to_state'] if steps else 'nothing'}"
    for one, other in pairwise(steps):
        if one["to_state"] != other["from_state"]:
            yield f"went from {other['from_state']} while it was {one['to_state']}"
        if one["fence"] > other["fence"]:
            yield f"was written under fence {other['fence']} after {one['fence']}"
    moves = {(step["from_state"], step["to_state"]) for step in steps if step["from_state"] != step["to_state"]}
    if wrong := moves - PATH:
        yield f"went {sorted(map(str, wrong))}"
    ends = sum(step["to_state"] == "published" and step["from_state"] != "published" for step in steps)
    if ends != (job["state"] == "published"):
        yield f"is {job['state']}, and ended {ends} times"
    for fence in {step["fence"] for step in steps}:
        holders = {s["holder"] for s in steps if s["fence"] == fence and s["from_state"] != s["to_state"]} - {None}
        if len(holders) > 1:
            yield f"was moved by {len(holders)} holders under fence {fence}"
    if job["failed"]:
        yield f"was given up: {job['reason']}, {job['last_error']}"


def the_head_is_the_newest(_history: History, ledger: Ledger) -> Iterator[str]:
    """The row that publications lock names the newest generation, and no version goes on into another that is not."""
    for line in ledger.lines.values():
        newest = max(line.manifests, default=0)
        if line.head["head_generation"] != newest:
            yield f"{line.name}: the head is {line.head['head_generation']}, and the newest generation {newest}"
        if line.head["current_generation"] not in line.manifests:
            yield f"{line.name}: current is {line.head['current_generation']}, which is not there"
        if late := [row["key"] for row in line.of("record_versions") if row["from_generation"] > newest]:
            yield f"{line.name}: {late[:5]} begin in a generation that is not there"
        if any(OPEN > row["to_generation"] > newest for row in line.of("record_versions")):
            yield f"{line.name}: a version ends in a generation that is not there"
