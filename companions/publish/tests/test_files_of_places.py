"""Files of places and of lines under a map, which people write: what is none is a sentence, never a wrong page."""

import json

import pytest

from hatstream_publish.pages.places import read_ground, read_places
from pipelines.errors import InputError

LINE = {"type": "LineString", "coordinates": [[14.5, 46.0], [14.6, 46.0]]}
READERS = pytest.mark.parametrize("reader", [read_places, read_ground])


def line(*positions):
    return {"type": "LineString", "coordinates": list(positions)}


def written(folder, geometry=LINE, properties=None):
    feature = {"type": "Feature", "properties": {"name": "a"} if properties is None else properties}
    path = folder / "places.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature | {"geometry": geometry}]}))
    return path


@READERS
def test_lines_are_read_with_heights_and_beyond_the_antimeridian(reader, tmp_path):
    assert reader(written(tmp_path, line([179.9, 0, 7], [180.1, -90, 7])))


@READERS
@pytest.mark.parametrize(
    "geometry",
    [
        line([1e300, 46], [14.6, 46]), line([14.5, 91], [14.6, 46]), line(["nan", 46], [14.6, 46]),
        line(["14.5", "46"], ["14.6", "46"]), line([None, 46], [14.6, 46]), line([14.5], [14.6]), line({}, {}),
        line([14.5, 46]), {"type": "LineString", "coordinates": {"a": 1}}, {"type": "LineString"}, [1], "a", 7,
        {"type": "GeometryCollection", "geometries": [LINE]}, {"type": "Point", "coordinates": [14.5, 46]},
        {"type": "MultiLineString", "coordinates": [[[0, 0], [0, 1]]] * 65_536},
    ],
    ids=range(16),
)  # fmt: skip
def test_a_shape_that_is_none_is_refused(geometry, reader, tmp_path):
    with pytest.raises(InputError, match=r"a shape must be|positions|more than 65,535 parts"):
        reader(written(tmp_path, geometry))


@READERS
@pytest.mark.parametrize("properties", [[1], "abc", 7])
def test_properties_that_are_none_are_refused(properties, reader, tmp_path):
    with pytest.raises(InputError, match="must be an object, of names with values"):
        reader(written(tmp_path, properties=properties))
