"""What a receipt promises: that the batch is there, as it was sent, and ends in one way that is never taken back."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.chaos.ledger import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.history import History
    from tests.chaos.ledger import Ledger, Line

DECIDED: Final = frozenset({"published", "rejected", "duplicate"})
UNDECIDED: Final = frozenset({"pending", "waiting", "accepted"})


def every_acknowledged_batch_is_kept(history: History, ledger: Ledger) -> Iterator[str]:
    """Whoever was told that a batch was received finds it, under the receipt that it was told."""
    for (branch, sequence), answers in history.grouped("submit", "ok", by=("branch", "sequence")):
        line = ledger.line_of(branch)
        row = line.batches.get((branch, sequence)) if line else None
        if row is None:
            yield f"batch {sequence} of {branch} was acknowledged, and is not there"
            continue
        for entry in answers:
            if entry["receipt"] != row["receipt_id"]:
                yield f"batch {sequence} of {branch} has receipt {row['receipt_id']}, and {entry['receipt']} was told"
            if entry["digest"] != told(row["content_hash"]):
                yield f"batch {sequence} of {branch} was acknowledged as {entry['digest']}, and something else is there"


def one_batch_has_a_number(history: History, _ledger: Ledger) -> Iterator[str]:
    """A number that is taken is not given again: neither for another content, nor with another receipt."""
    for (branch, sequence), answers in history.grouped("submit", "ok", by=("branch", "sequence")):
        for name in ("digest", "receipt"):
            if len(found := {entry[name] for entry in answers}) > 1:
                yield f"batch {sequence} of {branch} was acknowledged with several {name}s: {sorted(found)}"


def nothing_that_was_refused_is_kept(history: History, ledger: Ledger) -> Iterator[str]:
    """What was refused each time that it was sent is not there, and nothing is there that nobody sent."""
    sent = history.of("submit", "begun")
    refused = {entry.call for entry in history.of("submit", "refused")}
    may_be = {(e["branch"], e["sequence"], e["digest"]) for e in sent if e.number not in refused}
    for line in ledger.lines.values():
        for (branch, sequence), row in line.batches.items():
            if (branch, sequence, told(row["content_hash"])) not in may_be:
                yield f"batch {sequence} of {branch} is there, and was refused or never sent"


def every_batch_has_one_fate(_history: History, ledger: Ledger) -> Iterator[str]:
    """Each change of a batch is one candidate of one job: published, rejected, merged into another, or waiting."""
    for line in ledger.lines.values():
        yield from _covered(line)
        for job in line.of("jobs"):
            if job["origin"] == "Branch":
                yield from _imported(line, job)
        for row in line.of("candidates"):
            done = line.jobs[row["job_id"]]["state"] == "published"
            if done and row["state"] not in DECIDED:
                yield f"candidate {row['candidate_id']} is {row['state']}, and its job has ended"
            if row["state"] == "published" and row["job_id"] not in line.generation_of:
                yield f"candidate {row['candidate_id']} is published, and its job has published nothing"


def _covered(line: Line) -> Iterator[str]:
    """Whether each batch that a job has is in the range of that job, and in no other."""
    ranges: Counter[tuple[str, int]] = Counter()
    for job in line.of("jobs"):
        if job["origin"] == "Branch":
            for sequence in range(job["from_sequence"], job["through_sequence"] + 1):
                ranges[job["branch_id"], sequence] += 1
                batch = line.batches.get((job["branch_id"], sequence))
                if batch is None or batch["job_id"] != job["job_id"]:
                    yield f"job {job['job_id']} is over batch {sequence} of {job['branch_id']}, which is not its own"
    for place, row in line.batches.items():
        if ranges[place] != (row["job_id"] is not None):
            yield f"batch {place[1]} of {place[0]} is in {ranges[place]} jobs, and its row names {row['job_id']}"


def _imported(line: Line, job: dict) -> Iterator[str]:
    found = line.candidates_of.get(job["job_id"], [])
    bodies = [
        line.batches[job["branch_id"], sequence]["body"]
        for sequence in range(job["from_sequence"], job["through_sequence"] + 1)
        if (job["branch_id"], sequence) in line.batches
    ]
    keys = [change["key"] for body in bodies for change in json.loads(body)["changes"]]
    whole = job["state"] not in ("received", "importing")
    imported = [row["key"] for row in found]
    if imported != (keys if whole else keys[: len(found)]):
        yield f"job {job['job_id']} ({job['state']}) has candidates for {imported}, and its batches have {keys}"
    if [row["ordinal"] for row in found] != list(range(len(found))):
        yield f"the candidates of job {job['job_id']} are not numbered one after the other"


def no_outcome_is_taken_back(history: History, ledger: Ledger) -> Iterator[str]:
    """Once somebody was told what a batch has become, it is that for everybody, and the database agrees."""
    for (branch, sequence), answers in history.grouped("outcome", "ok", by=("branch", "sequence")):
        told_of = [entry for entry in answers if entry["ack"] == "publication"]
        if not told_of:
            continue
        first = told_of[0]
        for entry in answers:
            begun = entry.call if entry.call is not None else entry.number
            if entry["ack"] == "receipt" and begun > first.number:
                yield f"batch {sequence} of {branch} was published, and then only received"
        for name in ("job", "generation"):
            if len(found := {entry[name] for entry in told_of}) > 1:
                yield f"batch {sequence} of {branch} was told with several of {name}: {found}"
        line = ledger.line_of(branch)
        job = line.jobs.get(first["job"]) if line else None
        if line is None or job is None or job["state"] != "published":
            yield f"batch {sequence} of {branch} was told as ended by job {first['job']}, which has not"
        elif line.generation_of.get(first["job"]) != first["generation"]:
            yield (
                f"batch {sequence} of {branch} was told to be in generation {first['generation']}, and its job "
                f"has published {line.generation_of.get(first['job'])}"
            )


def nothing_comes_after_a_completion(history: History, ledger: Ledger) -> Iterator[str]:
    """A run that was completed has all batches that it spoke of, and no later one."""
    for (branch,), answers in history.grouped("complete", "ok", by=("branch",)):
        line = ledger.line_of(branch)
        last = answers[0]["last"]
        found = sorted(sequence for each, sequence in line.batches if each == branch) if line else []
        if found != list(range(1, last + 1)):
            yield f"{branch} was completed with {last} batches, and has {found}"
