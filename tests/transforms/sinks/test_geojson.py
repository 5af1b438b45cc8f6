"""GeoJSON: a feature each row, with its hexagon, for any statistic; a rerun leaves the bytes alone."""

import json
from itertools import pairwise

import h3
import pytest

from tests import city

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
