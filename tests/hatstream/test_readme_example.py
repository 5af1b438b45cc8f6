"""The pipelines of the README and of the page of the library run as they are printed."""

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from pipelines.specification import load
from tests.hatstream.pipelines import are_delays, ten_lines
from transforms.places.ground import texts_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rows", ["2_000", pytest.param("20_000", marks=pytest.mark.slow)])
def test_the_ten_lines_of_the_readme_run_in_a_fresh_folder(tmp_path, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["first.py"])
    assert "20_000" in ten_lines()
    exec(compile(ten_lines().replace("20_000", rows), "first.py", "exec"), {})
    assert are_delays(tmp_path)


@pytest.mark.slow
def test_the_pipeline_of_the_library_runs_as_it_is_printed(tmp_path, monkeypatch, hatstream):
    monkeypatch.chdir(tmp_path)
    Path("build/demo").mkdir(parents=True)
    sample = Path("build/demo/sample-2026-05-14.parquet")
    write_sample(MadeUpFleet(report_every_s=150.0, day=date(2026, 5, 14)), sample)
    write_timetable(MadeUpFleet(), Path("town-gtfs.zip"))
    feed = ("--gtfs", "town-gtfs.zip", "--sample", sample)
    assert hatstream("spec", "new", *feed, "--output", "build/town.toml")[0] == 0
    assert hatstream("init", "--spec", "build/town.toml", "--ledger", "build/town.sqlite")[0] == 0
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.DOTALL)
    exec(compile(program, "library.md", "exec"), {})
    rows = Path("build/town-rows.txt").read_text().splitlines()
    spec = load(Path("build/town.toml"))
    hats = spec.trips.number(texts_of(spec.cells.region), replace(spec.timetable, weekdays=("thu",)))
    assert 700 < hats < 18 * 41
    assert 0.8 * hats < len(rows) - 41 <= hats  # hexagons and hours with a trip that are known, and days
    assert all(re.match(r"[0-9a-f]{15} 2026-05-14T\d\d:00:00-06:00 (\d+\.\d+|None) km/h [a-z-]+$", row) for row in rows)
    assert hatstream("ledger", "verify", "--ledger", "build/town.sqlite")[0] == 0
