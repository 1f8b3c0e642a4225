"""What a read promises: a generation never changes, one's own writes are there, and others' secrets are not."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.chaos.ledger import told
from tests.chaos.town import SECRET

PRECONDITION, ABSENT = 412, 404

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.history import Entry, History
    from tests.chaos.ledger import Ledger


def no_generation_ever_changes(history: History, ledger: Ledger) -> Iterator[str]:
    """Whoever reads a generation, whenever and through whichever process, reads the same; and it is what is kept."""
    for (baseline, generation), reads in history.grouped("manifest", "ok", by=("baseline", "generation")):
        row = ledger.lines[baseline].manifests.get(generation)
        hashes = {entry["hash"] for entry in reads}
        if row is None or hashes != {told(row["manifest_hash"])}:
            yield f"generation {generation} of {baseline} was read with {sorted(hashes)}"
    for (baseline, generation), reads in history.grouped("records", "ok", by=("baseline", "generation")):
        line = ledger.lines[baseline]
        for entry in reads:
            scopes = frozenset(entry["scopes"]) if entry["scopes"] is not None else None
            if entry["records"] != line.contents(generation, scopes=scopes):
                yield f"{entry.client} read generation {generation} of {baseline} otherwise than it is kept"
    for entry in history.of("record", "ok"):
        row = ledger.lines[entry["baseline"]].shown(entry["generation"]).get(entry["key"])
        if row is None or (str(row["revision"]), told(row["content_hash"])) != (entry["revision"], entry["hash"]):
            yield (
                f"{entry.client} read {entry['key']} of {entry['baseline']} at {entry['generation']} otherwise than it "
                "is kept"
            )


def nobody_sees_what_is_private(history: History, ledger: Ledger) -> Iterator[str]:
    """No answer to anybody but its agent holds what a branch keeps for itself, and nobody else may ask for it."""
    for entry in history.of("secret", "seen"):
        yield f"{entry.client} was shown a secret of {entry['owner']}: {entry['where']}"
    for entry in history.of("spy", "ok"):
        yield f"{entry.client} was let into a branch of {entry['owner']}: {entry['where']}"
    for line in ledger.lines.values():
        if any(SECRET.search(bytes(row["body"])) for row in line.of("contents")):
            yield f"{line.name}: a secret is among what may be published"


def no_scope_is_seen_without_its_grant(history: History, ledger: Ledger) -> Iterator[str]:
    """Whoever reads some scopes only is never told of a key in another."""
    for entry in history.entries:
        if entry.about.get("partial") and entry.what == "event" and entry["key"] is not None:
            scopes = {
                r["scope"] for r in ledger.lines[entry["baseline"]].of("record_versions") if r["key"] == entry["key"]
            }
            if scopes and scopes.isdisjoint(entry["partial"]):
                yield f"{entry.client} was told of {entry['key']}, which is in {sorted(scopes)}"


def own_writes_are_read(history: History, ledger: Ledger) -> Iterator[str]:
    """An agent whose overlay has one writer reads what it wrote last, or what an attempt without an answer has written.

    Each write names the revision that it is written over. One without an answer may take effect at any time, but only
    over that revision. One that was refused for its condition may have met its own double, so it is such a one, too.
    """
    kept = {
        (row["branch_id"], row["key"]): row["revision"]
        for line in ledger.lines.values()
        for row in line.of("private_records")
    }
    places: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in history.entries:
        if entry.what in ("put_private", "get_private") and entry.phase != "begun":
            places[entry["branch"], entry["key"]].append(entry)
    for (branch, key), entries in places.items():
        overlay = _Overlay()
        for entry in entries:
            if wrong := overlay.take(entry):
                yield f"{key} of {branch}: {wrong}"
        revision = kept.get((branch, key), 0)
        if not overlay.may_be(revision):
            yield f"{key} of {branch} is at revision {revision}, and {overlay.sure} was acknowledged"


class _Overlay:
    """What one key of an overlay may hold.

    Attributes:
        sure: Revision and value that it has, or has had: what was acknowledged or read last.
    """

    def __init__(self) -> None:
        self.sure: tuple[int, Any] = (0, None)
        self._perhaps: defaultdict[int, set[Any]] = defaultdict(set)

    def may_be(self, revision: int) -> bool:
        return revision == self.sure[0] or (revision > self.sure[0] and bool(self._perhaps[revision]))

    def take(self, entry: Entry) -> str:
        """Take over an entry; why it cannot be, if it cannot."""
        written = entry.what == "put_private"
        if written and entry.phase == "ok":
            self.sure = (entry["revision"], entry["value"])
        elif written and (entry.phase == "unknown" or entry["status"] == PRECONDITION):
            self._perhaps[entry["over"] + 1].add(entry["value"])
        elif entry.phase == "ok":
            before, self.sure = self.sure, (entry["revision"], entry["value"])
            revision, value = self.sure
            if self.sure != before and (revision <= before[0] or value not in self._perhaps[revision]):
                return f"{entry.client} read {self.sure}, and had {before} at least"
        elif entry.phase == "refused" and entry["status"] == ABSENT and self.sure[0]:
            return f"{entry.client} found nothing, and had {self.sure}"
        return ""


def nothing_breaks_inside(history: History, _ledger: Ledger) -> Iterator[str]:
    """Whatever is away, an answer is what the contract knows: 500 is a defect, and a login is not lost by an outage."""
    for entry in history.entries:
        if entry.phase == "refused" and entry["status"] in (500, 401):
            yield f"{entry.client}'s {entry.what} was answered {entry['status']} {entry['code']}: {entry['detail']}"


def everything_comes_to_rest(_history: History, ledger: Ledger) -> Iterator[str]:
    """Once nothing is in the way any more, whatever waited goes on by itself, and nothing is left."""
    yield from ledger.leftover
