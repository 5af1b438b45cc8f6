"""A day's look at places: what a specification may say of them, what is recorded, and what stays as it was."""

import json
from fractions import Fraction
from pathlib import Path

import h3
import numpy as np
import pytest

from pipelines.specification import SpecificationError, load
from tests import city, levels_city
from tests.levels_city import CELLS, DAYS, SPEC, opened
from tests.pipelines.commands.releases import entries, released, rows_of, sums_of
from transforms.places.ground import NOWHERE, hexagon_pieces
from transforms.recorded.stage_plan import as_stored, part_of, stage_of
from transforms.releases.periods import stages
from transforms.wire import Tally

HEXAGONS = "[places]\nresolution = 9\n"
LINE = {
    "type": "Feature",
    "properties": {"name": "Ring Road"},
    "geometry": {"type": "LineString", "coordinates": [[72.83, 21.16], [72.83, 21.22]]},
}
FILE = {"type": "FeatureCollection", "features": [LINE]}
OF_FILE = '[places]\nfile = "segments.geojson"\nshare = 0.25\n'


def loaded(folder: Path, more: str, document: object = FILE, spec: str = SPEC) -> object:
    (folder / "segments.geojson").write_text(json.dumps(document))
    return city.loaded(folder, spec + more)


def of_places(folder: Path) -> list[object]:
    return [entry.unit for entry in entries(folder) if part_of(entry.unit) == "places"]


def test_each_day_ends_with_a_look_at_places_and_is_debited_once_for_all(tmp_path, hatstream):
    opened(tmp_path, hatstream, spec=SPEC + HEXAGONS)
    summary = released(tmp_path, hatstream, end=DAYS[1])
    shares = [[stage["share"] for stage in period["stages"]] for period in summary["periods"]]
    assert shares == [["21/100", "49/100", "3/10"], ["7/10", "3/10"]]
    assert sum(map(Fraction, shares[0])) == sum(map(Fraction, shares[1])) == 1
    units = of_places(tmp_path)
    places = 4 * 7**2
    assert [len(unit.integers) for unit in units] == [2 * places] * 2


@pytest.mark.slow
def test_a_recorded_look_at_places_is_read_back_as_it_was_planned(tmp_path, hatstream):
    opened(tmp_path, hatstream, spec=SPEC + HEXAGONS)
    released(tmp_path, hatstream, end=DAYS[0])
    (unit,) = of_places(tmp_path)
    spec = load(tmp_path / "spec.toml")
    stage = stage_of(unit, spec.cells.region, spec.ground.places)
    assert stage.laid.centres.shape == (196, 4)
    assert as_stored(stage) == unit.plan
    with pytest.raises(ValueError, match="needs the places"):
        stage_of(unit, spec.cells.region)


@pytest.mark.slow
def test_what_was_released_of_places_has_their_names(tmp_path, hatstream):
    (tmp_path / "segments.geojson").write_text(json.dumps(FILE))
    opened(tmp_path, hatstream, spec=SPEC + OF_FILE)
    released(tmp_path, hatstream, end=DAYS[0])
    sums = sums_of(tmp_path, hatstream)
    assert [row["cell"] for row in sums if row["level"] == "place"] == ["Ring Road"]


def test_places_and_their_share_decide_the_id_and_nothing_does_where_there_are_none(tmp_path):
    moved = {**LINE, "geometry": {"type": "LineString", "coordinates": [[72.83, 21.16], [72.83, 21.20]]}}
    specs = [
        loaded(tmp_path, ""),
        loaded(tmp_path, HEXAGONS),
        loaded(tmp_path, "[places]\nresolution = 8\n"),
        loaded(tmp_path, HEXAGONS + "share = 0.2\n"),
        loaded(tmp_path, OF_FILE),
        loaded(tmp_path, OF_FILE, {**FILE, "features": [moved]}),
        loaded(tmp_path, OF_FILE + "buffer_m = 40\n"),
    ]
    assert len({spec.spec_id for spec in specs}) == len(specs)
    assert "places" not in specs[0].text
    spaced = loaded(tmp_path, OF_FILE, FILE | {"note": "what is beside the features decides nothing"})
    assert spaced.spec_id == specs[4].spec_id


