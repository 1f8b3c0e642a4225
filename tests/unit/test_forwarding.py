"""The API's port, forwarded by kubectl: found, begun again, ended, and refused in words that lead on."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from anabranch.cli import forwarding
from anabranch.cli.connection import Connection
from anabranch.cli.forwarding import reached
from anabranch.cli.kubectl import Kubectl
from anabranch.model.errors import InvalidInputError

PROGRAM = """#!{python}
import json, os, pathlib, sys, time
folder = pathlib.Path(__file__).parent
said = json.loads((folder / "says.json").read_text())
asked = " ".join(sys.argv[1:])
with (folder / "asked").open("a") as log:
    log.write(asked + "\\n")
if "port-forward" in asked:
    with (folder / "pids").open("a") as pids:
        pids.write(f"{{os.getpid()}}\\n")
    if "forward" in said:
        sys.exit(said["forward"])
    port = sys.argv[sys.argv.index("port-forward") + 2].partition(":")[0] or "4711"
    print(f"Forwarding from 127.0.0.1:{{port}} -> 8443", flush=True)
    time.sleep(60)
for words, answer in said.items():
    if words in asked:
        print(answer)
        sys.exit(0)
sys.exit(said.get("else", "Error from server (NotFound): there is none"))
"""


@pytest.fixture
def kubectl(tmp_path):
    """A kubectl that says what a test wants: `says(words of a command, answer)`."""
    program = tmp_path / "kubectl"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)

    def says(**answers):
        (tmp_path / "says.json").write_text(json.dumps(answers))
        return Connection(kubectl=Kubectl("team", path=str(program)), audience="anabranch.memory-system")

    says.asked = lambda: (tmp_path / "asked").read_text().splitlines()
    says.pids = lambda: [int(line) for line in (tmp_path / "pids").read_text().split()]
    return says


def service(protocol="https"):
    return json.dumps({"spec": {"ports": [{"name": "api", "port": 443, "appProtocol": protocol}]}})


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_address_that_is_given_is_taken_and_kubectl_is_not_asked(tmp_path):
    given = Connection(kubectl=Kubectl(path=str(tmp_path / "none")), url="https://api")
    with reached(given) as near:
        assert near is given


def test_the_service_of_the_audiences_installation_is_forwarded_and_ends_with_the_command(kubectl):
    with reached(kubectl(service=service(), configmap="the authority")) as near:
        assert near.url == "https://localhost:4711"
        assert near.authority == "the authority\n"
        assert alive(kubectl.pids()[0])
    assert not alive(kubectl.pids()[0])
    assert "get service anabranch-api" in kubectl.asked()[0]
    assert "--namespace memory-system" in kubectl.asked()[0]
    assert any("port-forward service/anabranch-api :443 --namespace=memory-system" in line for line in kubectl.asked())


def test_a_forwarded_port_is_forwarded_again_under_the_same_number(kubectl, monkeypatch):
    monkeypatch.setattr(forwarding, "PAUSE", 0.01)
    with reached(kubectl(service=service())) as near:
        os.kill(kubectl.pids()[0], 9)
        deadline = time.monotonic() + 60
        while len(kubectl.pids()) < 2:
            assert time.monotonic() < deadline, kubectl.asked()
            time.sleep(0.02)
        assert near.url == "https://localhost:4711"
    assert "4711:443" in kubectl.asked()[-1]
    assert not any(map(alive, kubectl.pids()))


def test_without_tls_nobody_is_trusted_with_a_token_after_kubectl_has_ended(kubectl, monkeypatch):
    """Whoever takes the port then would be shown the person's token."""
    monkeypatch.setattr(forwarding, "PAUSE", 0.01)
    with reached(kubectl(service=service("http"))) as near:
        assert (near.url, near.authority) == ("http://localhost:4711", None)
        os.kill(kubectl.pids()[0], 9)
        time.sleep(0.3)
        assert len(kubectl.pids()) == 1


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"else": "Error from server (Forbidden): you cannot get services"}, "you cannot get services"),
        ({"service": service(), "forward": "error: unable to forward port"}, "unable to forward port"),
    ],
)
def test_whoever_cannot_reach_it_is_told_why_and_what_to_give(kubectl, answers, words):
    with pytest.raises(InvalidInputError) as refused, reached(kubectl(**answers)):
        pass
    assert words in refused.value.detail
    assert "Give --url" in refused.value.hint
