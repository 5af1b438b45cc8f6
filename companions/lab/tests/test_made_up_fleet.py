"""The made-up fleet: the same for a seed, plausible as traffic, and with the faults of a real feed."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import h3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hatstream_lab.made_up_fleet import (
    EXPRESS,
    PACES,
    SCHEMA,
    MadeUpFleet,
    _draw_halts,
    draw_town,
    simulate,
    write_sample,
)

FLEET = MadeUpFleet()
SMALL = MadeUpFleet(vehicles=8, routes=3, report_every_s=60)
MIDNIGHT = 1_778_652_000  # 2026-05-13 00:00 at UTC-6, as Unix time
NEAR_CENTRE_M = 2_500


@pytest.fixture(scope="module")
def day() -> pa.Table:
    return simulate(FLEET)


@pytest.fixture(scope="module")
def good(day: pa.Table) -> pa.Table:
    """The day without its faults and its duplicates, and the local hour of each report."""
    hour = (_seconds(day) - MIDNIGHT) / 3600
    kept = day.append_column("hour", pa.array(hour)).filter(pa.array((hour > 0) & (_numbers(day, "lat") != 0)))
    return kept.drop_null().group_by(kept.column_names).aggregate([])


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    return table[name].to_numpy()


def _seconds(table: pa.Table) -> npt.NDArray[np.int64]:
    return table["ts"].cast(pa.int64()).to_numpy() // 1_000_000


def _from_centre_m(table: pa.Table) -> npt.NDArray[np.float64]:
    (lat, lon), per_degree = FLEET.centre, 111_195
    north, east = _numbers(table, "lat") - lat, (_numbers(table, "lon") - lon) * np.cos(np.radians(lat))
    return per_degree * np.hypot(north, east)


def _mean_kmh(table: pa.Table, near_centre: bool, first_hour: float, last_hour: float) -> float:
    hour, near = _numbers(table, "hour"), _from_centre_m(table) < NEAR_CENTRE_M
    chosen = (near == near_centre) & (hour >= first_hour) & (hour < last_hour)
    return float(_numbers(table, "speed_kmh")[chosen].mean())


def _reports_per_bus(table: pa.Table) -> npt.NDArray[np.int64]:
    return np.sort(table["bus"].value_counts().field("counts").to_numpy())


def test_a_seed_gives_the_same_bytes_every_time(tmp_path: Path) -> None:
    paths = [tmp_path / "once.parquet", tmp_path / "again.parquet"]
    rows = [write_sample(SMALL, path) for path in paths]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert rows == [pq.read_metadata(path).num_rows for path in paths]


def test_another_seed_gives_another_day() -> None:
    assert not simulate(SMALL).equals(simulate(replace(SMALL, seed=8)))


def test_the_file_holds_the_table_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_sample(SMALL, tmp_path / "day.parquet")
    assert pq.read_table(tmp_path / "day.parquet").equals(simulate(SMALL))
    assert [path.name for path in tmp_path.iterdir()] == ["day.parquet"]


def test_a_day_has_the_stated_columns_and_a_realistic_size(day: pa.Table) -> None:
    assert day.schema == SCHEMA
    assert 250_000 < day.num_rows < 350_000
    assert sorted(day["bus"].unique().to_pylist()) == [f"BUS-{bus:04d}" for bus in range(FLEET.vehicles)]


def test_reports_are_sorted_by_time_in_whole_seconds(day: pa.Table) -> None:
    assert (np.diff(day["ts"].cast(pa.int64()).to_numpy()) >= 0).all()
    assert (day["ts"].cast(pa.int64()).to_numpy() % 1_000_000 == 0).all()


def test_buses_run_from_five_to_midnight_local_time(good: pa.Table) -> None:
    hour = _numbers(good, "hour")
    assert 5.0 <= hour.min() < 5.5
    assert 23.0 < hour.max() < 24.0


def test_more_buses_run_in_the_rush_hours(good: pa.Table) -> None:
    hour = np.floor(_numbers(good, "hour"))
    running = {clock: len(good.filter(pa.array(hour == clock))["bus"].unique()) for clock in (8, 13, 17, 22)}
    assert min(running[8], running[17]) > 1.2 * running[13]
    assert running[13] > running[22] > 0


def test_duties_last_six_to_sixteen_hours(good: pa.Table) -> None:
    spans = good.group_by("bus").aggregate([("hour", "min"), ("hour", "max")])
    hours = _numbers(spans, "hour_max") - _numbers(spans, "hour_min")
    assert 5.9 < hours.min() < 7 < 15 < hours.max() < 16


def test_a_bus_stands_still_a_quarter_to_two_fifths_of_its_time(good: pa.Table) -> None:
    assert 0.25 < np.mean(_numbers(good, "speed_kmh") == 0) < 0.40


def test_speeds_are_those_of_city_buses(good: pa.Table) -> None:
    speed_kmh = _numbers(good, "speed_kmh")
    assert speed_kmh.min() == 0
    assert 45 < speed_kmh.max() < 55
    assert 14 < speed_kmh.mean() < 22


def test_the_rush_hour_is_slower_than_midday_and_in_the_centre_most(good: pa.Table) -> None:
    midday, outside_midday = (_mean_kmh(good, near_centre, 11, 14) for near_centre in (True, False))
    for first_hour, last_hour in ((7, 9), (16, 19)):
        rush, outside_rush = (_mean_kmh(good, near_centre, first_hour, last_hour) for near_centre in (True, False))
        assert rush < 0.85 * midday
        assert rush / midday < outside_rush / outside_midday < 1


def test_the_centre_is_slower_than_the_outskirts(good: pa.Table) -> None:
    assert _mean_kmh(good, True, 5, 24) < 0.85 * _mean_kmh(good, False, 5, 24)


def test_a_bus_moves_as_fast_as_it_says(good: pa.Table) -> None:
    for bus in ("BUS-0000", "BUS-0060"):
        track = good.filter(pc.field("bus") == bus).sort_by("ts")
        lat, lon = _numbers(track, "lat"), _numbers(track, "lon") * np.cos(np.radians(FLEET.centre[0]))
        driven_km = 111.195 * np.hypot(np.diff(lat), np.diff(lon)).sum()
        assert driven_km / np.ptp(_numbers(track, "hour")) == pytest.approx(
            _numbers(track, "speed_kmh").mean(), rel=0.1
        )


def test_a_few_heavy_users_report_four_or_five_times_as_often_all_day(good: pa.Table) -> None:
    reports = _reports_per_bus(good)
    assert (reports > 5 * np.median(reports)).sum() == 6
    assert reports[-7] < 3 * np.median(reports)


def test_good_positions_lie_in_the_stated_box(good: pa.Table) -> None:
    west, south, east, north = FLEET.bbox
    lat, lon = _numbers(good, "lat"), _numbers(good, "lon")
    assert ((lat >= south) & (lat <= north) & (lon >= west) & (lon <= east)).all()


def test_the_day_covers_a_city_of_forty_to_eighty_cells_at_resolution_seven(good: pa.Table) -> None:
    places = np.unique(np.column_stack([_numbers(good, "lat"), _numbers(good, "lon")]).round(3), axis=0)
    assert 40 <= len({h3.latlng_to_cell(lat, lon, 7) for lat, lon in places}) <= 80


def test_a_bus_sends_one_report_a_second_at_most_duplicates_apart(good: pa.Table) -> None:
    assert good.group_by(["bus", "ts"]).aggregate([]).num_rows == good.num_rows


def test_a_thousandth_of_the_reports_are_exact_duplicates(day: pa.Table) -> None:
    copies = day.num_rows - day.group_by(day.column_names).aggregate([]).num_rows
    assert 0.0008 < copies / day.num_rows < 0.0012


def test_a_thousandth_of_the_reports_are_faulty_in_three_ways(day: pa.Table) -> None:
    lost = (_numbers(day, "lat") == 0) & (_numbers(day, "lon") == 0)
    faults = np.array([lost.sum(), (_seconds(day) == 0).sum(), day["speed_kmh"].null_count])
    assert (faults / day.num_rows > 0.00025).all()
    assert 0.0008 < faults.sum() / day.num_rows < 0.0012


def test_even_a_small_fleet_has_every_fault() -> None:
    table = simulate(SMALL)
    assert (_numbers(table, "lat") == 0).any()
    assert (_seconds(table) == 0).any()
    assert table["speed_kmh"].null_count > 0


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
        halts_m = route.along(_draw_halts(np.random.default_rng(1), route, 10.0)[0])
        stops_m = halts_m[(halts_m > 1) & (halts_m < route.length_m - 1)]
        assert stops_m.size > 0
        assert (route.pace(stops_m) < EXPRESS).all()


def test_where_streets_have_no_speeds_of_their_own_the_town_is_what_it_was() -> None:
    routes, _ = draw_town(np.random.default_rng(SMALL.seed), SMALL)
    assert all(route.paces.tolist() == [1.0] for route in routes)