def test_places_with_a_direction_need_headings_and_are_other_places(tmp_path):
    positions = LINE["geometry"]["coordinates"]
    ways = [
        {
            **LINE,
            "properties": {"name": name, "directed": True},
            "geometry": {"type": "LineString", "coordinates": there},
        }
        for name, there in (("north", positions), ("south", positions[::-1]))
    ]
    both, undirected = FILE | {"features": ways}, FILE | {"features": [{**LINE, "properties": {"name": "north"}}]}
    headed = SPEC.replace('speed = "v"', 'heading = "h", speed = "v"')
    spec = loaded(tmp_path, OF_FILE, both, headed)
    assert spec.input.layout.fields[-2:] == ("heading", "speed")
    turned = both | {
        "features": [{**ways[0], "geometry": ways[1]["geometry"]}, {**ways[1], "geometry": ways[0]["geometry"]}]
    }
    assert loaded(tmp_path, OF_FILE, turned, headed).spec_id != spec.spec_id
    with pytest.raises(SpecificationError, match="they need one"):
        loaded(tmp_path, OF_FILE, both)
    with pytest.raises(SpecificationError, match="a heading goes with places that have the property directed"):
        loaded(tmp_path, OF_FILE, undirected, headed)


VISITS = HEXAGONS + 'visits = "trips.csv"\n'


def test_public_visits_are_read_by_place_and_decide_the_id(tmp_path):
    names = loaded(tmp_path, HEXAGONS).ground.places.names
    (tmp_path / "trips.csv").write_text(f"place,vehicles\n{names[3]},40\n{names[0]},0\n")
    spec = loaded(tmp_path, VISITS)
    visits = np.array(spec.ground.places.visits)
    assert visits[3] == 40
    assert set(visits.tolist()) == {40, 0.05 * 40 / len(names)}, "what the table leaves out is hardly visited"
    (tmp_path / "trips.csv").write_text(f"place,vehicles\n{names[3]},41\n")
    assert loaded(tmp_path, VISITS).spec_id != spec.spec_id
    assert loaded(tmp_path, HEXAGONS).spec_id != spec.spec_id


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "places.visits: No such file or directory"),
        ("cell,vehicles\n", "visits needs the columns place and vehicles"),
        ("place,vehicles\nnowhere,1\n", "line 2 needs the name of a place"),
        ("place,vehicles\nNAME,1\nNAME,2\n", "line 3 needs the name of a place, each once"),
        ("place,vehicles\nNAME,-1\n", "line 2 needs vehicles from 0"),
        ("place,vehicles\nNAME,nan\n", "line 2 needs vehicles from 0"),
        ("place,vehicles\nNAME\n", "line 2 needs vehicles from 0"),
        ("place,vehicles\nNAME,0\n", "visits needs a place with vehicles"),
        ("place,vehicles\n\nNAME,many\n", "line 3 needs vehicles from 0"),
        ("place,vehicles\nNA\rME,1\n", "line 2 is no row of CSV"),
        ("place,vehicles\n" + "x" * 200_000 + ",1\n", "line 2 is no row of CSV"),
        ("place,vehicles\nAlmstra\udcdfe,1\n", "places.visits: is no text in UTF-8: 'trips.csv'"),
    ],
)
def test_visits_that_are_none_are_refused(tmp_path, content, said):
    name = loaded(tmp_path, HEXAGONS).ground.places.names[0]
    if content is not None:
        text = content.replace("NAME", name)
        (tmp_path / "trips.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SpecificationError, match=said):
        loaded(tmp_path, VISITS)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[places]\n", "needs resolution or file, one of them; it is 'neither'"),
        ('[places]\nresolution = 9\nfile = "segments.geojson"\n', "one of them; it is 'both'"),
        ("[places]\nresolution = 7\n", "finer than the region's resolution 7; they have 7"),
        ("[places]\nresolution = 13\n", "gives more than 200,000 places"),
        ("[places]\nresolution = 9\nshare = 1\n", "share must be above 0 and below 1"),
        ("[places]\nresolution = 9\nbuffer_m = 9\n", "places.buffer_m goes with places.file"),
        ('[places]\nfile = "nowhere.geojson"\n', "places.file: No such file or directory"),
        ('[places]\nfile = "spec.toml"\n', "places.file: 'spec.toml' is no GeoJSON: "),
        ("[places]\nresolution = 9\n[live]\n", "goes without \\[live\\]"),
        ("[places]\nresolutoin = 9\n", "unknown field `resolutoin`"),
    ],
)
def test_what_places_may_not_be_is_refused_in_one_sentence(tmp_path, more, said):
    with pytest.raises(SpecificationError, match=said):
        loaded(tmp_path, more)


