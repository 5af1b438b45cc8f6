"""Columns and folders on request: instants with their zone, counts where they are public, one dataset by date."""

import io
from datetime import UTC, datetime
from fractions import Fraction

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from dpops.mechanisms import registered
from dpops.types import CountsKnown, Grid
from tests.transforms.sinks.units import slot_of, unit
from transforms.releases.hats.release import counts_of
from transforms.sinks.published import SCHEMA, published_slots
from transforms.sinks.rows import FORMATS, Shape, publish_slot, rows_of, schema_of

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


def test_all_formats_take_every_shape_and_give_the_same_bytes_twice(tmp_path):
    first = [path.read_bytes() for path in publish_slot(SLOT, tmp_path, tuple(FORMATS), ALL)]
    assert [path.read_bytes() for path in publish_slot(SLOT, tmp_path, tuple(FORMATS), ALL)] == first
    assert len(rows_of(SLOT, ALL)[0]) == len(schema_of(("mean",), ALL))
