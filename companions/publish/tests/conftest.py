"""What tests of pages share with those of pipelines, and their browser."""

import json

import pytest

from tests.kit.results import write
from tests.pipelines.conftest import town as town
from tests.servers import browser


@pytest.fixture(scope="session")
def chromium():
    with browser() as page:
        yield page


@pytest.fixture
def page(chromium):
    """An empty page of a browser that has complained of nothing and asked for nothing."""
    chromium.driver.get("about:blank")
    chromium.complaints(), chromium.requests()
    return chromium


def mapped(folder, hatstream, rows, *options):
    """A map of rows, drawn by the command."""
    write(folder / "hats.parquet", rows)
    code, out, err = hatstream("map", "--input", folder / "*.parquet", "--output", folder / "map.html", *options)
    assert (code, err) == (0, ""), out
    return folder / "map.html"


def collected(path, features):
    """A file of GeoJSON features. features: geometry and properties of each."""
    listed = [{"type": "Feature", "geometry": shape, "properties": properties} for shape, properties in features]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": listed}))
    return path
