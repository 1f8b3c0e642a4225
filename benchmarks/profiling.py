"""What each part of a row costs: samples of every Python process of its run, and Postgres' own account of statements.

py-spy looks at the benchmark's process and at all that it starts (API, operator, load) a hundred times a second, from
outside; `pg_stat_statements` counts and times each statement. Both cost something, so a profiled run judges nothing,
and its figures are kept nowhere: only the shares are.

The whole profiles stay below `artifacts/bench/profiles`, as collapsed stacks that any flame graph tool draws.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from benchmarks.measure import FOLDER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

PROFILES: Final = FOLDER / "profiles"
SETTINGS: Final = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}
"""Of the server, for a profiled run."""

PARTS: Final = 8
"""Told of each process; the rest is one part."""

RATE: Final = 100
LEAST: Final = 0.05
"""Processes with a lesser share of all samples are not told."""

OURS: Final = ("anabranch/", "benchmarks/")

_ROOT = re.compile(r'process \d+:"[^"]*"')
_IDLE = re.compile(r"_worker \(concurrent/futures/thread\.py:\d+\)$")
_IMPORTS = "(<frozen importlib"
_PREPARES = r"^\s*(ALTER|ANALYZE|CHECKPOINT|COMMENT|CREATE|DO|DROP|GRANT|RESET|REVOKE|SET|SHOW|VACUUM)\M"
"""Statements that make what is measured on, and do not belong to it."""

_FRAME = re.compile(r"^(?P<name>.*) \((?P<file>[^()]*?)(?::\d+)?\)$")
_NAMES = {
    "anabranch.cli.main api": "API",
    "anabranch.cli.main operator": "operator",
    "kopf": "stock operator",
    "benchmarks.load": "load",
    "benchmarks.listeners": "listeners",
    "benchmarks.bare": "bare route",
}


@contextlib.asynccontextmanager
async def profiled(name: str, dsn: str) -> AsyncIterator[list[dict[str, Any]]]:
    """Profile what runs meanwhile; when the block has ended, its costs are in the list.

    Args:
        name: Of the row; names its files.
        dsn: Of a server that was started with `SETTINGS`.
    """
    costs: list[dict[str, Any]] = []
    PROFILES.mkdir(parents=True, exist_ok=True)
    stacks = PROFILES / f"{name}.stacks"
    await _reset(dsn)
    spying = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("py-spy")), "record", "--subprocesses", "--pid", str(os.getpid()),
        "--format", "raw", "--rate", str(RATE), "--output", str(stacks), "--nonblocking",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield costs
    finally:
        if spying.returncode is None:
            spying.send_signal(signal.SIGINT)
        _, err = await spying.communicate()
    if not stacks.exists():
        raise RuntimeError(f"py-spy took no samples: {err.decode(errors='replace')[-1_000:]}")
    costs += [*processes(stacks.read_text().splitlines()), *await _statements(dsn)]


def save(name: str, costs: list[dict[str, Any]]) -> None:
    """Write the costs of a row beside its stacks."""
    (PROFILES / f"{name}.json").write_text(json.dumps(costs, indent=1, ensure_ascii=False) + "\n")


def processes(stacks: Iterable[str]) -> list[dict[str, Any]]:
    """What each process spent its working time on.

    Args:
        stacks: Collapsed ones: ``process 1:"…";process 2:"…";frame;frame count``, a child after its parent. Those of
            modules that are being imported are left out (it was starting), and those of threads that wait for work.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for line in stacks:
        frames, _, count = line.rpartition(" ")
        if _IMPORTS in frames or _IDLE.search(frames):
            continue
        *_, root = _ROOT.finditer(frames)
        found[_process(root[0])][_part(frames[root.end() + 1 :].split(";"))] += int(count)
    total = sum(each.total() for each in found.values())
    told = []
    for process, parts in sorted(found.items(), key=lambda one: -one[1].total()):
        if parts.total() >= LEAST * total:
            told += [
                {"process": process, "part": part, "share": round(count / parts.total(), 4)}
                for part, count in _most(parts)
            ]
    return told


def _process(root: str) -> str:
    """What a process is, by its command line."""
    return next((name for word, name in _NAMES.items() if word in root), "benchmark")


def _part(stack: list[str]) -> str:
    """Which module of ours worked, or had a library work for it: both names."""
    leaf = ""
    for frame in reversed(stack):
        file = found["file"] if (found := _FRAME.match(frame)) else frame
        module = _module(file)
        leaf = leaf or module
        if any(ours in file for ours in OURS):
            return module if leaf == module else f"{module} > {leaf.partition('.')[0]}"
    return leaf.partition(".")[0] or "?"


def _module(file: str) -> str:
    """A file's module: of ours the whole name, of a library its first parts."""
    path = re.sub(r"^.*/(?:site-packages|operator|lib/python[\d.]+)/", "", file)
    path = re.sub(r"^.*?/(?=benchmarks/)", "", path)
    return path.removesuffix(".py").removesuffix("/__init__").strip("<>").replace("/", ".") or "?"


def _most(parts: Counter[str]) -> Iterator[tuple[str, int]]:
    most = parts.most_common(PARTS)
    yield from most
    if rest := parts.total() - sum(count for _, count in most):
        yield "the rest", rest


async def _reset(dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await conn.execute("SELECT pg_stat_statements_reset()")
    finally:
        await conn.close()


async def _statements(dsn: str) -> list[dict[str, Any]]:
    """The statements that took the most time, of all databases of the server."""
    conn = await asyncpg.connect(dsn)
    try:
        rows = await conn.fetch(
            "SELECT query, sum(calls)::bigint AS calls, sum(total_exec_time) AS ms,"
            " sum(total_exec_time) / sum(sum(total_exec_time)) OVER () AS share"
            " FROM pg_stat_statements WHERE query !~* $2 GROUP BY query ORDER BY ms DESC LIMIT $1",
            PARTS,
            _PREPARES,
        )
    finally:
        await conn.close()
    return [
        {
            "process": "Postgres",
            "part": statement(row["query"]),
            "share": round(row["share"], 4),
            "ms_a_call": float(f"{row['ms'] / row['calls']:.3g}"),
            "calls": row["calls"],
        }
        for row in rows
    ]


def statement(query: str) -> str:
    """A statement in a line: without comments, its beginning."""
    text = " ".join(re.sub(r"--[^\n]*|/\*.*?\*/", " ", query, flags=re.DOTALL).split()).replace("`", "'")
    return text if len(text) <= 100 else f"{text[:99]}…"
