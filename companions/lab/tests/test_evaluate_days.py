"""`hatstream evaluate` of days that are released by levels: what it shows of a small city, and how it refuses."""

import json
from pathlib import Path

import pytest

from tests import levels_city

SPEC = levels_city.SPEC.replace("vehicles = 50", "vehicles = 40")
PLACES = SPEC + "[places]\nresolution = 8\nshare = 0.25\n"
LINE = {"type": "LineString", "coordinates": [[72.83, 21.16], [72.83, 21.22]]}
FEATURES = [{"type": "Feature", "properties": {"name": "Ring Road"}, "geometry": LINE}]
WAYS = [{**LINE, "coordinates": LINE["coordinates"][::step]} for step in (1, -1)]
DIRECTED = [
    {"type": "Feature", "properties": {"name": name, "directed": True}, "geometry": way}
    for name, way in zip(("north", "south"), WAYS, strict=True)
]
HEADINGS = 'lat = "lat", heading = "way"'
ONE = ("--days", "1", "--noise", "delta")


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("city")
    levels_city.write(folder, spec=PLACES, lines=levels_city.rows(buses=40))
    (folder / "segments.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": FEATURES}))
    return folder


def evaluate(feed: Path, *more: str) -> list[str]:
    spec, data = str(feed / "spec.toml"), str(feed / "feed.csv")
    return ["evaluate", "--data", data, "--spec", spec, "--not-private", "--totals", "2.64", "--runs", "1", *more]


def test_live_values_are_beside_the_forecast_and_the_days_end(feed, tmp_path, hatstream):
    code, out, err = hatstream(*evaluate(feed, "--live", "--json", "--output", str(tmp_path)))
    assert code == 0, err
    document = json.loads(out)
    assert document == json.loads((tmp_path / "live.json").read_text())
    assert "NOT PRIVATE" in document["not_private"]
    errors = [row for row in document["rows"] if row["part"] == "errors"]
    assert {row["day"] for row in errors} == set(levels_city.DAYS[1:])
    assert {row["delta"] for row in document["rows"] if row["part"] == "storm"} == {None, "1e-06"}
    assert all(0 <= row["leans"] <= 1 for row in errors)


def test_learned_estimates_are_beside_the_constant_and_drawn(feed, tmp_path, hatstream):
    code, out, err = hatstream(
        *evaluate(feed, "--learned", "--totals", "30", "--noise", "delta", "--output", str(tmp_path))
    )
    assert code == 0, err
    assert out.count("NOT PRIVATE") == 7
    rows = json.loads((tmp_path / "learned.json").read_text())["rows"]
    errors = {row["estimate"]: row for row in rows if row["part"] == "errors" and row["day"] == "all"}
    assert set(errors) == {"constant", "causal", "whole", "forecast", "half"}
    assert errors["constant"]["rows"] > 0
    assert all(0 <= error["held_back"] <= 1 for error in errors.values())
    names = [path.name for path in sorted(tmp_path.glob("*.png"))]
    assert names == ["learned-days.png", "learned-intervals.png", "learned-totals.png"]
    assert all(path.stat().st_size < 60_000 for path in tmp_path.glob("*.png"))


def test_distributions_are_beside_the_whole_feeds_own(feed, hatstream):
    code, out, err = hatstream(*evaluate(feed, "--learned", "--distributions", "--json", "--noise", "delta"))
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert {(row["product"], row["percentile"]) for row in rows} == {
        (product, name) for product in ("cell-day", "cell-part") for name in ("P15", "P50", "P85")
    }


def test_made_up_cities_need_no_telemetry_and_each_has_its_rows(hatstream):
    cities = ["evaluate", "--learned", "--cities", "drawn 3, 19 buses in two hours", "--days", "2", "--totals", "10"]
    code, out, err = hatstream(*cities, "--noise", "delta", "--runs", "1", "--json", "--slower-from", "2")
    assert code == 0, err
    constant = [row for row in json.loads(out)["rows"] if row.get("estimate") == "constant" and row["day"] == "all"]
    assert [row["city"] for row in constant] == ["drawn 3", "19 buses in two hours"]


def test_a_range_of_dates_is_all_that_is_looked_at(feed, hatstream):
    dates = ("--from", levels_city.DAYS[1], "--to", levels_city.DAYS[2])
    code, out, err = hatstream(*evaluate(feed, "--live", "--noise", "delta", "--json", *dates))
    assert code == 0, err
    assert json.loads(out)["days"] == list(levels_city.DAYS[1:])


