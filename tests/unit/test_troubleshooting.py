"""The troubleshooting page and `anabranch doctor` hold together: what it lists is seen, or it says why not."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from pathlib import Path

import httpx
import pytest
from tests.unit.doctored import Cluster, look, pod, resource

from anabranch import manifests
from anabranch.cli import doctor, examination
from anabranch.cli.connection import Connection
from anabranch.identity.tokens import objection
from anabranch.model.errors import UnauthenticatedError
from anabranch.store import durability, migrate
from anabranch.store.database import Database

PAGE = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?!---|what you see)(.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
SAYS = re.compile(r"^`([^`]+)`: (.+)$")
TOLD = [match.groups() for _, says, _ in ROW.findall(PAGE) if (match := SAYS.match(says))]

URL = "http://127.0.0.1:1"


def broken(**attributes):
    """What the doctor finds in a cluster with something else than there should be."""

    def examine(_monkeypatch):
        cluster = Cluster()
        for name, value in attributes.items():
            setattr(cluster, name, value)
        return look(cluster)

    return examine


def without(kind, name):
    """What it finds where one thing is absent."""

    def examine(_monkeypatch):
        cluster = Cluster()
        getattr(cluster, kind).pop(name)
        return look(cluster)

    return examine


def of(kind, item):
    return broken(resources={"baselines": [], "branches": [], "consolidationjobs": [], kind: [item]})


def outdated(_monkeypatch):
    cluster = Cluster()
    (version, *_) = cluster.crds["baselines.anabranch.dev"]["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return look(cluster)


def shared_pin(_monkeypatch):
    cluster, baseline = Cluster(), resource("a")
    pin = {"f:spec": {"f:pin": {"f:generation": {}}}}
    baseline["metadata"]["managedFields"] = [{"manager": each, "fieldsV1": pin} for each in ("flux", "kubectl")]
    cluster.resources["baselines"] = [baseline]
    return look(cluster)


def answered(answer):
    """What it finds where the API answers so."""

    def examine(monkeypatch):
        def get(*_arguments, **_settings):
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(httpx, "get", get)
        return list(doctor._api(Connection(kubectl=None, url=URL)))

    return examine


def refused(monkeypatch):
    claims = base64.urlsafe_b64encode(json.dumps({"aud": "a", "exp": 1}).encode()).decode().rstrip("=")

    def call(*_):
        raise UnauthenticatedError(objection(f"h.{claims}.s", audience="a", now=2.0), hint="Mint one.")

    monkeypatch.setattr(doctor, "call", call)
    return list(doctor._token(Connection(kubectl=None, url=URL, token="t")))


def unmigrated(monkeypatch):
    class Empty:
        @contextlib.asynccontextmanager
        async def connection(self):
            yield None

        async def close(self):
            pass

    async def empty(*_arguments, **_settings):
        return Empty()

    async def none(_conn):
        return None

    monkeypatch.setattr(Database, "open", empty)
    monkeypatch.setattr(migrate, "current", none)
    return list(doctor._database("postgresql://x"))


def migrated(*, waiting, commit):
    """What it finds in a database whose commits are to wait for a standby."""

    def examine(monkeypatch):
        async def answer(value):
            return value

        promises = durability.Promises(commit=commit, standbys="second")
        monkeypatch.setattr(durability, "promises", lambda _conn: answer(promises))
        monkeypatch.setattr(durability, "waiting", lambda _conn, **_: answer(waiting))
        monkeypatch.setattr(migrate, "check", lambda _conn: answer(""))
        return unmigrated(monkeypatch)

    return examine


def elsewhere(_monkeypatch):
    return look(Cluster(), audience="elsewhere")


JOB = {
    "kind": "Job",
    "metadata": {"name": "anabranch-migrate-1"},
    "status": {"conditions": [{"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"}]},
}
LATE = {"holderIdentity": "one", "leaseDurationSeconds": 9, "renewTime": "2026-01-01T00:00:00.0Z"}
UNTRUSTED = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
AWAY = httpx.Response(503, json={"status": "unavailable", "checks": {"postgres": "away"}})

CASES = {
    ("pods", "waits for the schema"): broken(release=[pod(container="schema", phase="Pending", Ready="False")]),
    ("pods", "has failed"): broken(release=[JOB]),
    ("pods", "ImagePullBackOff"): broken(release=[pod(state={"waiting": {"reason": "ImagePullBackOff"}})]),
    ("pods", "has no node"): broken(release=[pod(phase="Pending", PodScheduled="False")]),
    ("pods", "is not ready"): broken(release=[pod(Ready="False")]),
    ("definitions", "is absent"): without("crds", "baselines.anabranch.dev"),
    ("definitions", "is of another release"): outdated,
    ("Kubernetes", "v1.30"): broken(version={"major": "1", "minor": "30", "gitVersion": "v1.30.2"}),
    ("accounts", "not found"): without("accounts", manifests.API_ACCOUNT),
    ("accounts", "here they are minted for"): elsewhere,
    ("database", "this program needs"): unmigrated,
    ("database", "wait for a synchronous standby"): migrated(waiting=3, commit="on"),
    ("database", "commits do not wait for"): migrated(waiting=0, commit="local"),
    ("API", "is of no authority that is trusted here"): answered(UNTRUSTED),
    ("API", "does not answer"): answered(httpx.ConnectError("refused")),
    ("API", "is no Anabranch API"): answered(httpx.Response(200, text="<html>")),
    ("API", "postgres: away"): answered(AWAY),
    ("token", "The token expired"): refused,
    ("operator", "no operator leads"): broken(lease={"holderIdentity": ""}),
    ("operator", "last renewed its lease"): broken(lease=LATE),
    ("baselines", "its newest spec was not seen yet"): of("baselines", resource("a", generation=3)),
    ("baselines", "ArchiveMissing, for"): of("baselines", resource("a", minutes=9, Reconciling="ArchiveMissing")),
    ("baselines", "StoreUnknown"): of("baselines", resource("a", Stalled="StoreUnknown")),
    ("baselines", "AdoptionRequired"): of("baselines", resource("a", Stalled="AdoptionRequired")),
    ("baselines", "its pin is owned by"): shared_pin,
    ("baselines", "is paused"): of("baselines", resource("a", ConsolidationPaused="Pinned")),
    ("baselines", "RecallTasksUnavailable"): of("baselines", resource("a", RecallTasksUnavailable="ConfigMapMissing")),
    ("baselines", "ProposalsUnavailable"): of("baselines", resource("a", ProposalsUnavailable="ModelUnknown")),
    ("baselines", "BackupFailed"): of("baselines", resource("a", BackedUp="BackupFailed")),
    ("review guard", "is absent"): without("policies", 0),
    ("branches", "BaselineUnavailable, for"): of(
        "branches", resource("b", minutes=9, Reconciling="BaselineUnavailable")
    ),
    ("branches", "GrantRevoked"): of("branches", resource("b", Stalled="GrantRevoked")),
    ("jobs", "await review"): of("consolidationjobs", resource("j", state="awaiting_review")),
    ("jobs", "GivenUp"): of("consolidationjobs", resource("j", Failed="GivenUp", Stalled="GivenUp")),
}


def test_every_entry_names_what_the_doctor_says_or_why_it_cannot_know():
    rows = ROW.findall(PAGE)
    assert len(rows) > 30
    assert all(SAYS.match(says) or re.match(r"not seen: .{15}", says) for _, says, _ in rows)
    assert sorted(TOLD) == sorted(CASES)


@pytest.mark.parametrize(("check", "words"), TOLD)
def test_the_doctor_says_what_the_page_says_that_it_says(check, words, monkeypatch):
    found = CASES[check, words](monkeypatch)
    (said,) = {finding for finding in found if finding.check == check and words in finding.found}
    assert said.state == ("ok" if words in {"is paused", "await review"} else "problem")
    assert said.mend or said.state == "ok"


def test_every_check_of_the_doctor_is_on_the_page():
    looked_at = {finding.check for finding in look(Cluster())} | set(
        re.findall(r'Finding\("([^"]+)"', Path(doctor.__file__).read_text() + Path(examination.__file__).read_text())
    )
    assert looked_at == {check for check, _ in TOLD}
