"""`hatstream demo`, the sentence that a newspaper could print, and its made-up fleet: plausible, with real faults."""

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from dpops.allocation import Allocation
from hatstream_lab import made_up_fleet
from hatstream_lab.demo import steps
from hatstream_lab.made_up_fleet import EXPRESS, PACES, SCHEMA, MadeUpFleet, draw_town, simulate, write_sample
from pipelines.account.guarantee import Loss, sentence
from pipelines.cli import main
from pipelines.specification import load

MEANS = Path(__file__).parents[3] / "examples" / "hourly-means.toml"


@pytest.fixture
def small(monkeypatch):
    """Two days of a fleet that is soon driven."""
    fleets = [MadeUpFleet(vehicles=12, report_every_s=60.0, seed=day, day=date(2026, 5, 13 + day)) for day in range(2)]
    monkeypatch.setattr("hatstream_lab.demo.steps.made_up_fleets", lambda: fleets)


def test_the_summary_words_the_account_as_guarantees_do() -> None:
    loss, again = Loss(Fraction("2.635"), Fraction(1, 10**6), 1e-6), SimpleNamespace(digests=1, files=2)
    account = SimpleNamespace(most=loss, standing=[SimpleNamespace(days=28, loss=loss)])
    facts = {"account": account, "classes": [], "city_kmh": 18.2, "errors": None, "again": again, "pages": ""}
    lines = steps.summary(facts)
    assert lines[0].endswith(f"by {loss.factor_text()}.")
    assert lines[1].startswith(f"Days add up, those of 28 to {loss.rounded_up().factor_text()}")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_demo_says_in_fifteen_lines_how_near_the_truth_it_is(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) <= 15
    shown = " ".join(printed.split())
    for part in (
        "estimate",
        "constant",
        "holds the truth",
        "epsilon 2.64",
        "that it drove at all",
        "hexagons and of streets open",
        "streets: what is usual on them",
        "Days add up, those of 28 to at most a factor of 118,000,000 (epsilon 18.58), so large that the vehicle is "
        "hardly protected, but for a chance of ",
        "the same 3 digests",
    ):
        assert part in shown
    table = load(tmp_path / "town.toml").timetable
    hours = len(table.service_minutes)
    assert len(list((tmp_path / "hats").glob("hats-*"))) == 2 * hours
    assert len(list((tmp_path / "hats").glob("place-standing-*"))) == 2
    assert (tmp_path / "streets.html").stat().st_size < 500_000
    assert "Road at" in (tmp_path / "town-places.geojson").read_text()
    assert (tmp_path / "map.html").stat().st_size < 6_000_000


@pytest.mark.parametrize(
    ("hat", "spent", "text"),
    [
        (Fraction(1), Fraction(2), ["factor of 2.72 (epsilon 1)", "about one day", "factor of 7.39 (epsilon 2)"]),
        (Fraction(1, 10), Fraction(141), ["factor of 1.11", "10^62 (epsilon 141), so large that the"]),
    ],
)
def test_the_sentence_says_what_one_figure_and_all_of_them_give_away(hat, spent, text):
    for part in text:
        assert part in sentence(load(MEANS), (), hat, Loss(spent))


@pytest.mark.parametrize(("spent", "named"), [(2, "(epsilon 3)"), (5, "(epsilon 5)")])
def test_per_period_the_sentence_names_the_total_or_what_the_account_spent_beyond_it(spent, named):
    """Other specifications of the account may have spent more."""
    spec = load(MEANS)
    spec = replace(spec, privacy=replace(spec.privacy, allocation=Allocation(epsilon=Fraction(3), per="period")))
    assert named in sentence(spec, (), Fraction(1, 100), Loss(Fraction(spent)))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_demo_stops_where_a_second_run_counts_otherwise(tmp_path, monkeypatch):
    """The check must be able to fail: the second run is given the day's file without its last hundred reports."""
    again = steps.release

    def shorter(spec, ledger, pattern, *arguments):
        return again(spec, ledger, pattern if "*" in pattern else _shortened(Path(pattern)), *arguments)

    monkeypatch.setattr(steps, "release", shorter)
    with pytest.raises(RuntimeError, match="0 stages are new, 3 of 3 digests and 0 of"):
        steps.demonstrate(tmp_path, Console(quiet=True))


def _shortened(sample):
    table = pq.read_table(sample)
    path = sample.parent / "shorter" / sample.name
    path.parent.mkdir()
    pq.write_table(table.slice(0, table.num_rows - 100), path)
    return str(path)


FLEET = MadeUpFleet()
SMALL = MadeUpFleet(vehicles=8, routes=3, report_every_s=60)
MIDNIGHT = 1_778_652_000  # 2026-05-13 00:00 at UTC-6, as Unix time