def test_what_a_vehicle_did_in_pieces_of_one_cell_is_added_up():
    region = tuple(sorted(int(cell, 16) for cell in CELLS))
    pieces = hexagon_pieces(region, 8)
    of_cell = np.flatnonzero(pieces.cell[len(region) :] == 1) + len(region)
    number, slots = of_cell.size, (0, 3_600)
    columns = [np.zeros(number, np.int64), np.full(number, 5), of_cell, np.arange(1, number + 1), np.zeros(number)]
    tally = Tally(*(column.astype(np.int64) for column in columns), sums={"sums": 100 * np.arange(1, number + 1)})
    rows = stages.rows_of(tally, pieces.cell[of_cell], slots)
    assert [column.tolist() for column in rows] == [[5], [1], [0], [28], [2_800]]
    by_place = stages.rows_of(tally, pieces.place[of_cell], slots)
    assert by_place.reports.tolist() == list(range(1, number + 1))
    nowhere = stages.rows_of(tally, np.full(number, NOWHERE), slots)
    assert all(column.size == 0 for column in nowhere)


PRODUCTS = (
    '[[output]]\nproduct = "place-standing"\n[[output]]\nproduct = "place-day"\n[[output]]\nproduct = "place-slot"\n'
    '[[output]]\nproduct = "place-part"\nparts = ["08:00-10:00"]\n'
)


def products(folder: Path, day: str = DAYS[1]) -> dict[str, list[dict[str, str]]]:
    paths = (folder / "out").glob(f"place-*{day.replace('-', '')}T*.csv")
    return {path.name.rsplit("-", 2)[0]: rows_of(path) for path in paths}


@pytest.mark.slow
def test_every_place_has_a_row_in_every_product_of_places(tmp_path, hatstream):
    opened(tmp_path, hatstream, spec=SPEC + HEXAGONS + PRODUCTS, lines=levels_city.rows(buses=40))
    released(tmp_path, hatstream, end=DAYS[1])
    rows_of_products = products(tmp_path)
    rows = {name: len(of_product) for name, of_product in rows_of_products.items()}
    assert rows == {"place-standing": 196, "place-day": 196, "place-slot": 4 * 196, "place-part": 196}
    for row in (row for of_product in rows_of_products.values() for row in of_product):
        assert row["cell"] == row["place"]
        assert row["status"] in ("ok", "parent", "unreliable", "held-back")
        assert bool(row["value"]) == (row["status"] != "held-back")
        assert (row["parent"] in CELLS) == bool(row["parent_value"]) == (row["status"] == "parent")
        if row["value"]:
            assert 0 <= float(row["lower95"]) <= float(row["value"]) <= float(row["upper95"]) <= 65
    (part,) = {(row["slot_start"][11:16], row["slot_end"][11:16]) for row in rows_of_products["place-part"]}
    assert part == ("08:00", "10:00")


@pytest.mark.slow
def test_a_place_of_one_van_is_never_said_to_have_four_vehicles_and_one_of_forty_buses_is(tmp_path, hatstream):
    loud = SPEC.replace("limit = 2.64", "limit = 100").replace("epsilon = 2.64", "epsilon = 100")
    bus = levels_city.rows(buses=40)
    van = [line.replace("PLATE0,", "VAN,").replace(",21.17,", ",21.175,") for line in bus if line.startswith("PLATE0,")]
    opened(tmp_path, hatstream, spec=loud + HEXAGONS + PRODUCTS, lines=bus + van)
    released(tmp_path, hatstream, end=DAYS[1])
    place_of = {name: h3.latlng_to_cell(lat, 72.83, 9) for name, lat in (("buses", 21.17), ("van", 21.175))}
    assert place_of["buses"] != place_of["van"]
    for rows in products(tmp_path).values():
        counts = {
            name: {row["vehicles_at_least"] for row in rows if row["place"] == place}
            for name, place in place_of.items()
        }
        assert counts == {"buses": {"4"}, "van": {""}}


