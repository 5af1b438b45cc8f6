"""Published rows and files: values in [0, U] as Python rounds them, formats alike, the same bytes twice."""

import csv
import io
import json
import math

import fastavro
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops import statistics
from dpops.estimate import Estimates
from dpops.statistics import SHARE, Output, Statistic, moments
from tests.transforms.sinks.units import slot_of, unit
from transforms.records import HatColumns
from transforms.sinks.published import READERS, SCHEMA
from transforms.sinks.rows import FORMATS, publish_slot, rounded, rows_of, schema_of


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


def test_the_same_slot_twice_is_the_same_bytes(tmp_path):
    first = [path.read_bytes() for path in publish_slot(slot_of(unit(5)), tmp_path, tuple(FORMATS))]
    assert [path.read_bytes() for path in publish_slot(slot_of(unit(5)), tmp_path, tuple(FORMATS))] == first


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