@pytest.fixture(scope="module")
def day() -> pa.Table:
    return simulate(FLEET)


@pytest.fixture(scope="module")
def good(day: pa.Table) -> pa.Table:
    """The day without its faults and its duplicates, and the local hour of each report."""
    hour = (_seconds(day) - MIDNIGHT) / 3600
    driven = day.append_column("hour", pa.array(hour)).filter(pa.array((hour > 0) & (_numbers(day, "lat") != 0)))
    return driven.drop_null().group_by(driven.column_names).aggregate([])


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    return table[name].to_numpy()


def _seconds(table: pa.Table) -> npt.NDArray[np.int64]:
    return table["ts"].cast(pa.int64()).to_numpy() // 1_000_000


def test_a_seed_gives_the_same_bytes_every_time_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    paths = [tmp_path / "again.parquet", tmp_path / "once.parquet"]
    rows = [write_sample(SMALL, path) for path in paths]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    table = simulate(SMALL)
    assert (pq.read_table(paths[0]).equals(table), rows) == (True, [table.num_rows] * 2)
    assert sorted(tmp_path.iterdir()) == paths


def test_a_day_has_the_stated_columns_and_a_realistic_size(day: pa.Table) -> None:
    assert day.schema == SCHEMA
    assert 250_000 < day.num_rows < 350_000
    assert sorted(day["bus"].unique().to_pylist()) == [f"BUS-{bus:04d}" for bus in range(FLEET.vehicles)]


def test_a_bus_moves_as_fast_as_it_says(good: pa.Table) -> None:
    for bus in ("BUS-0000", "BUS-0060"):
        track = good.filter(pc.field("bus") == bus).sort_by("ts")
        lat, lon = _numbers(track, "lat"), _numbers(track, "lon") * np.cos(np.radians(FLEET.centre[0]))
        driven_km = 111.195 * np.hypot(np.diff(lat), np.diff(lon)).sum()
        assert driven_km / np.ptp(_numbers(track, "hour")) == pytest.approx(
            _numbers(track, "speed_kmh").mean(), rel=0.1
        )


def test_a_thousandth_of_the_reports_are_exact_duplicates(day: pa.Table) -> None:
    copies = day.num_rows - day.group_by(day.column_names).aggregate([]).num_rows
    assert 0.0008 < copies / day.num_rows < 0.0012


def test_a_thousandth_of_the_reports_are_faulty_in_three_ways(day: pa.Table) -> None:
    lost = (_numbers(day, "lat") == 0) & (_numbers(day, "lon") == 0)
    faults = np.array([lost.sum(), (_seconds(day) == 0).sum(), day["speed_kmh"].null_count])
    assert (faults / day.num_rows > 0.00025).all()
    assert 0.0008 < faults.sum() / day.num_rows < 0.0012


def test_service_keeps_local_hours_on_a_day_with_a_clock_change() -> None:
    table = simulate(replace(SMALL, zone="America/New_York", day=date(2026, 3, 8)))
    local = table.filter(pa.array(_seconds(table) > 0))["ts"].cast(pa.timestamp("us", tz="America/New_York"))
    assert pc.min(pc.hour(local)).as_py() >= 5
    assert set(pc.day(local).unique().to_pylist()) == {8}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("vehicles", 0, "vehicles must be at least 1, got 0"),
        ("routes", 0, "routes must be at least 1, got 0"),
        ("report_every_s", 0.5, r"report_every_s must be at least 1, got 0\.5"),
        ("centre", (89.0, 0.0), r"centre must have a latitude within \[-80, 80\], got 89\.0"),
    ],
)
def test_a_fleet_that_cannot_be_driven_is_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(FLEET, **{field: value})  # type: ignore[arg-type]


def test_streets_have_speeds_of_their_own_the_same_each_day_and_nothing_halts_on_an_expressway() -> None:
    town = replace(SMALL, town_seed=SMALL.seed, has_streets=True)
    routes, _ = draw_town(np.random.default_rng(town.seed), town)
    again, _ = draw_town(np.random.default_rng(99), replace(town, seed=99))
    assert [route.paces.tolist() for route in routes] == [route.paces.tolist() for route in again]
    assert len({pace for route in routes for pace in route.paces.tolist()}) == len(PACES)
    for route in routes:
        halts_m = route.along(made_up_fleet._draw_halts(np.random.default_rng(1), route, 10.0)[0])
        stops_m = halts_m[(halts_m > 1) & (halts_m < route.length_m - 1)]
        assert stops_m.size > 0
        assert (route.pace(stops_m) < EXPRESS).all()