@pytest.mark.slow
def test_estimates_made_again_are_those_that_were_published(tmp_path, hatstream):
    opened(tmp_path, hatstream, spec=SPEC + HEXAGONS, lines=levels_city.rows(buses=40))
    released(tmp_path, hatstream, end=DAYS[1])
    assert hatstream(*city.estimate(tmp_path, "out", "--product", "place-standing", start=DAYS[1]))[0] == 0
    again = products(tmp_path)["place-standing"]
    assert len(again) == 196
    (tmp_path / "spec.toml").write_text(SPEC + HEXAGONS + PRODUCTS)
    released(tmp_path, hatstream, end=DAYS[1])
    assert products(tmp_path)["place-standing"] == again


@pytest.mark.slow
def test_places_of_a_file_have_their_lines_in_files_and_on_the_map(tmp_path, hatstream):
    spec = SPEC + OF_FILE + '[[output]]\nproduct = "place-standing"\n'
    (tmp_path / "segments.geojson").write_text(json.dumps(FILE))
    opened(tmp_path, hatstream, spec=spec)
    where = ("--spec", tmp_path / "spec.toml", "--ledger", tmp_path / "ledger.sqlite", "--input", tmp_path / "feed.csv")
    days = ("--from", DAYS[0], "--to", DAYS[1], "--output", tmp_path / "o", "--formats", "geojson,avro,jsonl,parquet")
    assert hatstream("release", *map(str, where + days))[0] == 0
    written = sorted((tmp_path / "o").glob("place-standing-*.geojson"))
    for number, path in enumerate(written, 1):
        (feature,) = json.loads(path.read_text())["features"]
        assert feature["geometry"] == LINE["geometry"]
        assert (feature["properties"]["place"], feature["properties"]["days"]) == ("Ring Road", number)
    pattern, page = str(tmp_path / "o" / "place-standing-*.jsonl"), tmp_path / "map.html"
    asked = ("map", "--input", pattern, "--output", str(page))
    assert "has no shape: name the specification (--spec)" in hatstream(*asked)[2]
    drawn = city.told(hatstream, *asked, "--spec", str(tmp_path / "spec.toml"))
    assert (drawn["places"], drawn["slots"]) == (1, 2)


def test_checking_an_input_counts_the_reports_that_a_place_has_by_their_heading(tmp_path, hatstream):
    """Of a feed whose headings are unknown or in words no report is a directed place's, which a release cannot say."""
    north = {**LINE, "properties": {"name": "north", "directed": True}}
    headed = SPEC.replace('speed = "v"', 'heading = "h", speed = "v"')
    loaded(tmp_path, OF_FILE, FILE | {"features": [north]}, headed)
    lines = [line.rstrip() for line in levels_city.rows(days=DAYS[:1])]
    checked = city.release(tmp_path, "--check-input", start=DAYS[0], end=DAYS[0])
    for heading, there in (("360", 48), ("180", 0), ("N", 0)):
        (tmp_path / "feed.csv").write_text("\n".join(["bus,ts,lat,lon,v,h", *(f"{line},{heading}" for line in lines)]))
        (period,) = city.told(hatstream, *checked)["operator_only"]["periods"]
        assert (period["rows"], period["at_places"]) == (48, there)
    assert "at places" in city.done(hatstream, *checked)
    derived = "[input]\nderived_heading = { max_gap_s = 900, min_m = 30 }"
    loaded(tmp_path, OF_FILE, FILE | {"features": [north]}, SPEC.replace("[input]", derived))
    (period,) = city.told(hatstream, *checked)["operator_only"]["periods"]
    assert (period["rows"], period["at_places"]) == (48, 24), "those on their way north, from row to row"
