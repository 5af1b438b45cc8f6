"""Published rows and files: values in [0, U] as Python rounds them, formats alike, the same bytes twice."""

import csv
import errno
import io
import json
import math
import os
import stat
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import fastavro
import h3
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops import statistics
from dpops.estimate import Estimates
from dpops.mechanisms import registered
from dpops.statistics import SHARE, Output, Statistic, moments
from dpops.types import CountsKnown, Grid
from tests import city
from tests.kit.results import CELLS, row, write
from tests.transforms.sinks.units import slot_of, unit
from transforms.atomic_files import locked, replacing
from transforms.records import HatColumns
from transforms.releases.hats.release import counts_of
from transforms.sinks.published import READERS, SCHEMA, published_slots
from transforms.sinks.rows import FORMATS, PLAIN, Shape, publish_slot, rounded, rows_of, schema_of


def test_a_row_has_the_promised_columns_and_nothing_else():
    assert list(rows_of(slot_of(unit(1)))[0]) == SCHEMA.names == [
        "spec_id", "slot_start", "slot_end", "cell", "statistic", "value", "unit", "lower95", "upper95",
        "noise_std", "bias_bound", "mechanism", "epsilon", "epsilon_slot", "status",
    ]  # fmt: skip


def test_a_cell_without_data_says_so_and_shows_no_number():
    row = rows_of(slot_of(unit(None)))[0]
    assert row["status"] == "no-data"
    assert [row[name] for name in ("value", "lower95", "upper95", "noise_std", "bias_bound", "epsilon")] == [None] * 6
    assert row["epsilon_slot"] == 3.5


def test_all_formats_hold_the_same_rows(tmp_path):
    paths = publish_slot(slot_of(unit(5_000_000, None, 9)), tmp_path, tuple(FORMATS))
    rows = rows_of(slot_of(unit(5_000_000, None, 9)))
    read = {path.suffix: path.read_bytes() for path in paths}
    assert pq.read_table(io.BytesIO(read[".parquet"])).to_pylist() == rows
    assert list(fastavro.reader(io.BytesIO(read[".avro"]))) == rows
    assert [json.loads(line) for line in read[".jsonl"].splitlines()] == rows
    as_text = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    assert list(csv.DictReader(io.StringIO(read[".csv"].decode()))) == as_text


@pytest.mark.parametrize("integers", [(5_000_000, None, 9), ()], ids=["rows", "none"])
def test_every_format_is_read_back_as_it_was_written(tmp_path, integers):
    slot = slot_of(unit(*integers))
    for path in publish_slot(slot, tmp_path, tuple(FORMATS)):
        assert READERS[path.suffix[1:]](path).select(SCHEMA.names).to_pylist() == rows_of(slot), path


def test_names_are_fixed_by_specification_slot_and_format(tmp_path):
    names = [path.name for path in publish_slot(slot_of(unit(5)), tmp_path, ("csv", "avro"))]
    assert names == [f"hats-0123456789abcdef-20260501T100000-0500.{kind}" for kind in ("csv", "avro")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_link_planted_where_a_file_is_made_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / ".hats-0123456789abcdef-20260501T100000-0500.csv.part").symlink_to(victim)
    (path,) = publish_slot(slot_of(unit(5)), tmp_path, ("csv",))
    assert victim.read_text() == "untouched"
    assert not path.is_symlink()
    assert len(path.read_text().splitlines()) == 2


def test_the_shards_of_a_slot_make_one_file_in_the_order_of_cells():
    rows = rows_of(slot_of(unit(1, 2, shard=1), unit(None, shard=0)))
    assert [row["cell"] for row in rows] == sorted(row["cell"] for row in rows)


SPREAD = Statistic(
    name="spread", needs=moments(), outputs=(Output("p50"), Output("p85"), Output("cdf", SHARE, is_list=True))
)


@pytest.fixture
def _spread(monkeypatch):
    """A statistic of several outputs, asked for beside the mean."""
    all_statistics = statistics.registered() | {"spread": SPREAD}
    monkeypatch.setattr(statistics, "registered", lambda: all_statistics)


