"""Maps of places: a day against the usual, and the files of places and lines that people write under a map."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hatstream_publish.pages.places import read_ground, read_places
from pipelines.errors import InputError
from tests.kit.results import CELLS, PARENT, known_of, row
from tests.servers import asked
from transforms.sinks.published import OPTIONAL, SCHEMA

DAYS = (13, 14)
_WITH = ("product", "days", "vehicles_at_least", "parent", "parent_value", "parent_lower95", "parent_upper95")
SCHEMA_OF_PLACES = pa.schema([*SCHEMA, *(pa.field(name, OPTIONAL[name]) for name in _WITH)])


@pytest.fixture
def folder(tmp_path):
    """Two days of four places, and what these are usually. On the second day the first two are as always, the third is
    known as its area, which is 4 km/h faster; the fourth is known by itself, and usually is not."""
    ordinary = [[*_own(20.0, 21.0, day=day), *_of_area(30.0, 30.0, day=day)] for day in DAYS]
    second = [*_own(20.0, 26.0, day=14), *_of_area(34.0, 34.0, day=14)[:1], *_own(0, 0, 0, 23.0, day=14)[3:]]
    for name, rows in (("place-standing", ordinary), ("place-day", [ordinary[0], second])):
        edges = [
            row | {"product": name, "days": 5 + number, "vehicles_at_least": 4 if row["cell"] == CELLS[0] else None}
            for number, day in enumerate(rows)
            for row in day
        ]
        pq.write_table(pa.Table.from_pylist(edges, schema=SCHEMA_OF_PLACES), tmp_path / f"{name}.parquet")
    return tmp_path


def _own(*values, day):
    """Of the first places."""
    return [row(cell, 6, value, 3.0, day=day) for cell, value in zip(CELLS, values, strict=False)]


def _of_area(*values, day):
    """Of the third place, and of the next ones."""
    return [known_of(row(cell, 6, 1.0, day=day), PARENT, value) for cell, value in zip(CELLS[2:], values, strict=False)]


def shown(page, hatstream, folder, files, link=""):
    code, out, err = hatstream("map", "--input", folder / files, "--output", folder / "map.html")
    assert (code, err) == (0, ""), out
    page.open(folder / "map.html", link)


def test_a_day_is_compared_with_what_is_usual_at_the_place_or_in_its_area(page, hatstream, folder):
    shown(page, hatstream, folder, "place-*.parquet", "show=difference")
    differences = asked(page, "DATA.places.id.map((_, place) => differenceAt(1, place))")
    assert differences[:3] == pytest.approx([0.0, 5.0, 4.0], abs=0.11)
    assert differences[3] is None  # known by itself that day, usually as its area
    assert asked(page, "state.show") == "difference"
    assert asked(page, "DATA.days") == [5, 6]
    assert "by 5 released days" in page.one("#when").text
    texts = asked(page, "DATA.places.id.map((_, place) => differenceText(1, place))")
    said = [text.partition(": ")[2] for text in texts[:2]]
    assert said == ["no more than noise explains", "beyond what noise explains"]
    vehicles = asked(page, "DATA.places.id.map((_, place) => vehiclesText(1, place))")
    assert [text[:19] for text in vehicles] == ["At least 4 vehicles", "", "", ""], "where rows say so"
    asked(page, "choose(0)")
    assert page.one("#p-vehicles").text == vehicles[0]


def test_a_standing_map_is_the_usual_and_is_compared_with_nothing(page, hatstream, folder):
    ordinary = pq.read_table(folder / "place-standing.parquet")
    later = [row | {"slot_start": row["slot_start"].replace("05-1", "06-1")} for row in ordinary.to_pylist()]
    pq.write_table(pa.Table.from_pylist(later, schema=ordinary.schema), folder / "place-standing-2.parquet")
    shown(page, hatstream, folder, "place-standing*.parquet", f"place={CELLS[0]}")
    assert len(asked(page, "DATA.slots")) == 4
    assert page.one("#p-difference").text == ""
    assert set(asked(page, "DATA.places.id.map((_, place) => differenceText(3, place))")) == {""}


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
    with pytest.raises(InputError, match=r"its shape must be|positions|more than 65,535 parts"):
        reader(written(tmp_path, geometry))


@READERS
@pytest.mark.parametrize("properties", [[1], "abc", 7])
def test_properties_that_are_none_are_refused(properties, reader, tmp_path):
    with pytest.raises(InputError, match="must be an object, of names with values"):
        reader(written(tmp_path, properties=properties))
