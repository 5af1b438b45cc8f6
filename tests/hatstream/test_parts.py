"""Pipelines of a Beam developer: the parts of the road put together, and those of the README and the library's page."""

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

import hatstream as library
from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from pipelines.specification import load
from tests import city
from tests.hatstream.pipelines import DAY, append, are_delays, by_parts, kept_of, reports, ten_lines
from tests.kit.quick import let_noise_be_fresh, let_noise_repeat
from transforms.places.ground import texts_of


@pytest.fixture
def same_draws():
    def again():
        let_noise_repeat("parts")

    yield again
    let_noise_be_fresh()


def by_hand(folder, elements):
    """The file of a Beam developer: public counts, the papers' mechanism."""
    hats = library.ClosedHats.of(folder / "spec.toml", DAY, DAY, ledger=str(folder / "ledger.sqlite"))
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as p:
        _ = by_parts(p, elements, hats) | beam.Map(lambda row: append(folder / "kept.jsonl", row))
    return in_order(kept_of(folder))


def in_order(rows):
    return sorted(rows, key=lambda row: (row["slot_start"], row["cell"]))


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", ["array-average", "worst-case-optimal", "baseline"])
def test_the_numbers_are_those_of_the_command_on_the_same_draws(town, hatstream, same_draws, mechanism):
    one_slot = city.SPEC.replace("08:00-12:00", "08:00-09:00")  # several are drawn in the order in which they come
    folder = town(one_slot.replace("array-average", mechanism))
    same_draws()
    ours = by_hand(folder, reports(city.rows()))
    assert len(ours) == 3
    (folder / "ledger.sqlite").unlink()
    (folder / "ledger.key").unlink()
    (folder / "ledger.key.head").unlink()
    assert hatstream(*city.init(folder))[0] == 0
    same_draws()
    code, _, err = hatstream(*city.release(folder, start=DAY, end=DAY))
    assert (code, err) == (0, "")
    rows = [json.loads(line) for path in (folder / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert in_order(rows) == ours


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
