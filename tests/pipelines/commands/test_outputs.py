"""Outputs on request: counts never where they are secret, one dataset, and no address taken for a folder."""

import os
import tempfile
import time

import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import hatstream as library
from pipelines.job import OLD_S, make_writable, shape_with
from pipelines.specification import load
from tests import city, levels_city
from tests.pipelines.commands.releases import rows_in

SECRET = {"vehicles", "reports"}
PROFILE = "profile = { hats = 9, cells = 3, parents = 2, grandparents = 1, hours = 3, parts = 1 }"


def test_counts_and_instants_are_columns_where_they_are_asked_for(town, hatstream):
    city.done(hatstream, *city.release(town, "--columns", "times,counts"))
    rows = rows_in(town / "out")
    assert {"slot_start_at", "slot_end_at"} | SECRET <= set(rows[0])
    busiest = max(rows, key=lambda row: int(row["reports"] or 0))
    assert (busiest["vehicles"], busiest["reports"]) == ("4", "7")


def test_under_secret_counts_rows_tell_vehicles_only_about_and_only_on_request(tmp_path, hatstream):
    """What whole days of buses weighed says how many there were: nothing else is spent, and no row counts them."""
    spec = levels_city.SPEC.replace("2.64", "60").replace("vehicles = 50", f"vehicles = 12\n{PROFILE}")
    levels_city.write(tmp_path, spec=spec, lines=levels_city.rows(city.DAYS, buses=12))
    hatstream(*city.init(tmp_path))
    days = {"start": city.DAYS[0], "end": city.DAYS[1]}
    assert hatstream(*city.release(tmp_path, "--columns", "times", **days))[0] == 0
    plain = rows_in(tmp_path / "out")
    exponent = float(load(tmp_path / "spec.toml").levels.exponent)
    assert f"a vehicle with n reports in the place and slot counts n^{exponent:g}; " in value_said_by(tmp_path / "out")
    assert not SECRET & {name for row in plain for name in row}
    assert not any(name.startswith("vehicles_") for row in plain for name in row)
    about = city.release(tmp_path, "--columns", "counts", "--output", str(tmp_path / "about"), **days)
    assert city.told(hatstream, *about)["stages_new"] == 0
    rows = [row for row in rows_in(tmp_path / "about") if "vehicles_about" in row]  # no products
    last = [row for row in rows if row["slot_start"].startswith(city.DAYS[1])]
    assert not SECRET & set(last[0])
    told = [tuple(float(row[f"vehicles_about{end}"]) for end in ("", "_lower95", "_upper95")) for row in last]
    assert all(lower <= about <= upper for about, lower, upper in told)
    truth = [12 if driven(row) else 0 for row in last]
    held = [lower <= true <= upper for true, (_, lower, upper) in zip(truth, told, strict=True)]
    assert sum(held) > 0.9 * len(held)
    busy = [about for true, (about, *_) in zip(truth, told, strict=True) if true]
    assert 6 < sum(busy) / len(busy) < 24
    assert {row["vehicles_status"] for row in last} <= {"ok", "unreliable"}


def driven(row):
    """Whether all buses are there: in three cells, in three hours."""
    return row["cell"] in levels_city.CELLS[:3] and row["slot_start"][11:13] in ("08", "09", "10")


def test_counts_by_key_have_no_further_columns():
    of = library.UserAccount(limit=(2.64, 1e-6))
    counts = library.CountPerKey(user="bus", key="route", keys=["A"], total=of.limit, account=of)
    with pytest.raises(library.UsageError, match="estimates them"):
        shape_with(["counts"], load(counts.tables(3_600)))


def test_a_dataset_by_date_is_whole_and_a_second_run_leaves_it_as_it_is(town, hatstream):
    arguments = [*city.release(town, "--by-date"), "--formats", "parquet"]
    assert hatstream(*arguments)[0] == 0
    files = {path: path.read_bytes() for path in (town / "out").rglob("*.parquet")}
    assert {path.parent.name for path in files} == {f"date={day}" for day in city.DAYS}
    table = pyarrow.dataset.dataset(town / "out", partitioning="hive").to_table()
    assert set(table["date"].to_pylist()) <= set(city.DAYS)
    assert hatstream(*arguments)[0] == 0
    assert {path: path.read_bytes() for path in files} == files
    assert "the mean speed of all reports, each counting once" in value_said_by(town / "out")


@pytest.mark.parametrize("scheme", ["s3", "gs", "hdfs", "file"])
def test_an_address_as_output_is_refused_in_one_sentence(town, hatstream, scheme, monkeypatch):
    monkeypatch.chdir(town)
    arguments = city.release(town)
    arguments[arguments.index("--output") + 1] = f"{scheme}://bucket/folder"
    assert f"file system, not behind {scheme}://" in city.refused(hatstream, *arguments, code=1)
    assert not (town / f"{scheme}:").exists()


def value_said_by(folder):
    (said,) = {pq.read_schema(path).field("value").metadata[b"description"] for path in folder.rglob("*.parquet")}
    return said.decode()


def test_beams_leftovers_of_killed_runs_are_removed_where_they_are_old_and_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, full, new = (tmp_path / f"beam-pipeline-temp{name}" for name in ("old", "full", "new"))
    for folder in (old, full / "job", new):
        folder.mkdir(parents=True)
    for folder in (old, full):
        os.utime(folder, (time.time() - OLD_S - 60,) * 2)
    make_writable(tmp_path / "out")
    assert [folder.exists() for folder in (old, full, new)] == [False, True, True]
