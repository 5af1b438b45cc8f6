"""`hatstream evaluate --places`: what it shows of a small city, and how it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hatstream_lab.commands.evaluate_places import PlaceTable, _means, place_table
from hatstream_lab.evaluation.places import PlaceErrors
from tests import levels_city

SPEC = levels_city.SPEC.replace("vehicles = 50", "vehicles = 40") + "[places]\nresolution = 8\nshare = 0.25\n"
LINE = {"type": "LineString", "coordinates": [[72.83, 21.16], [72.83, 21.22]]}
FEATURES = [{"type": "Feature", "properties": {"name": "Ring Road"}, "geometry": LINE}]


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("city")
    levels_city.write(folder, spec=SPEC, lines=levels_city.rows(buses=40))
    (folder / "segments.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": FEATURES}))
    return folder


def evaluate(feed: Path, *more: str) -> list[str]:
    spec, data = str(feed / "spec.toml"), str(feed / "feed.csv")
    return ["evaluate", "--data", data, "--spec", spec, "--not-private", *more]


def test_a_map_is_beside_its_cells_the_constant_and_no_noise_day_by_day(feed, tmp_path, hatstream):
    day = ("--from", levels_city.DAYS[0], "--to", levels_city.DAYS[0], "--days", "2")
    code, out, _ = hatstream(*evaluate(feed, "--places", *day, "--json", "--output", str(tmp_path)))
    assert code == 0
    document = json.loads(out)
    assert document == json.loads((tmp_path / "places.json").read_text())
    assert "NOT PRIVATE" in document["not_private"]
    assert (document["places"], document["cells"], document["share"]) == (28, 4, 0.25)
    assert [(table["total"], table["delta"]) for table in document["tables"]] == [("2.64", None), ("2.64", "1e-06")]
    for table in document["tables"]:
        assert [row["day"] for row in table["days"]] == [1, 2], "the day, and the same again"
        for noisy, exact in zip(table["days"], table["exact"], strict=True):
            assert noisy["constant"] == pytest.approx(exact["constant"]), "what truly was is the same with noise"
            assert exact["learned"] < noisy["learned"] + 0.5
            assert 0 <= noisy["known"] <= 1


@pytest.mark.parametrize(("which", "places"), [("9", 196), ("segments.geojson", 1)])
def test_other_places_than_the_specifications_may_be_named(feed, hatstream, which, places):
    named = which if which.isdecimal() else str(feed / which)
    code, out, _ = hatstream(*evaluate(feed, "--places", named, "--days", "1", "--json"))
    assert (code, json.loads(out)["places"]) == (0, places)


WAYS = [{**LINE, "coordinates": LINE["coordinates"][::step]} for step in (1, -1)]
DIRECTED = [
    {"type": "Feature", "properties": {"name": name, "directed": True}, "geometry": way}
    for name, way in zip(("north", "south"), WAYS, strict=True)
]
HEADINGS = 'lat = "lat", heading = "way"'


def write_directed(folder: Path, spec: str) -> Path:
    """Writes places of one direction, and buses of which one half goes north at 20 km/h, the other south at 40."""
    (folder / "ways.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": DIRECTED}))
    levels_city.write(folder, spec=spec)
    lines = [line.rpartition(",")[0] for line in levels_city.rows()]
    halves = [line + (",20,360" if "PLATE0" in line or "PLATE1" in line else ",40,180") for line in lines]
    (folder / "feed.csv").write_text("\n".join(["bus,ts,lat,lon,v,way", *halves, ""]))
    return folder


def test_places_of_one_direction_have_the_reports_that_go_their_way(tmp_path, hatstream):
    spec = SPEC.replace("resolution = 8", 'file = "ways.geojson"').replace('lat = "lat"', HEADINGS)
    code, out, _ = hatstream(*evaluate(write_directed(tmp_path, spec), "--places", "--days", "1", "--json"))
    assert code == 0
    assert [table["exact"][0]["constant"] for table in json.loads(out)["tables"]] == pytest.approx([10, 10])


def test_feeds_that_lack_headings_and_speeds_are_evaluated_by_those_that_are_derived(tmp_path, hatstream):
    """One half of the buses goes north at 20 km/h, the other south at 40; each starts anew every quarter of an hour."""
    derived = "derived_heading = { max_gap_s = 120, min_m = 30 }\nderived_speed = { max_gap_s = 120, max_kmh = 100 }\n"
    spec = SPEC.replace("resolution = 8", 'file = "ways.geojson"').replace(', speed = "v"', "")
    folder = write_directed(tmp_path, spec.replace("[places]", f"{derived}[places]"))
    lines = [
        f"PLATE{bus},{levels_city.DAYS[0]}T08:{quarter + minute:02d}:00+05:30,{lat:.7f},72.83"
        for bus in range(40)
        for quarter in range(0, 60, 15)
        for minute in range(8)
        for lat in [21.17 + minute / 60 * (20 if bus % 2 else -40) / 111.195 + (0 if bus % 2 else 0.045)]
    ]
    (folder / "feed.csv").write_text("\n".join(["bus,ts,lat,lon", *lines, ""]))
    code, out, err = hatstream(*evaluate(folder, "--places", "--days", "1", "--json"))
    assert code == 0, err
    assert [table["exact"][0]["constant"] for table in json.loads(out)["tables"]] == pytest.approx([10, 10], abs=0.1)


def test_places_of_one_direction_are_refused_where_nobody_reads_headings(tmp_path, hatstream):
    folder = write_directed(tmp_path, SPEC)
    code, _, err = hatstream(*evaluate(folder, "--places", str(folder / "ways.geojson")))
    assert (code, "rows are read without headings: name the file under [places]" in err) == (4, True), err


def test_places_at_which_nobody_reports_are_refused(feed, tmp_path, hatstream):
    aside = {**LINE, "coordinates": [[72.835, 21.18], [72.836, 21.18]]}
    features = [{"type": "Feature", "properties": {"name": "aside"}, "geometry": aside}]
    (tmp_path / "aside.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    code, _, err = hatstream(*evaluate(feed, "--places", str(tmp_path / "aside.geojson")))
    assert (code, "no report lies at any of them" in err) == (4, True), err


def test_the_table_says_that_it_is_not_private(feed, hatstream):
    code, out, _ = hatstream(*evaluate(feed, "--places", "--days", "1", "--totals", "1"))
    assert code == 0
    assert out.count("NOT PRIVATE") == 4
    assert "28 places in 4 cells, 3 days, 1 run" in out
    assert all(name in out for name in ("learned", "as shown", "cell", "constant", "no noise"))


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--places", "7"), 1, "from 8 to 15, finer than the cells'; it is 7"),
        (("--places", "nowhere.geojson"), 4, "nowhere.geojson: No such file or directory"),
        (("--days", "3"), 1, "--days goes with --places"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(feed, hatstream, more, code, said):
    got, _, err = hatstream(*evaluate(feed, *more))
    assert (got, said in err) == (code, True), err


def test_a_file_that_is_no_collection_is_refused(feed, hatstream):
    code, _, err = hatstream(*evaluate(feed, "--places", str(feed / "feed.csv")))
    assert (code, "feed.csv is no GeoJSON" in err) == (4, True)
    (feed / "empty.geojson").write_text("{}")
    code, _, err = hatstream(*evaluate(feed, "--places", str(feed / "empty.geojson")))
    assert (code, "FeatureCollection" in err) == (4, True)


def test_a_specification_without_places_has_none_of_its_own(tmp_path, hatstream):
    levels_city.write(tmp_path)
    code, _, err = hatstream(*evaluate(tmp_path, "--places"))
    assert (code, "needs a specification with [places]" in err) == (1, True)


def test_true_values_are_asked_for_by_name(feed, hatstream):
    arguments = [argument for argument in evaluate(feed, "--places") if argument != "--not-private"]
    code, _, err = hatstream(*arguments)
    assert (code, "--not-private" in err) == (1, True)


ERRORS = PlaceErrors(day=1, learned=2.0, copied=5.0, constant=9.0, known=0.5, held=0.9, published=3.0)


def test_runs_are_averaged_and_a_run_that_knows_no_place_says_nothing_of_intervals():
    (mean,) = _means([[ERRORS], [replace(ERRORS, learned=4.0, held=np.nan)]])
    assert (mean.learned, mean.held) == (3.0, 0.9)
    (none,) = _means([[replace(ERRORS, held=np.nan)]])
    assert np.isnan(none.held)
    shown = place_table(PlaceTable(total="1", delta=None, days=[none], exact=[ERRORS]))
    row = [next(iter(column.cells)) for column in shown.columns]
    assert row == ["1", "2.00", "3.00", "5.00", "9.00", "2.00", "0.50", "-"]
