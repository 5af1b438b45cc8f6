"""Files whose name is the vehicle: they hold what files with a column of it do."""

import pytest

from tests.transforms.inputs import (
    csv_line,
    good_row,
    json_line,
    rules,
    run,
    write_avro,
    write_csv,
    write_jsonl,
    write_parquet,
)
from transforms.layouts import layout, message_layout
from transforms.layouts.base import FIELDS

MAP = {field: field for field in FIELDS}
TYPES = {"vehicle": "string", "time": "string", "lat": "double", "lon": "double", "speed": "double"}


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "avro"])
def test_a_file_of_one_vehicle_may_name_it(name, tmp_path):
    """The rows are those of a file with a column of that vehicle."""
    rows = [row | {"vehicle": "366"} for row in map(good_row, range(300))]
    columns = {field: [row[field] for row in rows] for field in FIELDS}
    writers = {
        "csv": lambda path: write_csv(path, map(csv_line, rows)),
        "jsonl": lambda path: write_jsonl(path, map(json_line, rows)),
        "parquet": lambda path: write_parquet(path, columns),
        "avro": lambda path: write_avro(path, rows, TYPES),
    }
    paths = [tmp_path / folder / f"366.{name}" for folder in ("one", "other")]
    for path in paths:
        path.parent.mkdir()
        writers[name](path)
    expected, _, count = run(layout(name, MAP, None, None), str(paths[0]), rules())
    named = layout(name, MAP | {"vehicle": "{file}"}, None, None)
    for path in paths:
        observed, _, read = run(named, str(path), rules())
        assert read == count
        assert observed.vehicle.tolist() == expected.vehicle.tolist()
        assert observed.lat_e7.tolist() == expected.lat_e7.tolist()
    with pytest.raises(ValueError, match="layout: messages must be one of"):
        message_layout(name, named)
