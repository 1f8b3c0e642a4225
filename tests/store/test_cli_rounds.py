"""``anabranch job review`` at a real terminal: a pseudo-terminal, the command in a process of its own, the real API."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import struct
import sys
import termios
from fcntl import ioctl

import pytest
from tests.store.served import serving
from tests.store.world import TEAM

SENTENCE = "The flaky build fails with exit code {} because the linker runs out of memory; use thin linking."
COLUMNS = 80


@pytest.fixture
async def place(db, database):
    async with serving(db, database.api) as served:
        await served.world.import_documents({"a": "Warm the cache, then build."})
        yield served


async def handed_in(place, *changes):
    branch = await place.world.apply_branch("run")
    await place.world.submit(branch, 1, *changes)
    await place.world.work()
    (job,) = await place.world.jobs()
    return job


class Terminal:
    """A command that believes to be at a terminal, and what it has written there."""

    def __init__(self, place, job, *options, person="rosa", **environment):
        self._inner, outer = pty.openpty()
        ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        self._command = [sys.executable, "-m", "anabranch.cli.main", "job", "review", job.name, "--http", *options]
        self._command += ["--url", place.url, "--token", person, "--namespace", TEAM]
        self._outer = outer
        self._environment = {**os.environ, "TERM": "xterm-256color", **environment}
        self._read = 0
        self.text = ""

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stdin=self._outer, stdout=self._outer, stderr=self._outer, env=self._environment
        )
        os.close(self._outer)
        os.set_blocking(self._inner, False)
        asyncio.get_running_loop().add_reader(self._inner, self._take)
        return self

    async def __aexit__(self, *_):
        asyncio.get_running_loop().remove_reader(self._inner)
        os.close(self._inner)
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    def _take(self):
        try:
            self.text += os.read(self._inner, 65_536).decode(errors="replace")
        except OSError:  # the command has ended
            asyncio.get_running_loop().remove_reader(self._inner)

    async def press(self, key):
        """Press a key once it waits for one: what is typed before that was typed unseen, and is dropped."""
        async with asyncio.timeout(60):
            while termios.tcgetattr(self._inner)[3] & termios.ICANON:  # noqa: ASYNC110  (a terminal tells nobody)
                await asyncio.sleep(0.02)
        os.write(self._inner, key.encode())

    def enter(self, text=""):
        os.write(self._inner, f"{text}\r".encode())

    async def until(self, words):
        """Wait until it has written these words since the last time, and give what it wrote up to them."""
        async with asyncio.timeout(60):
            while (at := plain(self.text).find(words, self._read)) < 0:  # noqa: ASYNC110  (written by a callback)
                await asyncio.sleep(0.02)
        self._read, began = at + len(words), self._read
        return plain(self.text)[began : self._read]

    async def ended(self):
        async with asyncio.timeout(60):
            return await self.process.wait()


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r\n", "\n")


async def test_one_after_the_other_is_shown_and_a_key_decides(place):
    conflict = {"key": "a", "content": "Warm the cache slowly, then build.", "base": 0}
    job = await handed_in(place, conflict, {"key": "new", "content": "Use thin linking."})

    async with Terminal(place, job) as terminal:
        shown = await terminal.until("q quit")
        assert "1 of 2" in shown
        assert "- Warm the cache, then build." in shown
        assert "+ Warm the cache slowly, then build." in shown
        assert "CONFLICT: run of agents proposes another content, scope shared" in shown
        assert "✓ evidence:sha256:" in shown
        assert max(map(len, shown.splitlines())) <= COLUMNS
        await terminal.press("d")
        assert "a log" in await terminal.until("q quit")  # what the evidence says
        await terminal.press("r")
        await terminal.until("The agent reads it:")
        terminal.enter()
        await terminal.until("A rejection needs a reason. Nothing was decided.")
        await terminal.press("r")
        await terminal.until("reads it:")
        terminal.enter("It is slower.")
        await terminal.until("Rejected. It stands under your name.")
        assert "proposes a new record" in await terminal.until("q quit")
        await terminal.press("a")
        await terminal.until("Enter for none):")
        terminal.enter()
        await terminal.until("1 accepted, 1 rejected in")
        assert await terminal.ended() == 0
    await place.world.work()

    assert await place.world.outcomes() == {"a": [("rejected", "RejectedByReview")], "new": [("published", "")]}


async def test_a_group_is_decided_once_and_what_another_reviewer_said_is_shown(place):
    flood = [{"key": f"junk/{n}", "content": SENTENCE.format(100 + n)} for n in range(4)]
    job = await handed_in(place, *flood, {"key": "new", "content": "Deploy at noon."})
    await place.world.decide(job.job_id, by="ada", action="reject", keys=["new"])

    async with Terminal(place, job, NO_COLOR="1") as terminal:
        shown = await terminal.until("q quit")
        assert "One of 4 near-identical candidates of this run" in shown
        assert "reject all 4" in shown
        assert not re.search(r"\x1b\[(3[0-7]|9[0-7])", terminal.text)  # no colour
        await terminal.press("r")
        await terminal.until("reads it:")
        terminal.enter("The run was broken.")
        await terminal.until("Rejected all 4.")
        assert "ada rejected this: so it is" in await terminal.until("q quit")
        await terminal.press("q")
        await terminal.until("4 rejected in")
        assert await terminal.ended() == 0
    await place.world.work()

    rows = await place.world.candidates(job)
    assert {row.detail for row in rows if row.key.startswith("junk/")} == {
        "system:serviceaccount:agents:rosa: The run was broken."
    }


async def test_who_decides_after_somebody_else_did_is_told_and_sees_it_again(place):
    job = await handed_in(place, {"key": "new", "content": "Deploy at noon."}, {"key": "other", "content": 1})

    async with Terminal(place, job) as terminal:
        await terminal.until("q quit")
        await place.world.decide(job.job_id, by="ada", keys=["new"])
        await terminal.press("a")
        await terminal.until("Enter for none):")
        terminal.enter()
        await terminal.until("Not decided. ada accepted it while you were reading.")
        assert "ada accepted this" in await terminal.until("q quit")
        await terminal.press("s")
        await terminal.until("2 of 2")
        await terminal.press("\x04")
        await terminal.until("1 skipped in")
        assert await terminal.ended() == 0


async def test_who_may_not_decide_on_their_own_finding_is_told_and_goes_on(place):
    job = await handed_in(place, {"key": "new", "content": "Deploy at noon."}, {"key": "other", "content": 1})

    async with Terminal(place, job, person="run") as terminal:
        await terminal.until("q quit")
        await terminal.press("a")
        await terminal.until("Enter for none):")
        terminal.enter()
        await terminal.until("Not decided. You wrote the candidate")
        await terminal.until("2 of 2")
        await terminal.press("q")
        await terminal.until("1 skipped in")
        assert await terminal.ended() == 0


async def test_what_the_recall_gate_holds_is_accepted_for_a_new_reason_alone(place):
    job = await handed_in(place, {"key": "new", "content": "Deploy at noon."})
    await place.world.decide(job.job_id, by="ada", keys=["new"])  # "so it is"
    async with place.world.db.connection() as conn:
        await conn.execute("UPDATE candidates SET reason = 'RecallRegressed' WHERE job_id = $1", job.job_id)

    async with Terminal(place, job) as terminal:
        await terminal.until("q quit")
        await terminal.press("a")
        await terminal.until("all the same?:")
        terminal.enter()
        await terminal.until("What costs answers needs a reason. Nothing was decided.")
        await terminal.press("a")
        await terminal.until("all the same?:")
        terminal.enter("so it is")
        await terminal.until("Not decided.")
        await terminal.until("q quit")
        await terminal.press("a")
        await terminal.until("all the same?:")
        terminal.enter("The questions are of last year.")
        await terminal.until("1 accepted in")
        assert await terminal.ended() == 0


async def test_without_a_terminal_or_with_list_it_shows_what_waits_and_asks_nothing(place):
    job = await handed_in(place, {"key": "new", "content": "Deploy at noon."})

    async with Terminal(place, job, "--list") as terminal:
        await terminal.until("+ Deploy at noon.")
        assert await terminal.ended() == 0
    command = [sys.executable, "-m", "anabranch.cli.main", "job", "review", job.name, "--http", "--url", place.url]
    process = await asyncio.create_subprocess_exec(
        *command, "--token", "rosa", "--namespace", TEAM, stdin=asyncio.subprocess.DEVNULL, stdout=-1
    )
    out, _ = await process.communicate()
    assert (process.returncode, "+ Deploy at noon." in out.decode(), b"\x1b" in out) == (0, True, False)
