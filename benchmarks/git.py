"""How long a publication of a hundred changes in a million records takes, next to a commit of the same by libgit2.

Both name the whole content by a hash and keep the history. Git's million entries stand in one flat tree, or in
directories by the first two and the next two digits of the name's hash, as git's own notes and objects do; a commit
then rewrites the directories on the changed paths. Git writes a blob for each content, the trees, a commit and a ref,
with fsync on as Postgres has it; how much of that fsync takes is told too. Ours also writes provenance, and an event
for each change. Git's million old contents are not stored at all, only named by the trees, which a commit does not
notice.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import pygit2
from pygit2.enums import FileMode, ObjectType, Option

from benchmarks import publishing, stage
from benchmarks.measure import Comparison, Row, interleaved

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME = "git"
RECORDS, QUICK = 1_000_000, 5_000
CHANGES = publishing.CHANGES
FLAT, FANNED = 10.0, 1.0
REF = "refs/heads/main"
WHO = pygit2.Signature("benchmark", "benchmark@example.org", 0, 0)


async def run(place: stage.Stage, *, quick: bool) -> list[Row]:
    """Commit and publish in turn."""
    line = await place.line(QUICK if quick else RECORDS)
    names = [stage.key(number).replace("/", "_") for number in range(line.records)]
    flat, fanned = Flat(place.folder / "flat.git", names), Fanned(place.folder / "fanned.git", names)
    rounds = 1 if quick else 3
    pygit2.option(Option.ENABLE_FSYNC_GITDIR, True)
    at_flat = await interleaved(lambda: ours(line), lambda: theirs(flat, line, times=1), rounds=rounds)
    at_fanned = await interleaved(lambda: ours(line), lambda: theirs(fanned, line, times=10), rounds=rounds)
    pygit2.option(Option.ENABLE_FSYNC_GITDIR, False)
    lazy = await interleaved(lambda: ours(line), lambda: theirs(fanned, line, times=10), rounds=rounds)
    return [
        row(line, name="flat", shape="flat tree", found=at_flat, bar=FLAT),
        row(
            line,
            name="fanned",
            shape="two-level fan-out",
            found=at_fanned,
            bar=FANNED,
            ratio_without_fsync=1 / lazy.ratio,
        ),
    ]


def row(line: stage.Line, *, name: str, shape: str, found: Comparison, bar: float, **more: float) -> Row:
    """A row of one of git's shapes: how many times longer git takes."""
    least, most = found.spread
    return Row(
        name=f"{NAME}-{name}",
        work=f"publish {CHANGES} changes in {line.records:,} records",
        peer=f"git by pygit2, {shape}",
        bar=f"≥ {bar:.0f}x as fast",
        ratio=1 / found.ratio,
        spread=(1 / most, 1 / least),
        reached=1 / found.ratio >= bar,
        figures={"ms": statistics.median(found.ours), "peer_ms": statistics.median(found.peer), **more},
    )


async def ours(line: stage.Line) -> float:
    return await publishing.timed(line)


async def theirs(repository: Repository, line: stage.Line, *, times: int) -> float:
    """The median of some commits, in ms."""
    taken = []
    for _ in range(times):
        changes = [
            (repository.names[number], stage.content(line.chance))
            for number in line.chance.sample(range(line.records), CHANGES)
        ]
        began = time.perf_counter()
        repository.commit(changes)
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


class Repository:
    """A bare repository of many records."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.names = names
        self.git = pygit2.init_repository(str(path), bare=True)
        pygit2.option(Option.ENABLE_STRICT_OBJECT_CREATION, False)
        self._record(self.build(names), [])

    def commit(self, changes: list[tuple[str, bytes]]) -> None:
        """Commit new contents of some records."""
        parent = self.git[self.git.references[REF].target]
        blobs = {name: self.git.create_blob(body) for name, body in changes}
        self._record(self.change(parent.tree, blobs), [parent.id])

    def build(self, names: list[str]) -> pygit2.Oid:
        """The tree of all records."""
        raise NotImplementedError

    def change(self, tree: pygit2.Tree, blobs: dict[str, pygit2.Oid]) -> pygit2.Oid:
        """The tree with other blobs at some names."""
        raise NotImplementedError

    def _record(self, tree: pygit2.Oid, parents: list[pygit2.Oid]) -> None:
        self.git.create_commit(REF, WHO, WHO, "publication", tree, parents)

    def _write(self, entries: Iterable[tuple[bytes, bytes, bytes]]) -> bytes:
        """A tree of (mode, name, id)."""
        body = b"".join(b"%b %b\0%b" % entry for entry in sorted(entries, key=lambda entry: entry[1]))
        raw: bytes = self.git.write(ObjectType.TREE, body).raw
        return raw

    def _leaf(self, names: Iterable[str]) -> bytes:
        return self._write((b"100644", name.encode(), hashlib.sha1(name.encode()).digest()) for name in names)

    def _replaced(self, tree: pygit2.Tree, entries: dict[str, pygit2.Oid], mode: FileMode) -> pygit2.Oid:
        builder = self.git.TreeBuilder(tree)
        for name, oid in entries.items():
            builder.insert(name, oid, mode)
        return builder.write()


class Flat(Repository):
    """All records in one tree."""

    def build(self, names: list[str]) -> pygit2.Oid:
        return pygit2.Oid(raw=self._leaf(names))

    def change(self, tree: pygit2.Tree, blobs: dict[str, pygit2.Oid]) -> pygit2.Oid:
        return self._replaced(tree, blobs, FileMode.BLOB)


class Fanned(Repository):
    """Records in 65,536 directories on two levels."""

    def build(self, names: list[str]) -> pygit2.Oid:
        places: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for name in names:
            outer, inner = self._place(name)
            places[outer][inner].append(name)
        tops = []
        for outer, within in places.items():
            leaves = [(b"40000", inner.encode(), self._leaf(some)) for inner, some in within.items()]
            tops.append((b"40000", outer.encode(), self._write(leaves)))
        return pygit2.Oid(raw=self._write(tops))

    def change(self, tree: pygit2.Tree, blobs: dict[str, pygit2.Oid]) -> pygit2.Oid:
        places: dict[str, dict[str, dict[str, pygit2.Oid]]] = defaultdict(lambda: defaultdict(dict))
        for name, oid in blobs.items():
            outer, inner = self._place(name)
            places[outer][inner][name] = oid
        tops = {}
        for outer, within in places.items():
            old = tree[outer]
            leaves = {inner: self._replaced(old[inner], some, FileMode.BLOB) for inner, some in within.items()}
            tops[outer] = self._replaced(old, leaves, FileMode.TREE)
        return self._replaced(tree, tops, FileMode.TREE)

    @staticmethod
    def _place(name: str) -> tuple[str, str]:
        digits = hashlib.sha1(name.encode()).hexdigest()
        return digits[:2], digits[2:4]
