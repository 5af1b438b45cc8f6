"""Timestamps of Parquet and Avro without a zone, as pandas writes them."""

import pyarrow as pa
import pytest

from tests.transforms.inputs import AVRO_TYPES, good_row, mapped, write_avro, write_parquet
from transforms.layouts import UnreadableFile, layout
from transforms.layouts.base import FIELDS

ROWS = [good_row(i) for i in range(300)]


def local_times(folder, form):
    """A file of local timestamps, noon of the first days of 1970."""
    noons = [day * 86_400_000_000 + 43_200_000_000 for day in range(300)]
    if form == "parquet":
        columns = {field: pa.array([row[field] for row in ROWS]) for field in FIELDS}
        return write_parquet(folder / "a", columns | {"time": pa.array(noons, pa.timestamp("us"))})
    local = {"type": "long", "logicalType": "local-timestamp-micros"}
    rows = [{**row, "time": noon} for row, noon in zip(ROWS, noons, strict=True)]
    return write_avro(folder / "a", rows, {**AVRO_TYPES, "time": local})


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_local_timestamps_are_read_by_the_zone_that_is_named(tmp_path, form):
    path = local_times(tmp_path, form)
    source = layout(form, {field: field for field in FIELDS}, None, None, time_zone="Asia/Kathmandu")
    (batch,) = source.read(path)
    times = source.units.instants(batch.table.column("time"))
    assert times.valid.all()
    assert times.us[0] == (12 * 60 - 330) * 60_000_000, "Kathmandu was 5:30 ahead in 1970"


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_times_without_a_zone_are_unreadable(tmp_path, form):
    told = "column 'time' has no time zone: name it as input.time_zone"
    with pytest.raises(UnreadableFile) as refused:
        list(mapped(form).read(local_times(tmp_path, form)))
    assert refused.value.rule == told
