"""Benchmarks still run: one of them, at small sizes, on the tests' own Postgres."""

from __future__ import annotations

import json

from benchmarks import measure, publishing, stage


async def test_a_row_runs_at_small_sizes_and_is_told(postgres_server, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "FOLDER", tmp_path / "bench")
    async with stage.on(postgres_server.dsn, tmp_path) as place:
        (row,) = await publishing.run(place, quick=True)
        about = await measure.machine(place.dsn)
    assert row.ratio
    assert row.figures["ms"] > 0
    measure.report([row], judged=False, about=about)
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
