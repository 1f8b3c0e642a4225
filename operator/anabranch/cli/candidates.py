"""A candidate as a reviewer must see it: beside the record that it would replace, with the sources of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anabranch.cli import contents
from anabranch.cli.output import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def describe(candidate: Mapping[str, Any], said: Iterable[Mapping[str, Any]] = ()) -> Iterator[str]:
    """Tell of a candidate, line by line.

    Args:
        candidate: As the API's JSON has it.
        said: What reviewers have decided in its job, in order, likewise.
    """
    what = candidate.get("mark") or ("deletion" if candidate["op"] == "tombstone" else "put")
    conflict = "conflicting " if candidate["conflicting"] else ""
    # Of what was rejected, the detail is what a reviewer wrote.
    why = f" ({candidate['reason']}: {visible(candidate['detail'])})" if candidate["reason"] else ""
    state = f"{conflict}{what}, {candidate['state']}{why}"
    if candidate["key"] is None:
        yield f"{click.style('a change that its branch keeps back', bold=True)}  scope {candidate['scope']}, {state}"
        yield f"  {candidate['candidate_id']} of {candidate['author']}"
        return
    yield f"{click.style(visible(candidate['key']), bold=True)}  scope {candidate['scope']}, {state}"
    yield f"  {candidate['candidate_id']} of {candidate['author']}, based on revision {candidate['base_revision']}"
    if inputs := candidate.get("inputs"):
        by = f", written by the model {visible(candidate['model'])}" if candidate.get("model") else ""
        yield f"  a {candidate['origin']} of {', '.join(inputs)}{by}"
    if candidate["state"] == "waiting":
        yield from _voices(candidate, said)
    yield from _likeness(candidate)
    canonical = candidate["canonical"]
    if canonical is None:
        yield "  no record of this key that you may read"
    else:
        yield f"  - the record, revision {canonical['revision']}    + the candidate"
    before = [] if canonical is None else contents.lines_of(canonical["content"], canonical["source_locators"])
    for line in contents.diff(before, _lines(candidate), context=None):
        yield f"    {line}"


def _voices(candidate: Mapping[str, Any], said: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What reviewers have said of it: the job goes on when enough was said of each of its candidates."""
    latest = {entry["reviewer"]: entry for entry in said if entry["candidate_id"] == candidate["candidate_id"]}
    for reviewer, entry in latest.items():
        if entry["action"] != "withdraw":
            why = f": {visible(entry['reason'])}" if entry["reason"] else ""
            yield f"  {visible(reviewer)} {entry['action']}ed this{why}"


def _likeness(candidate: Mapping[str, Any]) -> Iterator[str]:
    """What it is like: a hint, and no decision."""
    if candidate.get("group_id"):
        yield f"  in the group {candidate['group_id']} of near-identical ones"
    for like in candidate.get("similar") or ():
        yield f"  like {like['candidate_id']} ({like['likeness']:.2f}, {like['state']}) in {like['job_id']}"


def _lines(candidate: Mapping[str, Any]) -> list[str]:
    sources = [_source(check) for check in candidate["sources"]]
    if candidate.get("mark") and candidate["canonical"] is not None:
        kept = candidate["canonical"]["source_locators"]
        return contents.lines_of(
            candidate["content"], [f"{text} (withdrawn)" if text in sources else text for text in kept]
        )
    if candidate["op"] == "tombstone":
        return ["(the key is deleted)", *(f"source {visible(source)}" for source in sources)]
    return contents.lines_of(candidate["content"], sources)


def _source(check: Mapping[str, Any]) -> str:
    """A source; what its resolver says only where it did not find it, so that equal ones of both sides look equal."""
    if check["status"] == "verified":
        return str(check["locator"])
    detail = f": {check['detail']}" if check["detail"] else ""
    return f"{check['locator']} ({check['status']}{detail})"
