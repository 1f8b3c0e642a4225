"""The tour can be typed, line by line, and shows what it says that it shows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
NAMESPACE = "tour"
PARTS = PAGE.split("\n## ")[1:7]
"""Those with something to type."""


def commands(part):
    """What is to be typed: blocks of `console` are for looking on, or bring about what a test has already."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL))


@pytest.fixture
def type_in(stack, tmp_path):
    """Types commands in a checkout, in a shell with what `make dev` says to export; gives what they say."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{stack.cluster.kubectl_path.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(stack.cluster.kubeconfig),
        "ANABRANCH_URL": stack.api_url,
        "ANABRANCH_AUDIENCE": stack.audience,
        "ANABRANCH_API_DSN": stack.api_dsn,
    }

    async def type_in(text, *, codes=(0,)):
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"set -euo pipefail\n{text}"),
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), 120)
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode in codes, said.decode()
        return said.decode()

    yield type_in
    stack.cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")


async def test_every_command_of_the_tour_does_what_the_page_says(type_in):
    doctor = await type_in(commands(PARTS[0]), codes=(0, 1))
    told = set(re.findall(r"^(?:problem|unknown) +(.*?)  ", doctor, re.MULTILINE))
    assert told <= {"baselines", "branches", "jobs"}, "but those of other tests, which the page's reader has not"
    memory, agent, reviewer, again, back = [await type_in(commands(part)) for part in PARTS[1:]]
    assert "Ready: True (Current). Readers see generation 1." in memory
    assert re.search(r"^monday +handbook +1 +build-agent +Completed", agent, re.MULTILINE), agent
    assert "AwaitingReview" in reviewer
    assert re.search(r"builds/failures/error-ld-was-killed-exit-137 +revision 2", reviewer), reviewer
    assert "known: builds/failures/error-ld-was-killed-exit-137" in again
    assert "layer: private" in again
    assert re.search(r"^tour +tuesday-\S+ +tuesday .*awaiting_review", again, re.MULTILINE), again
    assert "  pin:\n    generation: 1\n" in back
    assert re.search(r"^handbook +1 +2 ", back, re.MULTILINE), back


def test_the_function_that_asks_a_model_gives_what_the_agent_needs(monkeypatch):
    asked = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = json.dumps({"signature": "exit 137", "cause": "Too little memory."})
            body = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MODEL_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("MODEL", "small")
        monkeypatch.setenv("MODEL_KEY", "none")
        names = {}
        (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        exec(code, names)
        try:
            assert names["diagnose"]("ld: killed") == ("exit 137", "Too little memory.")
        finally:
            server.shutdown()
    (request,) = asked
    assert request["model"] == "small"
    assert request["messages"][-1] == {"role": "user", "content": "ld: killed"}
