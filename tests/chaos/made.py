"""A history and a ledger made by hand, in which nothing is wrong: each test of a rule takes them and breaks one thing.

One branch of one line: its first batch brought `a` in generation 2, its second one waits for a reviewer. An agent with
a note of its own, a reader, a follower.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.history import Entry, History
from tests.chaos.ledger import OPEN, Ledger, Line, told

BRANCH = "br_1"
FACT = b"\1" * 32
PUBLISHED_AT = datetime(2026, 1, 2, tzinfo=UTC)


def digest(content: Any) -> bytes:
    return hashlib.sha256(json.dumps(content).encode()).digest()


def batch(sequence: int, key: str, job: str | None) -> dict[str, Any]:
    return {
        "branch_id": BRANCH,
        "sequence": sequence,
        "receipt_id": f"receipt-{sequence}",
        "content_hash": digest(["batch", sequence]),
        "body": json.dumps({"changes": [{"key": key}]}).encode(),
        "job_id": job,
    }


def job(name: str, sequence: int, state: str) -> dict[str, Any]:
    return {
        "job_id": name,
        "origin": "Branch",
        "branch_id": BRANCH,
        "from_sequence": sequence,
        "through_sequence": sequence,
        "state": state,
        "failed": False,
        "reason": "",
        "last_error": None,
    }


def candidate(name: str, of: str, key: str, state: str, **more: Any) -> dict[str, Any]:
    return {
        "candidate_id": name,
        "job_id": of,
        "origin_job": of,
        "ordinal": 0,
        "author": "system:serviceaccount:ns:agent",
        "op": "put",
        "key": key,
        "content_hash": digest(key),
        "base_revision": 0,
        "state": state,
        "conflicting": False,
        **more,
    }


def review(action: str, *, late: bool = False, **more: Any) -> dict[str, Any]:
    """What Ada says of the published candidate before that is published, or after."""
    return {
        "ordinal": 1,
        "candidate_id": "cand_1",
        "action": action,
        "reviewer": "ada",
        "content_hash": digest("a"),
        "base_revision": 0,
        "at": PUBLISHED_AT + timedelta(seconds=1 if late else -1),
        **more,
    }


def version(key: str, revision: int, *, start: int, content: Any, end: int = OPEN) -> dict[str, Any]:
    return {
        "key": key,
        "from_generation": start,
        "to_generation": end,
        "revision": revision,
        "scope": "shared",
        "content_hash": digest(content),
        "fact_hash": FACT,
        "tombstone": False,
    }


def steps(of: str, *states: str) -> list[dict[str, Any]]:
    return [
        {"job_id": of, "ordinal": n, "from_state": before, "to_state": after, "fence": 1, "holder": "h"}
        for n, (before, after) in enumerate(zip([None, *states], states, strict=False))
    ]


def ledger() -> Ledger:
    versions = [version("known", 1, start=1, content="known"), version("a", 2, start=2, content="a")]
    line = Line(name="calm", line="ln_1", policy={"mode": "Automatic"}, rows={"record_versions": versions})
    manifests = [
        {
            "generation": generation,
            "parent_generation": generation - 1,
            "manifest_hash": line.root(generation),
            "records": generation,
            "feed_watermark": generation - 1,
        }
        for generation in (1, 2)
    ]
    event = {"sequence": 1, "event_id": "ev_1", "kind": "published", "key": "a", "generation": 2}
    rows = {
        "record_versions": versions,
        "manifests": manifests,
        "contents": [{"content_hash": digest(text), "body": json.dumps(text).encode()} for text in ("known", "a")],
        "line_heads": [{"head_generation": 2, "current_generation": 2, "event_sequence": 1, "event_floor": 0}],
        "branches": [{"branch_id": BRANCH}],
        "batches": [batch(1, "a", "job_1"), batch(2, "b", "job_2")],
        "jobs": [job("job_1", 1, "published"), job("job_2", 2, "awaiting_review")],
        "candidates": [candidate("cand_1", "job_1", "a", "published"), candidate("cand_2", "job_2", "b", "waiting")],
        "publications": [{"job_id": "job_1", "generation": 2, "created_at": PUBLISHED_AT}],
        "events": [event],
        "transitions": steps("job_1", "received", "importing", "validating", "publishing", "published")
        + steps("job_2", "received", "importing", "validating", "awaiting_review"),
        "private_records": [{"branch_id": BRANCH, "key": "note", "revision": 1}],
    }
    current = {"generation": 2, "manifestHash": told(line.root(2))}
    whole = replace(line, rows=rows, status={"current": current, "head": current})
    told_of = {"agent_id": "agent", "instance": "default", "event_id": "1", "kind": "finding.published"}
    return Ledger(lines={"calm": whole}, agent_events=[told_of])


def changed(made: Ledger, table: str, place: int, **values: Any) -> Ledger:
    """The ledger with one row of a table changed; or added, at a place where there is none."""
    line = made.lines["calm"]
    rows = [dict(row) for row in line.rows.get(table, ())]
    if place == len(rows):
        rows.append(values)
    else:
        rows[place] |= values
    return replace(made, lines={"calm": replace(line, rows={**line.rows, table: rows})})


def without(made: Ledger, table: str, place: int) -> Ledger:
    line = made.lines["calm"]
    rows = [row for number, row in enumerate(line.rows[table]) if number != place]
    return replace(made, lines={"calm": replace(line, rows={**line.rows, table: rows})})


def history() -> History:
    made = History()
    for sequence in (1, 2):
        add(made, "submit", branch=BRANCH, sequence=sequence, digest=told(digest(["batch", sequence])),
            found={"ack": "receipt", "receipt": f"receipt-{sequence}"})  # fmt: skip
    add(made, "outcome", branch=BRANCH, sequence=1, found={"ack": "receipt", "job": None, "generation": None})
    add(made, "outcome", branch=BRANCH, sequence=1, found={"ack": "publication", "job": "job_1", "generation": 2})
    add(made, "put_private", branch=BRANCH, key="note", value="first", over=0, found={"revision": 1})
    add(made, "get_private", branch=BRANCH, key="note", found={"revision": 1, "value": "first"})
    line = ledger().lines["calm"]
    add(made, "manifest", baseline="calm", found={"generation": 2, "hash": told(line.root(2))})
    add(made, "records", baseline="calm", generation=2, scopes=None, found={"records": line.contents(2)})
    add(made, "manifest", client="follower", baseline="calm", found={"generation": 1, "hash": told(line.root(1))})
    made.see("follower", "event", **event())
    made.see("follower", "overlay", baseline="calm", scopes=None, sequence=1, records=line.contents(2))
    return made


def event(**more: Any) -> dict[str, Any]:
    seen = {"baseline": "calm", "follower": "follower", "stream": 1, "sequence": 1, "event": "ev_1"}
    return {**seen, "kind": "published", "key": "a", "generation": 2, "partial": None, **more}


def add(
    made: History, what: str, *, phase: str = "ok", found: dict[str, Any], client: str = "agent", **about: Any
) -> Entry:
    """A call that ended."""
    call = made._note(client, "begun", what, about).number
    return made._note(client, phase, what, {**about, **found}, call)
