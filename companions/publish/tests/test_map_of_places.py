"""Maps of places, also across the antimeridian; result files read back, and the files that people write under a map."""

import gzip
import json

import h3
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from companions.city.tests import feeds as timetables
from companions.publish.tests.conftest import collected
from hatstream_city.timetable.town import read_town
from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.places import NamedPlaces, box_of, read_ground, read_places
from hatstream_publish.pages.rows import read_results, read_rows
from pipelines.errors import InputError
from pipelines.specification import load
from tests.city import AUSTIN
from tests.kit.results import CELLS, PARENT, WITH_PARENTS, known_of, row, write
from tests.servers import asked
from transforms.places.hexagons import cells_of_geojson
from transforms.sinks.published import OPTIONAL, SCHEMA
from transforms.sinks.rows import FORMATS, columns_in, schema_of

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
    return collected(folder / "places.geojson", [(geometry, {"name": "a"} if properties is None else properties)])


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


LISTS = schema_of(["distribution"])


def with_lists() -> list[dict[str, object]]:
    numbers = {name: 12.5 for name in LISTS.names if name not in SCHEMA.names}
    return [row(CELLS[0], 6, 12.0) | numbers | {"cdf": [0.25, 1.0], "statistic": "distribution"}]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("rows", "schema"),
    [
        ([row(CELLS[0], 6, 12.25), row(CELLS[1], 6, None)], SCHEMA),
        ([known_of(row(CELLS[0], 6, 12.25), PARENT, 20.5), known_of(row(CELLS[1], 6, None), PARENT, 3)], WITH_PARENTS),
        (with_lists(), LISTS),
    ],
    ids=["plain", "parents", "lists"],
)
def test_every_format_says_the_same(tmp_path, kind, rows, schema):
    path = tmp_path / f"hats.{kind}"
    path.write_bytes(FORMATS[kind](columns_in(rows, schema), schema, "stem"))
    assert read_rows([str(path)])[0].to_pylist() == pa.Table.from_pylist(rows, schema=schema).to_pylist()


def test_live_values_give_way_to_those_of_the_whole_day(tmp_path):
    live_by = {"mechanism": "levels-live"}
    live = [row(cell, 6, 9.0) | live_by for cell in CELLS[:2]]
    paths = [write(tmp_path / "live.parquet", live), write(tmp_path / "hats.parquet", [row(CELLS[0], 6, 12.0)])]
    paths.append(write(tmp_path / "live-later.parquet", [row(CELLS[1], 6, 7.0, day=14) | live_by]))
    rows = read_rows(list(map(str, paths)))[0].to_pylist()
    assert {(row["cell"], row["value"]) for row in rows} == {(CELLS[0], 12.0), (CELLS[1], 7.0)}


@pytest.mark.parametrize("extra", [{}, {"spec_id": "1" * 16}], ids=["another estimate", "another specification"])
def test_two_files_of_the_same_rows_are_one_and_different_values_are_refused(tmp_path, extra):
    paths = [str(write(tmp_path / f"{name}.parquet", [row(CELLS[0], 6, 12.0)])) for name in ("a", "b")]
    assert read_rows(paths)[0].num_rows == 1
    paths.append(str(write(tmp_path / "c.parquet", [row(CELLS[0], 6, 12.5) | extra])))
    with pytest.raises(InputError, match="different values of the same place and slot"):
        read_rows(paths)


def test_coarser_products_are_tables_of_their_own(tmp_path):
    rows = [row("city", hour, 12.0) | {"product": "city-hour"} for hour in (6, 7)]
    coarse = write(tmp_path / "city-hour.parquet", rows)
    hats = write(tmp_path / "hats.parquet", [row(CELLS[0], 6, 12.0)])
    tables = read_results([str(coarse), str(hats)])
    assert {name: table.num_rows for name, table in tables.items()} == {"hats": 1, "city-hour": 2}
    assert "product" not in tables["hats"].column_names
    with pytest.raises(InputError, match="coarser products"):
        read_rows([str(coarse)])