def test_a_map_is_beside_the_constant_day_by_day(feed, hatstream):
    dates = ("--from", levels_city.DAYS[0], "--to", levels_city.DAYS[0])
    code, out, err = hatstream(*evaluate(feed, "--places", "--days", "2", "--json", *dates))
    assert code == 0, err
    document = json.loads(out)
    assert document["days"] == ["2022-01-01", "2022-01-08"], "the day, and the same again a week later"
    assert [(row["delta"], row["day"]) for row in document["rows"]] == [
        (None, 1),
        (None, 2),
        ("1e-06", 1),
        ("1e-06", 2),
    ]
    assert len({round(row["constant"], 9) for row in document["rows"]}) == 1, "what truly was is the same with noise"


def write_directed(folder: Path, spec: str) -> Path:
    """Writes places of one direction, and buses of which one half goes north at 20 km/h, the other south at 40."""
    (folder / "ways.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": DIRECTED}))
    levels_city.write(folder, spec=spec)
    lines = [line.rpartition(",")[0] for line in levels_city.rows()]
    halves = [line + (",20,360" if "PLATE0" in line or "PLATE1" in line else ",40,180") for line in lines]
    (folder / "feed.csv").write_text("\n".join(["bus,ts,lat,lon,v,way", *halves, ""]))
    return folder


def test_places_of_one_direction_have_the_reports_that_go_their_way(tmp_path, hatstream):
    spec = PLACES.replace("resolution = 8", 'file = "ways.geojson"').replace('lat = "lat"', HEADINGS)
    code, out, err = hatstream(*evaluate(write_directed(tmp_path, spec), "--places", *ONE, "--json"))
    assert code == 0, err
    assert [row["constant"] for row in json.loads(out)["rows"]] == pytest.approx([10])


def test_derived_headings_and_speeds_are_evaluated(tmp_path, hatstream):
    """One half of the buses goes north at 20 km/h, the other south at 40; each starts anew every quarter of an hour."""
    derived = "derived_heading = { max_gap_s = 120, min_m = 30 }\nderived_speed = { max_gap_s = 120, max_kmh = 100 }\n"
    spec = PLACES.replace("resolution = 8", 'file = "ways.geojson"').replace(', speed = "v"', "")
    folder = write_directed(tmp_path, spec.replace("[places]", f"{derived}[places]"))
    lines = [
        f"PLATE{bus},{levels_city.DAYS[0]}T08:{quarter + minute:02d}:00+05:30,{lat:.7f},72.83"
        for bus in range(40)
        for quarter in range(0, 60, 15)
        for minute in range(8)
        for lat in [21.17 + minute / 60 * (20 if bus % 2 else -40) / 111.195 + (0 if bus % 2 else 0.045)]
    ]
    (folder / "feed.csv").write_text("\n".join(["bus,ts,lat,lon", *lines, ""]))
    code, out, err = hatstream(*evaluate(folder, "--places", *ONE, "--json"))
    assert code == 0, err
    assert [row["constant"] for row in json.loads(out)["rows"]] == pytest.approx([10], abs=0.1)


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        (("--places", "7"), 1, "from 8 to 15, finer than the cells'; it is 7"),
        (("--places", "nowhere.geojson"), 2, "nowhere.geojson"),
        (("--days", "3"), 1, "--days goes with --places and --learned"),
        (("--learned", "--noise", "loud"), 1, "--noise is pure, delta or pure,delta"),
        (("--learned", "--cities", "500 taxis"), 1, "in the place of --data"),
        (("--learned", "--slower-from", "2"), 1, "is one of --days"),
        (("--learned", "--from", "2022-01-01"), 1, "--from and --to go together"),
        (("--learned", "--to", "2022-01-01"), 1, "--from and --to go together"),
        (("--live", "--span-days", "28"), 1, "--span-days goes with --learned"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(feed, hatstream, more, code, sentence):
    status, _, err = hatstream(*evaluate(feed, *more))
    assert (status, sentence in err) == (code, True), err


def test_a_specification_without_places_has_none_of_its_own(tmp_path, hatstream):
    levels_city.write(tmp_path)
    code, _, err = hatstream(*evaluate(tmp_path, "--places"))
    assert (code, "needs a specification with [places]" in err) == (1, True), err
