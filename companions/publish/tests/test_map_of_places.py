"""Maps of places: a day against what is usual there, and words that fit a map of what is usual."""

import gzip
import json

import h3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.places import NamedPlaces
from tests.browser import asked
from tests.kit.results import CELLS, PARENT, known_of, row
from transforms.sinks.rows import NOTES, SCHEMA

DAYS = (13, 14)
_WITH = ("product", "days", "vehicles_at_least", "parent", "parent_value", "parent_lower95", "parent_upper95")
SCHEMA_OF_PLACES = pa.schema([*SCHEMA, *(pa.field(name, NOTES[name]) for name in _WITH)])


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


def test_places_on_both_sides_of_the_antimeridian_lie_beside_each_other() -> None:
    cells = [h3.latlng_to_cell(-16.8, lon, 7) for lon in (179.95, -179.95)]
    rows = pa.Table.from_pylist([row(cell, 6, 20.0) for cell in cells])
    head, _, body = gzip.decompress(packed(rows, NamedPlaces())).partition(b"\n")
    start = 0
    for name, kind, size in json.loads(head)["arrays"]:
        width = int(kind[1:])
        if name == "places.x":
            by_byte = np.frombuffer(body[start : start + width * size], np.uint8).reshape(width, size)
            degrees = np.cumsum(by_byte.T.copy().view("<i4").ravel()) / json.loads(head)["degree"]
        start += width * size
    assert np.ptp(degrees) < 0.2


def shown(page, hatstream, folder, files, link=""):
    code, out, err = hatstream("map", "--input", folder / files, "--output", folder / "map.html")
    assert (code, err) == (0, ""), out
    page.driver.get("about:blank")
    page.open(folder / "map.html", link)


def test_a_day_is_compared_with_what_is_usual_at_the_place_or_in_its_area(page, hatstream, folder):
    shown(page, hatstream, folder, "place-*.parquet", "show=difference")
    differences = asked(page, "DATA.places.id.map((_, place) => differenceAt(1, place))")
    assert differences[:3] == pytest.approx([0.0, 5.0, 4.0], abs=0.11)
    assert differences[3] is None  # known by itself that day, usually as its area
    assert asked(page, "state.show") == "difference"
    assert asked(page, "DATA.days") == [5, 6]
    assert "by 5 released days" in page.one("#when").text


def test_a_place_is_said_to_have_had_four_vehicles_where_rows_say_so(page, hatstream, folder):
    shown(page, hatstream, folder, "place-*.parquet")
    texts = asked(page, "DATA.places.id.map((_, place) => vehiclesText(1, place))")
    assert [text[:19] for text in texts] == ["At least 4 vehicles", "", "", ""]
    asked(page, "choose(0)")
    assert page.one("#p-vehicles").text == texts[0]


def test_a_day_beyond_its_interval_around_the_usual_is_said_to_be(page, hatstream, folder):
    shown(page, hatstream, folder, "place-*.parquet")
    texts = asked(page, "DATA.places.id.map((_, place) => differenceText(1, place))")
    assert [text.partition(": ")[2] for text in texts[:2]] == [
        "no more than noise explains",
        "beyond what noise explains",
    ]


def test_a_standing_map_is_the_usual_and_is_compared_with_nothing(page, hatstream, folder):
    ordinary = pq.read_table(folder / "place-standing.parquet")
    later = [row | {"slot_start": row["slot_start"].replace("05-1", "06-1")} for row in ordinary.to_pylist()]
    pq.write_table(pa.Table.from_pylist(later, schema=ordinary.schema), folder / "place-standing-2.parquet")
    shown(page, hatstream, folder, "place-standing*.parquet", f"place={CELLS[0]}")
    assert len(asked(page, "DATA.slots")) == 4
    assert page.one("#p-difference").text == ""
    assert set(asked(page, "DATA.places.id.map((_, place) => differenceText(3, place))")) == {""}
