"""What the feed promises: every change once, in order, without a gap, and that whoever follows it ends with what is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos.ledger import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.history import History
    from tests.chaos.ledger import Ledger, Row


def the_feed_has_no_gap(_history: History, ledger: Ledger) -> Iterator[str]:
    """Events are numbered one after the other, from the floor to what the head says."""
    for line in ledger.lines.values():
        sequences = sorted(row["sequence"] for row in line.of("events"))
        first, last = line.head["event_floor"] + 1, line.head["event_sequence"]
        if sequences != list(range(first, last + 1)):
            missing = sorted(set(range(first, last + 1)) - set(sequences))
            yield f"{line.name}: events should be {first} to {last}; {missing[:5]} are missing, {len(sequences)} there"
        if twice := [key for key, times in Counter(row["event_id"] for row in line.of("events")).items() if times > 1]:
            yield f"{line.name}: events {twice[:5]} have one id"


def the_feed_agrees_with_the_manifests(_history: History, ledger: Ledger) -> Iterator[str]:
    """Each published change was told once, in its generation, and so was each restore; watermarks say up to where."""
    for line in ledger.lines.values():
        events = sorted(line.of("events"), key=lambda row: row["sequence"])
        told_of = Counter(
            (row["kind"], row["key"], row["generation"]) for row in events if row["kind"] in ("published", "tombstone")
        )
        made = Counter(
            ("published" if row["op"] == "put" else "tombstone", row["key"], line.generation_of.get(row["job_id"]))
            for row in line.published
        )
        for change, times in (told_of - made).items():
            yield f"{line.name}: {change} was told {times} times more than it happened"
        for change, times in (made - told_of).items():
            yield f"{line.name}: {change} was told {times} times less than it happened"
        restores = Counter(row["generation"] for row in events if row["kind"] == "restored")
        if restores != Counter(row["generation"] for row in line.of("restores")):
            yield f"{line.name}: restores were told in generations {dict(restores)}"
        newest = {row["generation"]: row["sequence"] for row in events if row["kind"] not in ("rollback", "resumed")}
        for generation, manifest in line.manifests.items():
            if newest.get(generation, manifest["feed_watermark"]) != manifest["feed_watermark"]:
                yield f"{line.name}: the watermark of generation {generation} is {manifest['feed_watermark']}"
        for row in events:
            if row["generation"] not in line.manifests:
                yield f"{line.name}: event {row['sequence']} is of generation {row['generation']}, which is not there"


def followers_are_told_what_is_in_the_feed(history: History, ledger: Ledger) -> Iterator[str]:
    """Each event that a follower sees is in the feed, as it saw it, and comes one after the other in a connection."""
    feeds = {name: {row["sequence"]: row for row in line.of("events")} for name, line in ledger.lines.items()}
    for (baseline, follower, stream), seen in history.grouped("event", "seen", by=("baseline", "follower", "stream")):
        for entry in seen:
            row = feeds[baseline].get(entry["sequence"])
            if row is None or _as_seen(row) != {name: entry[name] for name in _as_seen(row)}:
                yield f"{follower} was told event {entry['sequence']} of {baseline}, and the feed has another"
        whole = not any(entry.about.get("partial") for entry in seen)
        for one, other in pairwise(seen):
            step = other["sequence"] - one["sequence"]
            if step <= 0 or (whole and step > 1):
                yield f"{follower} was told event {other['sequence']} of {baseline} after {one['sequence']} ({stream})"


def followers_skip_nothing(history: History, ledger: Ledger) -> Iterator[str]:
    """Whoever follows all of a Baseline is told each event, from the generation that they began with up to the end.

    That holds across connections, each of which goes on from the last cursor. And somebody has to have come to the end,
    or something is left: nothing is proved by a feed that nobody was told anything of.
    """
    for name, line in ledger.lines.items():
        place: dict[str, int] = {}
        ended = False
        for entry in history.entries:
            who = entry.client
            if entry.about.get("baseline") != name or entry.phase not in ("ok", "seen"):
                continue
            if entry.what == "manifest" and entry["generation"] in line.manifests:
                place[who] = line.manifests[entry["generation"]]["feed_watermark"]
            elif entry.what == "event" and not entry["partial"]:
                if entry["sequence"] > place.get(who, 0) + 1:
                    yield f"{who} was told event {entry['sequence']} of {name} after {place.get(who, 0)}"
                place[who] = max(place.get(who, 0), entry["sequence"])
            elif entry.what == "overlay" and entry["scopes"] is None:
                ended = True
                if place.get(who, 0) != line.head["event_sequence"]:
                    yield f"{who} was told of {name} up to {place.get(who, 0)}, of {line.head['event_sequence']}"
        if not ended and not ledger.leftover:
            yield f"nobody has followed {name} to its end"


def _as_seen(row: Row) -> dict[str, object]:
    return {"kind": row["kind"], "key": row["key"], "generation": row["generation"], "event": row["event_id"]}


def followers_converge(history: History, ledger: Ledger) -> Iterator[str]:
    """Whoever has followed up to the end has what is current: all of it, or of the scopes that are theirs."""
    for entry in history.of("overlay", "seen"):
        line = ledger.lines[entry["baseline"]]
        scopes = frozenset(entry["scopes"]) if entry["scopes"] is not None else None
        expected = line.contents(line.head["current_generation"], scopes=scopes)
        if entry["sequence"] != line.head["event_sequence"]:
            yield f"{entry.client} is at event {entry['sequence']} of {line.name}, of {line.head['event_sequence']}"
        elif entry["records"] != expected:
            wrong = sorted(
                key for key in {*expected, *entry["records"]} if expected.get(key) != entry["records"].get(key)
            )
            yield f"{entry.client} has followed {line.name} to its end, and differs in {wrong[:5]} ({len(wrong)} keys)"


def agents_are_told_of_each_outcome_once(_history: History, ledger: Ledger) -> Iterator[str]:
    """An agent's queue has each event once, and one for each job of its run that has published something."""
    queues = Counter((row["agent_id"], row["instance"], row["event_id"]) for row in ledger.agent_events)
    for (agent, _, event), times in queues.items():
        if times > 1:
            yield f"{agent} was told event {event} {times} times"
    subjects = Counter(row["kind"] for row in ledger.agent_events)
    published = sum(
        1
        for line in ledger.lines.values()
        for job_id in line.generation_of
        if line.jobs[job_id]["branch_id"] is not None
    )
    if subjects["finding.published"] != published:
        yield f"{published} jobs have published something, and agents were told {subjects['finding.published']} times"


def statuses_tell_what_is(_history: History, ledger: Ledger) -> Iterator[str]:
    """The resource says the same as the database, once nothing moves any more."""
    for line in ledger.lines.values():
        for name, column in (("current", "current_generation"), ("head", "head_generation")):
            shown = line.status.get(name) or {}
            manifest = line.manifests.get(line.head[column])
            if manifest and (shown.get("generation"), shown.get("manifestHash")) != (
                manifest["generation"],
                told(manifest["manifest_hash"]),
            ):
                yield f"{line.name}: status.{name} is generation {shown.get('generation')}, of {line.head[column]}"
