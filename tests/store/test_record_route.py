"""The route that reads a record remembers Baselines: what it answers is as if it looked them up each time."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from fastapi import Request
from tests.store import building
from tests.store.building import version

from anabranch.api.known import Known
from anabranch.api.routes import baselines
from anabranch.api.stores import Stores
from anabranch.identity import Caller
from anabranch.model.errors import NotFoundError
from anabranch.store import lines
from anabranch.store.reader import Reader

NAMESPACE, NAME = "team", "facts"


class EveryScope:
    async def readable_scopes(self, _caller, *, namespace, scopes):
        assert namespace == NAMESPACE
        return list(scopes)


@pytest.fixture
def parts(api_db):
    store = SimpleNamespace(name="default", db=api_db, reader=Reader(api_db), fault=None)
    return SimpleNamespace(stores=Stores([store]), baselines=Known(size=10), grants=EveryScope())


@pytest.fixture
async def line(db):
    line = await building.new_line(db)
    await building.import_records(db, line, {"a": 1})
    return line


async def get(parts, key, *, ref="current", proof=False):
    at = await baselines.at_record.of(Caller("reader"), parts, NAMESPACE, NAME)
    request = Request({"type": "http", "headers": []})
    answer = await baselines.get_record(at, ref, key, parts, baselines.RecordQuery(proof=proof), request)
    return json.loads(answer.body)


async def delete(db, line, uid="uid-1"):
    async with db.connection() as conn:
        assert await lines.mark_deleted(conn, line=line, uid=uid)


@pytest.mark.parametrize("proof", [False, True])
async def test_a_record_of_a_scope_that_came_later_is_found(db, parts, line, proof):
    assert (await get(parts, "a"))["content"] == 1
    await building.publish_versions(db, line, version("b", 2, scope="new"))
    found = await get(parts, "b", proof=proof)
    assert (found["record"] if proof else found)["content"] == 2


@pytest.mark.parametrize("proof", [False, True])
@pytest.mark.parametrize("ref", ["current", "1", "head"])
async def test_a_baseline_that_was_deleted_is_absent(db, parts, line, ref, proof):
    assert (await get(parts, "a", ref=ref, proof=proof))["content" if not proof else "proof"]
    await delete(db, line)
    with pytest.raises(NotFoundError, match="There is no baseline team/facts, or you may not see it"):
        await get(parts, "a", ref=ref, proof=proof)
    assert parts.baselines.get(f"{NAMESPACE}/{NAME}") is None


async def test_a_namesake_is_another_baseline(db, parts, line):
    assert (await get(parts, "a"))["content"] == 1
    async with db.transaction() as conn:
        state = await lines.adopt_or_create(conn, namespace=NAMESPACE, namespace_uid="ns-2", name=NAME, uid="uid-2")
    other = state.line.line
    assert other != line
    await building.import_records(db, other, {"a": 2})
    assert (await get(parts, "a"))["content"] == 2
    assert (await get(parts, "a", ref="1"))["content"] == 2


async def test_a_known_baseline_is_not_looked_up_again(parts, line, monkeypatch):
    await get(parts, "a")

    async def unexpected(*_arguments, **_options):
        raise AssertionError("it was looked up")

    monkeypatch.setattr(lines, "find_with_scopes", unexpected)
    assert (await get(parts, "a"))["content"] == 1