def several():
    """A cell with all outputs of the statistic, one without data, and one with a mean."""
    numbers = np.array([[20.0, 15.0, 25.0], [40.0, 30.0, 50.0]])[:, :, None]
    one, nothing, half = np.array([[1.0], [0.0], [0.5]])
    distribution = Estimates(numbers, [[(0.25, 0.75)]], one, nothing, half, ["ok"])
    slot = slot_of(unit(5_000_000), statistics=("mean", "spread"))
    mean = slot.hats
    hats = HatColumns(
        cell=[*mean.cell] * 3,
        statistic=["mean", "spread", "spread"],
        mechanism=[*mean.mechanism, "tree", "tree"],
        epsilon_slot=["1"] * 3,
        estimates=Estimates.placed(3, [([0], mean.estimates), ([1], distribution)]),
        vehicles=[None] * 3,
        reports=[None] * 3,
    )
    return slot._replace(hats=hats)


@pytest.mark.usefixtures("_spread")
def test_a_statistic_of_several_outputs_adds_columns_and_shows_the_first_as_its_value(tmp_path):
    rows, schema = rows_of(several()), schema_of(("mean", "spread"))
    more = ["p50", "p50_lower95", "p50_upper95", "p85", "p85_lower95", "p85_upper95", "cdf"]
    assert list(rows[0]) == schema.names == [*SCHEMA.names, *more]
    assert [rows[0][name] for name in more] == [None] * 7
    assert [rows[1][name] for name in ("value", "upper95", *more)] == [20, 25, 20, 15, 25, 40, 30, 50, [0.25, 0.75]]
    assert [rows[2][name] for name in ("value", "upper95", *more, "status")] == [None] * 9 + ["no-data"]
    read = {path.suffix: path.read_bytes() for path in publish_slot(several(), tmp_path, tuple(FORMATS))}
    assert pq.read_table(io.BytesIO(read[".parquet"])).to_pylist() == rows
    assert list(fastavro.reader(io.BytesIO(read[".avro"]))) == rows
    assert [json.loads(line) for line in read[".jsonl"].splitlines()] == rows
    assert [row["cdf"] for row in csv.DictReader(io.StringIO(read[".csv"].decode()))] == ["", "[0.25,0.75]", ""]


near_halves = st.integers(-(10**9), 10**9).map(lambda n: (n + 0.5) / 1e6)
numbers = st.one_of(
    st.none(),
    st.floats(-2000, 2000),
    st.floats(allow_nan=False, allow_infinity=False),
    near_halves,
    near_halves.map(lambda x: math.nextafter(x, math.inf)),
    near_halves.map(lambda x: math.nextafter(x, -math.inf)),
    st.sampled_from([0.0, -0.0, -1e-9, 1e-7, 1e300]),
)


@given(st.lists(numbers, max_size=30))
def test_numbers_are_rounded_as_python_rounds_each(values):
    expected = [None if value is None else round(value, 6) for value in values]
    given = np.array(values, np.float64)  # nan for None
    assert [repr(value) for value in rounded(given)] == [repr(value) for value in expected]


SLOT = slot_of(unit(5_000_000, None))
ALL = Shape(zone="America/Chicago", counts=True, by_date=True)
START = datetime(2026, 5, 1, 15, tzinfo=UTC)


def test_what_is_asked_for_stands_behind_what_every_row_has(tmp_path):
    (plain,) = publish_slot(SLOT, tmp_path, ("parquet",))
    (shaped,) = publish_slot(SLOT, tmp_path, ("parquet",), ALL)
    more = ["slot_start_at", "slot_end_at", "vehicles", "reports"]
    assert pq.ParquetFile(shaped).schema_arrow.names == [*SCHEMA.names, *more]
    assert pq.ParquetFile(shaped).read(SCHEMA.names) == pq.ParquetFile(plain).read()


def test_instants_have_the_zone_of_the_account_in_parquet_and_are_instants_in_avro(tmp_path):
    parquet, avro = publish_slot(SLOT, tmp_path, ("parquet", "avro"), Shape(zone="America/Chicago"))
    table = pq.read_table(parquet)
    assert table.schema.field("slot_start_at").type == pa.timestamp("us", "America/Chicago")
    assert table["slot_start_at"][0].as_py() == START
    assert next(iter(fastavro.reader(io.BytesIO(avro.read_bytes()))))["slot_start_at"] == START


def test_counts_are_those_of_the_plan_and_empty_without_one():
    with_data, without = rows_of(SLOT, Shape(counts=True))
    assert (with_data["vehicles"], with_data["reports"]) == (3, 7)
    assert (without["vehicles"], without["reports"]) == (None, None)


