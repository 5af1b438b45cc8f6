"""`hatstream evaluate` of days that are released by levels, and of fusion: what it shows, and how it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from hatstream_lab.evaluation import fusion
from hatstream_lab.evaluation.cities import MadeUp, city_named, made_up
from hatstream_lab.evaluation.experiment import Table, experiment
from pipelines.cli import main
from tests import levels_city

SPEC = levels_city.SPEC.replace("vehicles = 50", "vehicles = 40")
PLACES = SPEC + "[places]\nresolution = 8\nshare = 0.25\n"
LINE = {"type": "LineString", "coordinates": [[72.83, 21.16], [72.83, 21.22]]}
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
    return folder


def evaluate(feed: Path, *arguments: str, command: str = "days", spec: str = "spec.toml") -> list[str]:
    data = ["--data", str(feed / "feed.csv"), "--spec", str(feed / spec), "--not-private"]
    epsilons = "--totals" if command == "days" else "--epsilons"
    return ["evaluate", command, *data, epsilons, "2.64", "--runs", "1", *arguments]


@pytest.mark.slow
def test_learned_estimates_are_beside_the_constant_and_drawn(feed, tmp_path, hatstream):
    code, out, err = hatstream(*evaluate(feed, "--totals", "30", "--noise", "delta", "--output", str(tmp_path)))
    assert code == 0, err
    assert out.count("NOT PRIVATE") == 8
    rows = json.loads((tmp_path / "days.json").read_text())["rows"]
    errors = {row["estimate"]: row for row in rows if row["part"] == "errors" and row["day"] == "all"}
    assert set(errors) == {"constant", "causal", "whole", "forecast"}
    assert errors["constant"]["rows"] > 0
    assert all(0 <= error["held_back"] <= 1 for error in errors.values())
    names = [path.name for path in sorted(tmp_path.glob("*.png"))]
    assert names == ["learned-days.png", "learned-intervals.png", "learned-totals.png"]
    assert all(path.stat().st_size < 60_000 for path in tmp_path.glob("*.png"))


@pytest.mark.slow
def test_distributions_are_beside_the_whole_feeds_own(feed, hatstream):
    code, out, err = hatstream(*evaluate(feed, "--json", "--noise", "delta", command="distributions"))
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert {(row["product"], row["percentile"]) for row in rows} == {
        (product, name) for product in ("days", "cell-part") for name in ("P15", "P50", "P85")
    }


@pytest.mark.slow
def test_made_up_cities_need_no_telemetry_and_each_has_its_rows(hatstream):
    cities = ["evaluate", "days", "--cities", "drawn 3, 19 buses in two hours", "--days", "2", "--totals", "10"]
    code, out, err = hatstream(*cities, "--noise", "delta", "--runs", "1", "--json")
    assert code == 0, err
    constant = [row for row in json.loads(out)["rows"] if row.get("estimate") == "constant" and row["day"] == "all"]
    assert [row["city"] for row in constant] == ["drawn 3", "19 buses in two hours"]


def places_of(out: str) -> list[dict]:
    return [row for row in json.loads(out)["rows"] if row["part"] == "places"]


def test_a_made_up_city_may_begin_with_a_day_without_a_report() -> None:
    assert city_named("odd 50", days=2).names == ["2024-01-02"]


def test_vehicles_in_a_depot_report_on_every_day() -> None:
    city = MadeUp(name="depot", kind="lines", vehicles=20, days=2, depot=0.1, first_day=(0.5, 0), seed=1)
    counted = made_up(city).counted.group_by("period").aggregate([("vehicle", "count_distinct")])
    assert counted.sort_by("period")["vehicle_count_distinct"].to_pylist() == [12, 22]


def test_a_range_of_dates_is_all_and_a_map_is_beside_the_constant_day_by_day(feed, hatstream):
    dates = ("--from", levels_city.DAYS[0], "--to", levels_city.DAYS[0])
    code, out, err = hatstream(*evaluate(feed, "--days", "2", "--json", *dates))
    assert code == 0, err
    assert json.loads(out)["days"] == ["2022-01-01", "2022-01-08"], "the day, and the same again a week later"
    rows = places_of(out)
    assert [(row["delta"], row["day"]) for row in rows] == [(None, 1), (None, 2), ("1e-06", 1), ("1e-06", 2)]
    assert len({round(row["constant"], 9) for row in rows}) == 1, "what truly was is the same with noise"


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
    code, out, err = hatstream(*evaluate(write_directed(tmp_path, spec), *ONE, "--json"))
    assert code == 0, err
    assert [row["constant"] for row in places_of(out)] == pytest.approx([10])


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
    code, out, err = hatstream(*evaluate(folder, *ONE, "--json"))
    assert code == 0, err
    assert [row["constant"] for row in places_of(out)] == pytest.approx([10], abs=0.1)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--noise", "loud"), 1, "'loud' is not one of"),
        (("--cities", "500 taxis"), 1, "give telemetry (--data) or made-up cities (--cities)"),
        (("--from", "2022-01-01"), 1, "--from and --to go together"),
        (("--to", "2022-01-01"), 1, "--from and --to go together"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(feed, hatstream, arguments, code, sentence):
    status, _, err = hatstream(*evaluate(feed, *arguments))
    assert (status, sentence in err) == (code, True), err


@pytest.fixture(scope="module")
def table() -> Table:
    """Four trials of 5,000 users for the means, and one of 1,000 for the distributions."""
    cells = [fusion.FusionCell("mean", "beta", config, 4, 5_000, 1) for config in fusion.EPSILONS["mean"]]
    cells += [
        fusion.FusionCell("distribution", "beta", config, 1, 1_000, 1) for config in fusion.EPSILONS["distribution"]
    ]
    table = experiment(None, cells, fusion.measure)
    return table.with_figures({"exact": fusion.exact_of, "agrees": fusion.agrees, "reference": fusion.reference_of})


def test_means_agree_with_exact_figures_and_those_with_the_reference(table: Table) -> None:
    """36 figures within 4 standard errors of exact ones and 6 of UWA near the reference; seed fixed."""
    agreed = [row["agrees"] for row in table.rows if row["agrees"] is not None]
    assert len(agreed) == 42
    assert all(agreed)
    for row in table.rows:
        if row["exact"] is not None and row["reference"] is not None:
            assert row["reference"] == pytest.approx(row["exact"], rel=0.007)


@pytest.mark.parametrize("column", ["uwa", "ua", "laplace"])
def test_a_wrong_figure_is_told(table: Table, column: str) -> None:
    """The check sees an error of a tenth, also where there is an exact figure."""
    [row] = table.where(table="mean", config="A1", column=column).rows
    assert fusion.agrees(row)
    assert fusion.agrees(row | {"value": row["value"] * 1.1}) is False


def test_fusing_beats_every_single_service(table: Table) -> None:
    for config in fusion.EPSILONS["mean"]:
        value_of = {row["column"]: row["value"] for row in table.where(table="mean", config=config).rows}
        assert value_of["fixed"] < min(value_of[name] for name in fusion.KINDS["mean"])
        assert value_of["fixed"] == pytest.approx(value_of["uwa"], rel=0.01)


def test_divergence_is_zero_of_equals_and_log_two_of_strangers() -> None:
    first, second = np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.25, 0.75])
    assert fusion.divergence(first, first) == 0
    assert fusion.divergence(first, second) == pytest.approx(np.log(2))


def test_tables_and_pictures_are_made(table: Table, tmp_path: Path) -> None:
    rows = [shown.row_count for shown in fusion.tables(table)]
    assert rows == [len(configs) for configs in fusion.EPSILONS.values()]
    paths = fusion.pictures(table, tmp_path)
    assert [path.name for path in paths] == ["fusion-means.png", "fusion-distributions-beta.png"]
    assert all(path.stat().st_size > 5_000 for path in paths)


@pytest.mark.slow
def test_the_command_prints_one_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("hatstream_lab.commands.evaluate.USERS", 500)
    monkeypatch.setattr(fusion, "BUCKETS", 16)
    assert main(["evaluate", "fusion", "--runs", "1", "--processes", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 6 * 7 + 2 * 4 * 4
