"""Benchmarks still run: some of them, at small sizes, on the tests' own Postgres."""

from __future__ import annotations

import json
import random

import pytest
from benchmarks import forking, image, measure, points, publishing, scaling_lines, scaling_records, sizes, soak, stage

from anabranch.devcluster.image import Image
from anabranch.feed import live

pytestmark = pytest.mark.usefixtures("role_passwords")
"""A stage's migrations would make the server's roles, and they would be nobody's: so they are claimed before."""


async def test_a_row_runs_at_small_sizes_and_is_told(postgres_server, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "FOLDER", tmp_path / "bench")
    async with stage.on(postgres_server.dsn, tmp_path) as place:
        (row,) = await publishing.run(place, quick=True)
        about = await measure.machine(place.dsn)
    assert row.ratio
    assert row.figures["ms"] > 0
    measure.save(row, judged=False, about=about)
    told = json.loads((tmp_path / "bench" / "publish.json").read_text())
    assert (told["ratio"], told["judged"], told["machine"]["fsync"]) == (row.ratio, False, "off")
    assert "not judged" in measure.verdict(row, judged=False)


async def test_both_sides_take_turns_and_the_median_of_the_pairs_counts():
    said = []

    def side(name, *values):
        values = iter(values)

        async def measured():
            said.append(name)
            return next(values)

        return measured

    found = await measure.interleaved(side("ours", 1.0, 9.0, 4.0), side("peer", 1.0, 3.0, 2.0), rounds=3)
    assert said == ["ours", "peer"] * 3
    assert (found.ratio, found.spread) == (2.0, (1.0, 3.0))


async def test_a_curve_goes_on_where_it_was_cut_and_begins_anew_once_it_was_whole(
    postgres_server, tmp_path, monkeypatch
):
    monkeypatch.setattr(measure, "FOLDER", tmp_path)
    asked = []

    def at(broken=None):
        async def measured(place):
            asked.append(place)
            if place == broken:
                raise RuntimeError("cut")
            return {"records": place, "ms": float(len(asked))}

        return measured

    async def curve(*, quick=False, **how):
        return await points.measured("curve", postgres_server.dsn, (1, 10, 100), at(**how), quick=quick)

    with pytest.raises(RuntimeError, match="cut"):
        await curve(broken=10)
    assert [point["ms"] for point in await curve()] == [1.0, 3.0, 4.0]
    assert asked == [1, 10, 10, 100]
    assert [point["ms"] for point in await curve()] == [5.0, 6.0, 7.0]
    with pytest.raises(RuntimeError, match="cut"):
        await curve(broken=10)
    assert (await curve(quick=True))[0]["ms"] == 10.0  # kept apart
    kept = json.loads((tmp_path / "points/curve.json").read_text())
    (tmp_path / "points/curve.json").write_text(json.dumps(kept | {"machine": {**kept["machine"], "cores": -1}}))
    assert (await curve())[0]["ms"] == 13.0  # that was another machine


async def test_curves_over_records_are_drawn_of_lines_of_each_size(postgres_server, tmp_path, monkeypatch):
    async def rate(*_):
        return 5.0

    monkeypatch.setattr(measure, "FOLDER", tmp_path / "bench")
    monkeypatch.setattr(scaling_records, "QUICK", (110, 120))
    monkeypatch.setattr(forking, "rate", rate)  # of pgbench, by the second
    async with stage.on(postgres_server.dsn, tmp_path) as place:
        rows = {row.name: row for row in await scaling_records.run(place, quick=True)}
    assert set(rows) == {"scaling-publish", "scaling-fork", "scaling-read", "scaling-search"}
    assert [next(iter(point)) for row in rows.values() for point in row.points] == ["records"] * 8
    assert [point["records"] for point in rows["scaling-read"].points] == [110, 120]
    assert all(value > 0 for row in rows.values() for point in row.points for value in point.values())


async def test_lines_beside_each_other_are_published_to_at_once(postgres_server, tmp_path):
    async with stage.on(postgres_server.dsn, tmp_path) as place:
        one = await place.new_line(20)
        other = await place.new_line(20, beside=one)
        assert await scaling_lines.published([one, other], 6) > 0
        async with one.db.connection() as conn:
            found = await conn.fetch("SELECT line, max(generation) AS head FROM manifests GROUP BY line")
    assert {row["line"]: row["head"] for row in found} == {one.line: 4, other.line: 4}


def test_the_help_is_timed_and_the_image_weighed():
    row = sizes.helped(times=1)
    assert 0 < row.figures["s_least"] <= row.figures["s_most"]
    assert row.reached == (row.figures["s"] <= 0.3)
    labels = {"org.opencontainers.image.revision": "0123456789abcdef"}
    weighed = [
        image.sized(Image(name="a", digest="b", archive=None, layers=(), size=size, labels=labels))
        for size in (299_000_000, 301_000_000)
    ]
    assert [(row.reached, row.figures["mb"]) for row in weighed] == [(True, 299.0), (False, 301.0)]
    assert weighed[0].figures["of_commit"] == "0123456789"


def test_a_slope_is_told_with_how_sure_it_is():
    chance = random.Random(1)
    hours = [number / 100 for number in range(100)]
    assert soak.slope(hours, [50 + 3 * hour for hour in hours]) == (pytest.approx(3.0), pytest.approx(0.0, abs=1e-9))
    level = [50 + chance.gauss(0, 1) for _ in hours]
    found, wide = soak.slope(hours, level)
    assert abs(found) < wide < 2
    drifting = [sum(chance.gauss(0, 1) for _ in range(2)) + value // 10 % 2 for value in range(100)]
    assert soak.slope(hours, drifting)[1] > 0
    # The same values, each twice in a row, tell no more than once.
    twice = [hour / 2 for hour in range(200)], [value for value in level for _ in range(2)]
    assert soak.slope(*twice)[1] > 0.9 * soak.slope([float(hour) for hour in range(100)], level)[1]


def test_no_more_follow_one_process_than_it_takes():
    followers = pytest.importorskip("benchmarks.scaling_followers", reason="make bench installs its peer's client")
    most = max(followers.FOLLOWERS)
    assert most <= live.FOLLOWERS
    assert most / followers.following.AGENTS <= live.FOLLOWERS_OF_ONE
