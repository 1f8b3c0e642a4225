"""An evaluation set asked of a served Baseline: recall before and after, by the client and by the command."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.store import building
from tests.store.indexes import indexed
from tests.store.served import serving
from tests.store.world import AUTOMATIC, TEAM

from anabranch.cli.main import run
from anabranch.client.evaluation import evaluate
from anabranch.domain import evaluation_set, recall
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.recall import RecallTask


@pytest.fixture
async def served(db, database):
    async with serving(db, database.api) as served:
        yield served


@pytest.fixture
async def made(served):
    """The project's own set, as it is before and after what was found out later."""
    made = evaluation_set.make(services=20)
    text = "".join(json.dumps({"key": one.key, "content": one.text}) + "\n" for one in made.records)
    served.world.kube.config_maps["facts"] = {"services.jsonl": text}
    state = await served.world.apply_baseline(**AUTOMATIC, **{"import": {"configMap": {"name": "facts"}}})
    before, after = ({one.key: one.text for one in some} for some in (made.records, made.afterwards()))
    changes = [building.version(key, after.get(key)) for key in before | after if before.get(key) != after.get(key)]
    await building.publish_versions(served.world.db, state.line.line, *changes)
    await indexed(served.world.db, state.line.line)
    return made


async def command(served, *arguments, code=0):
    options = ["--url", served.url, "--token", "ada", "--namespace", TEAM]
    assert await asyncio.to_thread(run, ["quality", "evaluate", "--baseline", "facts", *arguments, *options]) == code


async def test_what_was_found_out_later_is_found_only_later(served, made):
    client = await served.client()
    found = {ref: await evaluate(client, TEAM, "facts", tasks=made.tasks, ref=ref, k=5) for ref in (1, "current")}
    assert all(one.complete for one in found.values())
    earlier, later = (recall.report(found[ref].outcomes, k=5) for ref in (1, "current"))
    assert found["current"].manifest.generation == 2
    # Whatever of a service is asked for by its name alone is among the five records that it has.
    assert {kind: part.recall for kind, part in earlier.kinds.items()} == {
        "contradiction": 0, "fact": 1, "new": 0, "paraphrase": 1, "tombstone": 0, "update": 0,
    }  # fmt: skip
    assert {part.recall for part in later.kinds.values()} == {1}
    change = recall.change(found[1].outcomes, found["current"].outcomes, k=5)
    assert change.low > 0
    assert not change.worse


async def test_a_caller_is_told_the_recall_of_what_that_caller_may_read(served, made):
    from anabranch.identity import grants

    served.world.permissions.deny(grants.SCOPE_READ, name="shared", account="eve")
    eve = await served.client("eve")
    found = await evaluate(eve, TEAM, "facts", tasks=made.tasks, k=5)
    assert recall.report(found.outcomes, k=5).kinds["fact"].recall == 0


async def test_a_generation_that_never_was_is_no_zero(served, made):
    client = await served.client()
    with pytest.raises((GoneError, NotFoundError)):
        await evaluate(client, TEAM, "facts", tasks=made.tasks, ref=9, k=5)


async def test_the_command_tells_people_what_changed_and_scripts_whether_it_suffices(served, made, tmp_path, capsys):
    file = tmp_path / "set.jsonl"
    file.write_text("\n".join(task.model_dump_json() for task in made.tasks))
    await command(served, str(file), "--against", "1", "-k", "5", "--floor", "0.5")
    out = capsys.readouterr().out
    assert "Generation 2" in out
    assert "change from generation 1: +0." in out
    assert "better: update/" in out
    await command(served, str(file), "--generation", "1", "-o", "json", "--floor", "0.9", code=1)
    told = json.loads(capsys.readouterr().out)
    assert (told["generation"], told["change"], told["complete"]) == (1, None, True)
    assert set(told["missed"]) >= {task.id for task in made.tasks if task.kind == "update"}


async def test_the_projects_own_set_needs_no_file(served, made, capsys):
    await command(served, "--set", "built-in", "-o", "json")
    told = json.loads(capsys.readouterr().out)
    assert told["all"]["tasks"] + told["abstention"]["tasks"] == len(evaluation_set.make().tasks)
    await command(served, code=2)
    assert "Give a file, or --set" in capsys.readouterr().err


async def test_as_many_hits_as_asked_for_decide(served, made):
    """All services have a port: those whose name is not asked for come one after the other."""
    client = await served.client()
    ports = [RecallTask(id="p", query="port", answers=[one.key]) for one in made.afterwards() if "/port" in one.key]
    for k in (3, 15):
        asked = [await evaluate(client, TEAM, "facts", tasks=[task], k=k) for task in ports]
        assert sum(one.outcomes[0].recall(k) for one in asked) == k < len(ports)
