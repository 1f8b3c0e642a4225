"""The report of the benchmarks has what was measured, and nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import profiling, report
from benchmarks.measure import Row

DOCS = Path(__file__).parents[2] / "docs"
MACHINE = {"cores": 2, "kernel": "6", "load_before": 0.5}


def measured(name, *, day="2026-01-02", machine=None, costs=(), **more):
    told = {"work": f"work of {name}", "peer": "another", "bar": "≤ 1.2x", "ratio": 1.0, "reached": True, **more}
    row = Row(name=name, **told)
    return report.Measured(row=row, day=day, machine=machine or MACHINE, costs=list(costs))


def test_the_page_is_what_the_command_makes_of_what_it_measured():
    assert (DOCS / report.PAGE).read_text(encoding="utf-8") == report.page(report.load())


def test_each_picture_of_the_page_was_drawn_of_what_was_measured():
    kept = report.load()
    shown = re.findall(rf"\]\(({report.PICTURES}/[^)]+\.svg)\)", report.page(kept))
    assert f"{report.PICTURES}/{report.BARS}.svg" in shown
    assert {DOCS / name for name in shown} == set((DOCS / report.PICTURES).glob("*.svg"))
    drawn = {report.BARS: [one.row for one in kept if report.margins(one.row)]}
    drawn |= {one.row.name: [one.row] for one in kept if one.row.points}
    for name, rows in drawn.items():
        assert report.digest(rows) in (DOCS / report.PICTURES / f"{name}.svg").read_text(encoding="utf-8")


def test_pictures_are_the_same_each_time_and_in_both_colour_schemes(tmp_path):
    plots = pytest.importorskip("benchmarks.plots", reason="make bench installs what draws")
    points = [{"records": 10.0**power, "ours_ms": 3.0 + power, "peer_ms": 4.0} for power in (3, 4, 5, 6)]
    kept = [measured("a"), measured("b", points=points)]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "old.svg").write_text("of a row that is gone")
        plots.draw(kept, tmp_path / folder)
    files = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert files == {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    assert set(files) == {"bars.svg", "b.svg"}
    assert all(b"prefers-color-scheme:dark" in body and len(body) < 60_000 for body in files.values())
    assert b">ours ms<" in files["b.svg"].replace(b"\n", b"")


def test_a_new_run_takes_the_place_of_the_old_and_keeps_the_day_of_the_others():
    before = [measured("a", ratio=2.0, costs=[{"process": "API", "part": "x", "share": 1.0}]), measured("b")]
    now = [measured("a", day="2026-02-03", machine={**MACHINE, "kernel": "7"}), measured("c", day="2026-02-03")]
    kept = report.merge(before, now)
    assert [(one.row.name, one.day) for one in kept] == [("a", "2026-02-03"), ("b", "2026-01-02"), ("c", "2026-02-03")]
    assert (kept[0].row.ratio, kept[0].costs) == (1.0, before[0].costs)
    text = report.page(kept)
    assert "### Run 3\n\n2026-02-03: cores 2, kernel 7, load before a row 0.5 to 0.5.\n" in text
    assert re.search(r"work of b .*\[1\]\(#run-1\)", text)


def test_what_is_kept_reads_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "benchmarks.plots", type("Plots", (), {"draw": lambda *_: None}))
    kept = [
        measured("a", spread=(0.9, 1.4), figures={"ms": 3.5, "better": "x | y"}, points=[{"n": 1, "ms": 2.5}]),
        measured("b", ratio=None, peer="-", costs=[{"process": "API", "part": "a > b", "share": 0.25}]),
    ]
    report.write(kept, tmp_path)
    assert report.load(tmp_path) == kept
    text = (tmp_path / report.PAGE).read_text(encoding="utf-8")
    assert "better x &#124; y" in text
    assert "| API | `a > b` | 25 % |" in text
    assert json.loads((tmp_path / report.KEPT).read_text(encoding="utf-8"))["rows"][0]["day"] == "2026-01-02"


@pytest.mark.parametrize(("count", "listed"), [(12, True), (13, False)])
def test_a_curve_of_few_points_tells_them_and_one_of_many_only_draws_them(count, listed):
    points = [{"minutes": float(number), "api_mib": 61.5} for number in range(1, count + 1)]
    text = report.page([measured("soak", peer="-", bar="-", ratio=None, figures={"failed_calls": 0}, points=points)])
    assert f"![Work of soak]({report.PICTURES}/soak.svg)" in text
    assert ("| 12 | 61.5 |" in text) == listed
    assert "Run [1](#run-1); failed_calls 0.\n" in text


@pytest.mark.parametrize(
    ("bar", "ratio", "spread", "median"),
    [("≥ 0.5x", 0.4, (0.3, 0.6), 0.8), ("p95 ≤ 3x and ≤ 100 ms", 1.5, (1.0, 6.0), 2.0), ("≤ 60 s", None, None, None)],
)
def test_a_row_is_as_many_times_as_good_as_its_bar(bar, ratio, spread, median):
    found = report.margins(replace(measured("a").row, bar=bar, ratio=ratio, spread=spread))
    assert (found[1] if found else None) == (pytest.approx(median) if median else None)
    assert found is None or found[0] <= found[1] <= found[2]


def test_samples_are_told_by_process_and_part():
    own = 'process 1:"python3 -m benchmarks acknowledgement"'
    api = f'{own};process 7:"python3 -P -m anabranch.cli.main api --port=1"'
    load = f'{own};process 8:"python3 -m benchmarks.load /tmp/x"'
    serve = "run (anabranch/api/serve.py:9)"
    costs = profiling.processes(
        [
            f"{api};{serve};get (anabranch/store/reader.py:3);fetch (asyncpg/a.py:5);sleep (asyncpg/pool.py:1) 30",
            f"{api};{serve};get (/x/lib/python3.11/site-packages/anabranch/store/reader.py:4) 10",
            f"{load};<module> (benchmarks/load.py:1) 20",
            f"{load};f (<frozen importlib._bootstrap>:8);<module> (json/__init__.py:1) 5",
            f"{api};_worker (concurrent/futures/thread.py:81) 50",
            f"{own};<module> (runpy.py:1) 1",
        ]
    )
    assert costs == [
        {"process": "API", "part": "anabranch.store.reader > asyncpg", "share": 0.75},
        {"process": "API", "part": "anabranch.store.reader", "share": 0.25},
        {"process": "load", "part": "benchmarks.load", "share": 1.0},
    ]


def test_a_statement_is_told_in_a_line():
    assert profiling.statement("-- name: x\nSELECT a,\n  b /* why */ FROM `c`") == "SELECT a, b FROM 'c'"
    assert len(profiling.statement("SELECT " + "x, " * 100)) == 100
