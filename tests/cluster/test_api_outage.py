"""What the API does while a part that it needs is away: it says so, and receives batches all the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets

import httpx
import pytest
from tests.cluster.places import BASELINE, eventually
from tests.cluster.ways import Way

from anabranch.api.app import create_app
from anabranch.api.parts import opened
from anabranch.api.settings import Settings
from anabranch.devcluster import databases
from anabranch.devcluster.postgres import with_database
from anabranch.manifests import API_ACCOUNT
from anabranch.model.objects import Receipt, batch_hash
from anabranch.store.migrate import SchemaMismatchError


@pytest.fixture(scope="module")
async def agent(place):
    return await place.client("agent", "anabranch-agent")


async def test_it_does_not_start_on_a_database_of_another_schema_and_says_what_to_do(place):
    name = f"empty_{secrets.token_hex(4)}"
    await databases.create(place.stack.server.dsn, name, owner="a test of the API")
    try:
        with pytest.raises(SchemaMismatchError, match="anabranch migrate"):
            async with in_process(place, dsn=with_database(place.stack.server.dsn, name)):
                pass
    finally:
        await databases.drop(place.stack.server.dsn, name)


@contextlib.asynccontextmanager
async def in_process(place, *, dsn: str | None = None, kubeconfig: str | None = None):
    """The API in this process, with parts of its own."""
    settings = Settings(
        dsn=dsn or place.stack.api_dsn,
        audience=place.stack.audience,
        cursor_keys=(b"a key of this test alone",),
        kubeconfig=kubeconfig or str(kubeconfig_of(place)),
    )
    async with opened(settings) as parts:
        transport = httpx.ASGITransport(create_app(parts))
        async with httpx.AsyncClient(transport=transport, base_url="http://api", timeout=30) as http:
            yield http


def kubeconfig_of(place):
    return place.stack.folder / "accounts" / f"{place.stack.namespace}.{API_ACCOUNT}.kubeconfig"


@pytest.fixture
async def way(place, tmp_path):
    """A way of the API to its API server, and a kubeconfig that takes it."""
    config = json.loads(kubeconfig_of(place).read_text())
    cluster = config["clusters"][0]["cluster"]
    way = Way(cluster["server"])
    await way.open()
    cluster["server"] = f"https://127.0.0.1:{way.port}"
    way.kubeconfig = tmp_path / "kubeconfig"
    way.kubeconfig.write_text(json.dumps(config))
    yield way
    way.cut()


async def test_receipt_of_batches_goes_on_while_the_api_server_is_away_and_nothing_else_does(place, agent, way):
    if place.stack.cluster.kind == "given":
        pytest.skip("the certificate of a given cluster may not name the loopback address")
    branch = await place.branch(agent)
    base = f"/v1/namespaces/{place.namespace}/branches/{branch.name}"
    known = {"Authorization": f"Bearer {place._tokens['agent']}"}
    unknown = {"Authorization": f"Bearer {place.account('newcomer', 'anabranch-agent')}"}

    def batch(sequence: int) -> dict:
        whole = {
            "branch_id": branch.branch_id,
            "sequence": sequence,
            "changes": [
                {"key": f"outage/{sequence}", "content": 1, "visibility": "shareable", "scope": f"s{sequence}"}
            ],
            "source_locators": [[]],
            "base_revisions": ["0"],
        }
        return {**whole, "content_hash": batch_hash(whole)}

    async with in_process(place, kubeconfig=str(way.kubeconfig)) as http:
        assert (await http.put(f"{base}/batches/1", json=batch(1), headers=known)).status_code == 200
        way.cut()
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["postgres"]) == (503, "ok")
        await asyncio.sleep(5.1)  # grants are older than five seconds now
        answer = await http.put(f"{base}/batches/2", json=batch(2), headers=known)
        assert Receipt.model_validate_json(answer.content).contiguous_through == 2
        for method, path, body in (
            ("PUT", f"{base}/records/k", {"content": 1}),
            ("GET", f"{base}/batches", None),
            ("GET", f"/v1/namespaces/{place.namespace}/baselines/{BASELINE}", None),
        ):
            answer = await http.request(method, path, json=body, headers=known)
            assert answer.status_code == 503, (path, answer.text)
            assert answer.headers["retry-after"]
        assert (await http.put(f"{base}/batches/3", json=batch(3), headers=unknown)).status_code == 503
        await way.open()

        async def back():
            return (await http.get(f"{base}/batches", headers=known)).status_code == 200

        await eventually(back)
