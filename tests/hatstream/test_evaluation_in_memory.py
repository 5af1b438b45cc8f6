"""Days that are counted once and released in memory are what files are read and released as, with the same noise."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hatstream.api import count_days, load, release_days
from tests import city, levels_city
from tests.statistical.checks import seeded
from transforms.sinks.rows import UNKNOWN

SEED = 5


DAYS = levels_city.DAYS[:2]


def lines_of(days: tuple[str, ...]) -> list[str]:
    """Twelve buses that are faster in the north, by 15 km/h a cell: a map of them tells more than one number."""
    heads = [line.rpartition(",")[0] for line in levels_city.rows(days, buses=12)]
    return [f"{head},{15 + round(750 * (float(head.split(',')[2]) - 21.17))}\n" for head in heads]


def counted_city(folder: Path, spec: str = levels_city.SPEC, days: tuple[str, ...] = DAYS) -> tuple[Path, pa.Table]:
    path, _ = levels_city.write(folder, spec=spec, lines=lines_of(days))
    return path, count_days(load(path), str(folder / "feed.csv"))


def test_every_report_of_the_region_is_counted_once(tmp_path: Path) -> None:
    _, counted = counted_city(tmp_path)
    assert pc.sum(counted["reports"]).as_py() == len(lines_of(DAYS))
    speeds = [float(line.rpartition(",")[2]) for line in lines_of(DAYS)]
    assert pc.sum(counted["sums"]).as_py() == pytest.approx(100 * sum(speeds))
    assert set(counted["cell"].to_pylist()) <= set(levels_city.CELLS)
    assert len(counted.group_by(["period", "slot", "cell", "vehicle"]).aggregate([])) == counted.num_rows


def released_by_the_command(folder: Path, hatstream, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Releases the same files by a ledger on disk, with noise of the seed in every draw."""
    noise = seeded(SEED)
    monkeypatch.setattr("transforms.releases.base.Noise", lambda: noise)
    where = ("--spec", folder / "spec.toml", "--ledger", folder / "ledger.sqlite", "--key", folder / "secret")
    assert hatstream("init", *where)[0] == 0
    days = ("--from", DAYS[0], "--to", DAYS[-1])
    output = ("--input", folder / "feed.csv", "--output", folder / "out", "--formats", "parquet")
    city.done(hatstream, "release", *where, *days, *output)
    return pa.concat_tables([pq.read_table(path) for path in sorted((folder / "out").glob("hats-*.parquet"))])


def test_rows_are_those_that_a_release_would_publish(tmp_path, hatstream, monkeypatch) -> None:
    spec = levels_city.SPEC.replace("2.64", "60").replace("vehicles = 50", "vehicles = 12")
    path, counted = counted_city(tmp_path, spec)
    shown = release_days(load(path), counted, seed=SEED)["hats"].drop_columns(["period", "slot", "last_slot"])
    published = released_by_the_command(tmp_path, hatstream, monkeypatch)
    shown = shown.filter(pc.invert(pc.is_in(shown["status"], pa.array(sorted(UNKNOWN)))))
    order = [(name, "ascending") for name in ("slot_start", "cell")]
    assert shown.sort_by(order).to_pylist() == published.sort_by(order).select(shown.column_names).to_pylist()
    assert any(value is not None for value in shown["value"].to_pylist())
    others = release_days(load(path), counted, seed=SEED + 1)["hats"]
    assert others["value"].to_pylist() != shown["value"].to_pylist(), "the seed is that of the noise"


def test_forecasts_rest_on_earlier_days_alone(tmp_path: Path) -> None:
    spec = levels_city.SPEC.replace("2.64", "60").replace("vehicles = 50", "vehicles = 12")
    path, counted = counted_city(tmp_path, spec)
    last = DAYS[-1]
    without = counted.filter(pc.not_equal(counted["period"], last))
    changed = pa.concat_tables([without, counted.filter(pc.equal(counted["period"], last)).slice(0, 3)])
    tables = [release_days(load(path), table, seed=SEED, forecasts=True)["forecast"] for table in (counted, changed)]
    whole, few = (table.filter(pc.equal(table["period"], last))["value"].to_pylist() for table in tables)
    assert whole == few


def test_means_of_hats_at_a_huge_epsilon_are_the_true_ones(tmp_path: Path) -> None:
    spec = city.SPEC.replace("epsilon = 1.0", "epsilon = 100000").replace('"array-average"', '"baseline"')
    path, counted = counted_city(tmp_path, spec)
    rows = release_days(load(path), counted, seed=SEED)["hats"]
    truth = counted.group_by(["period", "slot", "cell"]).aggregate([("sums", "sum"), ("reports", "sum")])
    both = rows.join(truth, ["period", "slot", "cell"], join_type="full outer", use_threads=False).combine_chunks()
    mean = both["sums_sum"].to_numpy() / both["reports_sum"].to_numpy() / 100
    assert both.num_rows == rows.num_rows == truth.num_rows
    assert np.abs(both["value"].to_numpy() - mean).max() < 0.02


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, counted = counted_city(tmp_path, days=DAYS[:1])
    monkeypatch.chdir(tmp_path)
    files = sorted(tmp_path.rglob("*"))
    release_days(load(path), counted, seed=SEED)
    assert sorted(tmp_path.rglob("*")) == files
