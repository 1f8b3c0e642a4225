"""What the guides show works as it stands there."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.store.chatting import told
from tests.store.world import AGENTS, TEAM

from anabranch.client.worker import worker as workers
from anabranch.model.objects import Publication, Receipt

GUIDES = Path(__file__).parents[2] / "docs/guides"
CODE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [code for kind, code in CODE.findall((GUIDES / page).read_text()) if kind == language]


@pytest.fixture
async def handbook(place, monkeypatch):
    """The Baseline that the guides speak of, in a folder with a build's log."""
    await place.served.world.import_documents({"setup": "Install 3.11."}, name="handbook", review={"mode": "Automatic"})
    (place.folder / "build.log").write_text("Linking.\nKilled: exit 137, out of memory.\n")
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("ANABRANCH_URL", place.served.url)
    monkeypatch.setenv("ANABRANCH_TOKEN", "ada")
    monkeypatch.delenv("ANABRANCH_TOKEN_FILE", raising=False)
    return place


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="the guide's commands need curl and jq")
async def test_an_agent_by_plain_http_goes_through_its_whole_run(handbook):
    first, *others = (code for code in blocks("http.md", "sh") if "kubectl" not in code)
    api = f"API={handbook.served.url}/v1/namespaces/{AGENTS}\nTOKEN=ada\n"
    begun = re.sub(r"^(API|TOKEN)=.*\n", "", first, flags=re.MULTILINE)
    script = "set -euo pipefail\n" + api + begun + "\n".join(others).replace("wait=20", "wait=0")
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    client = await handbook.served.client()
    branch = await client.branch(AGENTS, "why-exit-137")
    assert branch.phase == "Completed"
    assert (await client.latest_checkpoint(AGENTS, branch.branch_id)).checkpoint_id == "step-1"
    await handbook.served.world.work()
    assert isinstance(await client.batch(AGENTS, branch.branch_id, 1), Publication)
    found = await client.record(TEAM, "handbook", "runbooks/exit-137")
    assert found.content == {"cause": "The pool ends jobs at 8 GiB."}


async def test_an_agent_in_python_goes_through_its_whole_run(handbook):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        blocks("python.md", "python")[0],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert (process.returncode, said.decode()) == (0, "base Install 3.11.\n")
    client = await handbook.served.client()
    branch = await client.branch(AGENTS, "why-exit-137")
    assert branch.phase == "Completed"
    assert isinstance(await client.batch(AGENTS, branch.branch_id, 1), Receipt)
    assert (await client.get_private(AGENTS, branch.branch_id, "notes/1")).content == {"tried": "more memory"}


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="the guide's commands need curl and jq")
async def test_a_runtime_author_follows_the_page_on_memory(handbook):
    await told(handbook.served, said="Use the 16 GiB pool until Friday.")
    api = f"API={handbook.served.url}/v1/namespaces/{AGENTS}\nTOKEN=ada\n"
    script = "\n".join(
        re.sub(r"^(API|TOKEN)=.*\n", "", block, flags=re.MULTILINE)
        for block in blocks("memory.md", "sh")
        if "kubectl" not in block
    )
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f"set -euo pipefail\n{api}{script}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    assert "event: dev.anabranch.agent.exchange.direct" not in said, "the one that waited was acknowledged"
    shown = json.loads(re.search(r"^\{\n  \"type\".*?^\}", said, re.MULTILINE | re.DOTALL)[0])
    (printed,) = blocks("memory.md", "json")
    told_there = json.loads(printed)
    assert shown.keys() == told_there.keys()
    assert shown["digest"].keys() == told_there["digest"].keys()
    assert shown["digest"]["entries"][0].keys() == told_there["digest"]["entries"][0].keys()

    as_context, in_python = blocks("memory.md", "python")
    names = {}
    exec(as_context, names)
    context = names["as_context"](json.loads((handbook.folder / "claimed.json").read_text())["events"][0])
    assert "in Build chat with bob/default: 'Use the 16 GiB pool until Friday.'" in context
    assert names["as_context"]({"data": {"memoryDigest": {"entries": [], "omitted": 0}}}) == ""

    client = await handbook.served.client()
    seen = (await client.system_exchanges(AGENTS, "ada")).entries
    assert [entry.seen for entry in seen] == [False, True], "the latter was acknowledged, the former posted by the page"
    code = compile(in_python, "memory.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = asyncio.ensure_future(eval(code, names))
    async with asyncio.timeout(60):
        while [one.status async for one in client.queued_events(AGENTS, "ada")] != ["acked"] * 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("page", ["python.md", "langgraph.md"])
def test_every_call_that_a_guide_shows_exists(page):
    known = {name for name, _ in inspect.getmembers(workers.Worker)}
    shown = {
        node.attr
        for code in blocks(page, "python")
        for node in ast.walk(compile(code, page, "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "worker"
    }
    assert shown - {"call", "asynchronous"} <= known