@pytest.mark.parametrize("name", [name for name in registered() if name != "auto"])
def test_every_mechanism_of_public_counts_tells_them_in_its_plan(name):
    counts, grid = CountsKnown(np.array([3, 2, 2]), 9), Grid(step=Fraction(1, 100), upper_steps=6500)
    plan = registered()[name]().plan(counts, grid, Fraction(1))
    assert counts_of([plan.public()]) == ([3], [9])


def test_a_folder_by_date_is_one_dataset_that_is_read_with_its_dates(tmp_path):
    other = slot_of(unit(7))
    other = other._replace(slot_start="2026-05-02T10:00:00-05:00", slot_end="2026-05-02T11:00:00-05:00")
    for slot in (SLOT, other):
        publish_slot(slot, tmp_path, ("parquet",), ALL)
    table = pyarrow.dataset.dataset(tmp_path, partitioning="hive").to_table()
    assert sorted(set(table["date"].to_pylist())) == ["2026-05-01", "2026-05-02"]
    assert table.num_rows == 3
    assert len(published_slots(tmp_path, SLOT.spec_id)) == 2


@pytest.mark.parametrize("shape", [PLAIN, ALL], ids=["plain", "all"])
def test_all_formats_take_every_shape_and_give_the_same_bytes_twice(shape, tmp_path):
    first = [path.read_bytes() for path in publish_slot(SLOT, tmp_path, tuple(FORMATS), shape)]
    assert [path.read_bytes() for path in publish_slot(SLOT, tmp_path, tuple(FORMATS), shape)] == first
    assert len(rows_of(SLOT, shape)[0]) == len(schema_of(("mean",), shape))


DISTRIBUTION = city.SPEC.replace(
    'name = "mean"\nmechanism = "array-average"', 'name = "distribution"\nmechanism = "tree"\nbins = 13'
)


@pytest.mark.few(1)
@pytest.mark.parametrize("spec", [DISTRIBUTION, city.SPEC], ids=["distribution", "mean"])
def test_every_row_is_a_feature_with_its_hexagon_and_all_its_columns(tmp_path, hatstream, spec):
    city.opened(tmp_path, hatstream, spec=spec)
    command = [part.replace("parquet,avro,csv,jsonl", "jsonl,geojson") for part in city.release(tmp_path)]
    assert hatstream(*command)[0] == 0
    files = sorted((tmp_path / "out").glob("*.geojson"))
    before = [path.read_bytes() for path in files]
    for path in files:
        features = json.loads(path.read_bytes())["features"]
        rows = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
        assert [feature["properties"] for feature in features] == rows
        for feature in features:
            (ring,) = feature["geometry"]["coordinates"]
            lon, lat = (sum(axis) / 6 for axis in zip(*ring[:-1], strict=True))
            assert h3.latlng_to_cell(lat, lon, 7) == feature["properties"]["cell"]
            turns = sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring))
            assert turns > 0  # counter-clockwise
    assert any(json.loads(data)["features"] for data in before)
    assert hatstream(*command)[0] == 0
    assert [path.read_bytes() for path in files] == before


# --- A file takes the place of a file, and of nothing else. -----------------------------------------------------------


def test_a_new_file_takes_the_place_of_a_file_or_a_link(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link", "none"):
        with replacing(tmp_path / name) as file:
            file.write(name.encode())
    assert [(tmp_path / name).read_text() for name in ("file", "link", "none")] == ["file", "link", "none"]


def test_what_is_no_file_is_left_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="it is not a regular file"), replacing(tmp_path / name):
            pass
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_full_disk_is_told_with_the_file_that_it_has_no_room_for(tmp_path, hatstream, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write(tmp_path / "hats.parquet", [row(CELLS[0], 6, 12.0)])
    monkeypatch.setattr(os, "fsync", full)
    told = hatstream("map", "--input", tmp_path / "*.parquet", "--output", tmp_path / "map.html")
    assert told == (4, "", f"hatstream: No space left on device: {tmp_path / 'map.html'}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["hats.parquet"]


def test_a_file_is_on_disk_before_it_has_its_name_and_its_name_before_the_folder_is_left(tmp_path, monkeypatch):
    synced = []

    def fsync(handle):
        synced.append((Path(os.readlink(f"/proc/self/fd/{handle}")).name, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with locked(tmp_path), replacing(tmp_path / "file") as file:
        file.write(b"new")
    assert synced == [(".file.part", False), (tmp_path.name, True)]