def test_what_no_page_can_hold_is_refused_in_a_sentence(tmp_path, hatstream):
    def refusal(rows: pa.Table) -> str:
        path = tmp_path / "hats.parquet"
        pq.write_table(rows, path)
        code, _, err = hatstream("map", "--input", path, "--output", tmp_path / "map.html")
        assert code == 4
        return err

    plain = pa.Table.from_pylist([row(CELLS[0], 6, 12.0)], schema=SCHEMA)
    repeated = plain.take(pa.array([0] * 20_000))
    index_of = SCHEMA.get_field_index
    starts = [f"2026-05-13T06:00:00.{slot:06}-06:00" for slot in range(20_000)]
    cells = [f"{number:x}" for number in range(20_000)]
    wide = repeated.set_column(index_of("slot_start"), "slot_start", pa.array(starts))
    wide = wide.set_column(index_of("cell"), "cell", pa.array(cells))
    assert "20,000 slots of 20,000 places" in refusal(wide)
    assert "is no H3 cell" in refusal(plain.set_column(index_of("cell"), "cell", pa.array(["x" * 5_000])))
    no_offset = plain.set_column(index_of("slot_start"), "slot_start", pa.array(["2026-05-13T06:00:00"]))
    assert "with a UTC offset" in refusal(no_offset)


def test_a_day_fills_no_hour_without_a_trip(tmp_path):
    """Rows of files that were written without the list are left out too."""
    path = write(tmp_path / "days.parquet", [row(cell, 0, 12.0) | {"product": "days"} for cell in CELLS[:2]])
    hats = write(tmp_path / "hats.parquet", [row(CELLS[0], hour, 12.0) for hour in (6, 7)])
    (tmp_path / "hours.csv").write_text(f"cell,weekdays,hours\n{CELLS[0]},wed,6\n{CELLS[1]},wed,7\n")
    (tmp_path / "spec.toml").write_text(AUSTIN.replace("minutes = 60", 'minutes = 60\ntrips = "hours.csv"'))
    spec, paths = load(tmp_path / "spec.toml"), [str(hats), str(path)]
    tables = [read_rows(paths, listed)[0].to_pylist() for listed in (None, spec)]
    shown = [{(row["cell"], row["slot_start"][11:13]) for row in rows} for rows in tables]
    assert shown[1] == {(CELLS[0], "06"), (CELLS[1], "07")}
    assert shown[0] == {(cell, hour) for cell in CELLS[:2] for hour in ("06", "07")}


FIJI = sorted(h3.grid_disk(h3.latlng_to_cell(-16.85, 180.0, 7), 3))


def degrees(cells, ground=()):
    """Longitudes of all positions of a map, of its places and of the ground under them."""
    rows = pa.Table.from_pylist([row(cell, 6, 12.0) for cell in cells], schema=SCHEMA)
    head, body = gzip.decompress(packed(rows, NamedPlaces(), ground)).split(b"\n", 1)
    longitudes, start = {}, 0
    for name, kind, size in json.loads(head)["arrays"]:
        width = int(kind[1:])
        if name.endswith(".x"):
            planes = np.frombuffer(body[start : start + width * size], np.uint8).reshape(width, size)
            longitudes[name.removesuffix(".x")] = planes.T.copy().view("<i4").ravel().cumsum() / 1e5
        start += width * size
    return longitudes["places"], longitudes["ground"]


def test_neighbours_across_the_antimeridian_are_neighbours_on_a_map():
    places, _ = degrees(FIJI)
    assert np.ptp(places) < 0.3


def test_a_box_across_the_antimeridian_has_its_west_in_the_east():
    west, south, east, north = box_of(NamedPlaces().place(cell).shape for cell in FIJI)
    assert (round(west), round(east)) == (180, -180)
    assert 179.8 < west < 180
    assert -180 < east < -179.8
    assert south < -16.85 < north


def test_a_timetable_s_line_across_the_antimeridian_does_not_lead_around_the_world(tmp_path):
    """Of 10 km, in two segments of 5.3 km each."""
    stops = "stop_id,stop_name,stop_lat,stop_lon\nA,West,-16.85,179.95\nB,Middle,-16.85,-180\nC,East,-16.85,-179.95\n"
    path = timetables.write(tmp_path / "feed.zip", {**timetables.FEED, "stops": stops})
    town = read_town(path, 7, directed=False)
    assert 5 <= len(town.cells) <= 8
    region = cells_of_geojson(msgspec.json.decode(town.files("t")["t-region.geojson"]), 7)
    assert {h3.int_to_str(cell) for cell in region} == town.cells
    lons = [lon for line in town.documents["ground"]["features"] for lon, _ in line["geometry"]["coordinates"]]
    assert max(lons) - min(lons) == pytest.approx(0.1)
    for segment in town.documents["segments"]["features"]:
        assert np.ptp(np.array(segment["geometry"]["coordinates"])[:, 0]) < 0.06
