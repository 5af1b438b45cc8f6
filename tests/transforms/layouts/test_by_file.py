"""Files whose name is the vehicle: they hold what files with a column of it do."""

import pytest

from tests.kit import feed_layouts
from tests.transforms.inputs import good_row, rules, run
from transforms.layouts import layout, message_layout
from transforms.layouts.base import FIELDS

MAP = {field: field for field in FIELDS}


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "avro"])
def test_a_file_of_one_vehicle_may_name_it(name, tmp_path):
    """The rows are those of a file with a column of that vehicle."""
    rows = [row | {"vehicle": "366"} for row in map(good_row, range(300))]
    paths = [tmp_path / folder / f"366.{name}" for folder in ("one", "other")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(feed_layouts.WRITERS[name][1](rows))
    expected, _, count = run(layout(name, MAP, None, None), str(paths[0]), rules())
    named = layout(name, MAP | {"vehicle": "{file}"}, None, None)
    for path in paths:
        observed, _, read = run(named, str(path), rules())
        assert read == count
        assert observed.vehicle.tolist() == expected.vehicle.tolist()
        assert observed.lat_e7.tolist() == expected.lat_e7.tolist()
    with pytest.raises(ValueError, match="layout: messages must be one of"):
        message_layout(name, named)
