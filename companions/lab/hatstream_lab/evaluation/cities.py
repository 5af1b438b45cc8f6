"""Generates cities as counted days; even seeds tune numbers, the others judge them.

Arrays are by cell, (cells,) or (cells, 24 hours); `at_km`: cells' centres to the north and east; `popular`: weights by
which vehicles choose cells. A pattern is usual speeds, around which each day varies. A visit is a vehicle in a cell in
a slot, with its reports and the total of their speeds in steps.
A city's fields ending in _kmh are standard deviations, but for its mean and `slow_centre_kmh` (see `MadeUp`).
Numbers without a source are invented, as they may be in a city; no feed was fitted.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import h3.api.basic_int as h3_int
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hatstream.api import UsageError
from hatstream_lab.evaluation.days import Days, around, rough_fleet
from hatstream_lab.evaluation.experiment import Float64s, Int64s

Rng = np.random.Generator
STEP_KMH, UPPER_KMH = 0.01, 65.0
MONDAY = date(2024, 1, 1)
_CENTRE = 48.1, 11.6  # latitude and longitude
_HOURLY = np.array(  # how likely a vehicle is on the road in each hour
    [0.2, 0.1, 0.1, 0.1, 0.2, 0.4, 0.7, 1, 1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 1, 1, 1, 1, 0.8, 0.7, 0.6, 0.5, 0.3]
)
_PARTS_H = 4  # hours of a part of the day
_USUAL_KMH = 6.0, 58.0  # lowest and highest usual speed of a cell in an hour
_NIGHT_ENDS = 6  # local hour


@dataclass(frozen=True)
class MadeUp:
    """Made-up city; buses follow lines, cabs seek busy cells.

    All in km/h are standard deviations: rough: a HAT's day around its pattern; own: a vehicle in a HAT at the mean
    speed (faster and passing ones differ more); uneven: a cell around its neighbours; apart: districts; lasting: a
    cell's hour around its day, on every day; weekend: hours of days 6 and 7 around the others; own_day: a cell's day
    around its pattern; but slow_centre: slowdown where e times as many go. visits: cells of a vehicle in an hour.
    steep: slope of log traffic from the centre outwards. reporting: factor of reports of a visit. night: number of
    vehicles from midnight to six. depot: share of the fleet that stands in one cell and reports as often. visitors:
    share that comes for an hour, and is faster. unequal: standard deviation of the log of reporting rates. standing:
    share of visits in which a vehicle hardly moves. first_day: share of the fleet on it, and its first hour. holiday:
    day on which all are faster. gaps: share of hours without any report.
    """

    name: str
    kind: Literal["lines", "cabs"]
    vehicles: int
    days: int
    hours: Sequence[int] = range(24)
    rings: int = 7
    lines: int = 12
    visits: int = 5
    mean_kmh: float = 22.0
    rough_kmh: float = 2.0
    own_kmh: float = 12.0
    uneven_kmh: float = 3.0
    slow_centre_kmh: float = 2.0
    steep: float = 1.7
    apart_kmh: float = 5.0
    reporting: float = 1.0
    lasting_kmh: float = 0.0
    weekend_kmh: float = 0.0
    night: int | None = None
    depot: float = 0.0
    visitors: float = 0.0
    own_day_kmh: float = 0.0
    unequal: float = 0.0
    standing: float = 0.0
    first_day: tuple[float, int] = (1.0, 0)
    holiday: int | None = None
    gaps: float = 0.0
    seed: int = 1


class VehicleVisits(NamedTuple):
    """Visits of vehicles to cells in slots of a day; total: speeds, in steps."""

    vehicle: Int64s
    cell: Int64s
    slot: Int64s
    reports: Int64s
    total: Int64s


def made_up(city: MadeUp) -> Days:
    """Draws a city and its days, starting on a Monday, and counts them."""
    rng = np.random.default_rng(city.seed)
    cells = np.array(sorted(h3_int.grid_disk(h3_int.latlng_to_cell(*_CENTRE, 7), city.rings)), np.int64)
    # 111.2 km are a degree, and about 2.2 km lie between two rings. Speeds differ by eight districts of 4 km, by cell,
    # by how many go there, by hour (with rush hours at 8 and 17), and by parent and part of the day.
    lat_lon = np.array([h3_int.cell_to_latlng(int(cell)) for cell in cells])
    at_km = (lat_lon - lat_lon.mean(axis=0)) * (111.2 * np.array([1, np.cos(np.radians(_CENTRE[0]))]))
    popular = np.exp(0.7 * rng.normal(size=cells.size) - city.steep * np.hypot(*at_km.T) / (city.rings * 2.2))
    district_km = at_km[rng.integers(0, cells.size, 8)]
    nearness = np.exp(-np.sum((at_km[:, None] - district_km) ** 2, axis=-1) / (2 * 4.0**2))  # (cells, districts)
    cell_kmh = nearness @ (city.apart_kmh * rng.normal(size=8)) + city.uneven_kmh * rng.normal(size=cells.size)
    cell_kmh = cell_kmh - city.slow_centre_kmh * np.log(popular)
    hour_kmh = -3 * np.exp(-((np.arange(24) - 8) ** 2) / 4) - 4 * np.exp(-((np.arange(24) - 17) ** 2) / 6)
    parents = np.unique([h3_int.cell_to_parent(int(cell), 6) for cell in cells], return_inverse=True)[1]
    part_kmh = 1.5 * rng.normal(size=(parents.max() + 1, 24 // _PARTS_H))[parents][:, np.arange(24) // _PARTS_H]
    cell_kmh = cell_kmh - np.average(cell_kmh, weights=popular)  # around 0: `mean_kmh` is the mean of visits
    pattern: Float64s = np.clip(city.mean_kmh + cell_kmh[:, None] + hour_kmh + part_kmh, *_USUAL_KMH)  # (cells, 24)
    routes = _routes(city, rng, at_km)
    # What every day or every weekend shares has a random state of its own (7): other options keep their draws.
    weekly = np.random.default_rng([city.seed, 7])
    lasting = pattern + city.lasting_kmh * weekly.normal(size=pattern.shape)
    weekend = city.weekend_kmh * (1 + 0.5 * np.cos(2 * np.pi * (np.arange(24) - 8) / 12) + 0.3 * weekly.normal(size=24))
    patterns = [np.clip(kmh, *_USUAL_KMH) for kmh in [lasting] * 5 + [lasting + weekend] * 2]
    day_patterns = [_with_day_effects(city, index, patterns[index % 7]) for index in range(city.days)]
    days = [_draw_day(city, rng, cells, at_km, popular, routes, day_pattern) for day_pattern in day_patterns]
    region = around([f"{int(cells[cell]):x}" for cell in np.unique(days[0].cell)])  # those cells and a ring
    counted = pa.concat_tables(
        _counted_rows(MONDAY + timedelta(index), _with_faults(city, index, rows), cells)
        for index, rows in enumerate(days)
    )
    counted = counted.filter(pc.is_in(counted["cell"], pa.array(region)))
    tables = _specification_tables(city) | {"cells": {"resolution": 7, "region": region}}
    first_day = _counted_rows(MONDAY, days[0], cells)  # a declared fleet knows no faults of reports
    first_day = first_day.filter(pc.is_in(first_day["cell"], pa.array(region)))
    return Days(tables | {"fleet": rough_fleet(first_day, tables)}, counted, made_region=True)


def _routes(city: MadeUp, rng: Rng, at_km: Float64s) -> list[Int64s]:
    """Draws indices of cells along each line, a parabola in any direction."""
    routes = []
    for _ in range(city.lines):
        angle, offset_km, bend = rng.uniform(0, 2 * np.pi), rng.normal(0, 0.35 * city.rings), rng.normal(0, 0.04)
        along_km = np.linspace(-1, 1, 400) * city.rings * 1.9 * rng.uniform(0.4, 1)  # most end within the last ring
        way_km = np.stack([along_km, offset_km + bend * along_km**2], axis=1)  # bend: 1 / km
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        nearest = np.argmin(np.sum(((way_km @ rotation)[:, None] - at_km) ** 2, axis=-1), axis=1)
        routes.append(nearest[np.r_[True, np.diff(nearest) != 0]].astype(np.int64))
    return routes


def _with_day_effects(city: MadeUp, index: int, pattern: Float64s) -> Float64s:
    """Adds a day's effects to usual means, (cells, 24)."""
    own_kmh = city.own_day_kmh * np.random.default_rng([city.seed, 8, index]).normal(size=(len(pattern), 1))
    return np.clip(pattern + own_kmh + (6.0 if index == city.holiday else 0), *_USUAL_KMH)  # km/h


def _with_faults(city: MadeUp, index: int, rows: VehicleVisits) -> VehicleVisits:
    """Applies a day's reporting habits and gaps to visits."""
    rng, hours = np.random.default_rng([city.seed, 9, index]), np.array(city.hours)  # 9: apart from other draws
    if city.unequal or city.standing:
        # A vehicle's habit is the same on every day. Numbers begin at 1; those above `vehicles` stand in the depot.
        # In a share `city.standing` of its visits a vehicle hardly moves, at less than 0.15 of its speed.
        z_scores = np.random.default_rng([city.seed, 9]).normal(size=2 * city.vehicles + 1)
        rate = np.exp(city.unequal * z_scores - city.unequal**2 / 2)  # of reports, by vehicle, on average 1
        slowed = np.where(rng.random(rows.total.size) < city.standing, 0.15 * rng.random(rows.total.size), 1.0)
        reports = np.maximum(rng.poisson(rows.reports * rate[rows.vehicle]), 1)
        total = np.rint(reports * slowed * rows.total / rows.reports).astype(np.int64)
        rows = rows._replace(reports=reports, total=total)
    served_share, first_hour = city.first_day if index == 0 else (1.0, 0)
    is_away = (rows.vehicle > served_share * city.vehicles) & (rows.vehicle <= city.vehicles)  # the depot reports
    is_reported = ~is_away & (hours[rows.slot] >= first_hour)
    is_reported &= (rng.random(hours.size) >= city.gaps)[rows.slot]  # gaps: share of hours that lack all reports
    return VehicleVisits(*(column[is_reported] for column in rows))


def _counted_rows(day: date, rows: VehicleVisits, cells: Int64s) -> pa.Table:
    """Writes a day's visits as rows of `count_days`. cells: (cells,), H3."""
    names = pa.array([f"{cell:x}" for cell in cells.tolist()])
    return pa.table(
        {
            "period": pa.repeat(day.isoformat(), rows.vehicle.size),
            "slot": rows.slot,
            "cell": names.take(pa.array(rows.cell)),
            "place": pa.nulls(rows.vehicle.size, pa.string()),
            "vehicle": rows.vehicle,
            "reports": rows.reports,
            "sums": rows.total,
        }
    )


def _specification_tables(city: MadeUp) -> dict[str, Any]:
    """Makes a specification's tables for a made-up city, without total and region."""
    service = f"{city.hours[0]:02d}:00-{city.hours[-1] + 1:02d}:00"
    account = {"name": "made-up", "unit": "vehicle-day", "timezone": "UTC", "adjacency": "add-remove"}
    columns = {name: name for name in ("vehicle", "time", "lat", "lon", "speed")}
    return {
        "name": "made-up",
        "account": account,
        "slot": {"minutes": 60, "service": service},
        "speed": {"upper_kmh": Decimal(round(UPPER_KMH))},
        "statistic": [{"name": "mean", "mechanism": "levels", "target": "reports"}],
        "input": {"layout": "csv", "columns": columns},
    }


def _draw_day(
    city: MadeUp,
    rng: Rng,
    cells: Int64s,
    at_km: Float64s,
    popular: Float64s,
    routes: Sequence[Int64s],
    pattern: Float64s,
) -> VehicleVisits:
    """Draws a day's visits of all vehicles, with true speeds around `pattern`.

    cells: H3. routes: indices of cells along each line. Around `pattern`, (cells, 24), an hour of the city varies by
    1 km/h on a day, and a HAT by `rough_kmh`.
    """
    hours = np.array(city.hours)
    truth = pattern[:, hours] + rng.normal(0, 1.0, hours.size) + rng.normal(0, city.rough_kmh, (cells.size, hours.size))
    # Which vehicles drive in which hours, (vehicles, hours), by _HOURLY, usual shares; then which cells each visits.
    is_driven = rng.random((city.vehicles, hours.size)) < _HOURLY[hours] * rng.uniform(0.5, 1.1, (city.vehicles, 1))
    if city.night is not None:  # the first `night` vehicles drive all night, the others do not
        is_driven[np.ix_(np.arange(city.vehicles) >= city.night, hours < _NIGHT_ENDS)] = False
        is_driven[np.ix_(np.arange(city.vehicles) < city.night, hours < _NIGHT_ENDS)] = True
    visiting = np.arange(city.vehicles) >= round((1 - city.visitors) * city.vehicles)  # the last ones
    if city.visitors:  # a share of the fleet that comes for one hour
        is_driven[visiting] = np.arange(hours.size) == rng.integers(0, hours.size, (int(visiting.sum()), 1))
    vehicle, slot = np.nonzero(is_driven)
    cell = _draw_visited_cells(city, rng, vehicle, slot, at_km, popular, routes)  # (vehicle-hours, visits)
    vehicle, slot = (np.repeat(column, city.visits) for column in (vehicle, slot))
    key = np.unique((vehicle * cells.size + cell.ravel()) * hours.size + slot)  # distinct triples, as one number each
    vehicle, cell, slot = np.unravel_index(key, (city.vehicles, cells.size, hours.size))
    stay = rng.gamma(2, 0.5, key.size)  # relative to a usual one: of mean 1
    # Standard deviation: faster vehicles differ more, and so do those that stay briefly.
    sd_kmh = city.own_kmh * np.sqrt(pattern[cell, hours[slot]] / city.mean_kmh) * np.maximum(stay, 0.05) ** -0.25
    # Of variance 1: of a vehicle all day (.35^2), and of each visit (.94^2), by a t distribution of variance 1.5.
    noise = 0.35 * rng.normal(size=city.vehicles)[vehicle] + 0.94 * rng.standard_t(6, key.size) / np.sqrt(1.5)
    speed_factor = np.where(visiting[vehicle], 1.3, 1.0)
    mean_kmh = np.clip(speed_factor * truth[cell, slot] + sd_kmh * noise, 0, UPPER_KMH)
    # About 3.3 in a usual visit at 22 km/h. Slow vehicles stay longer, but not for ever, as all move on: hence + 30.
    reports = 1 + rng.poisson(city.reporting * 120 * stay / (mean_kmh + 30))
    total = np.rint(reports * mean_kmh / STEP_KMH).astype(np.int64)
    rows = VehicleVisits(vehicle + 1, cell, slot, reports, total)
    depot_vehicles = round(city.depot * city.vehicles)  # beside those that drive
    if not depot_vehicles:
        return rows
    parked, parked_slot = (column.ravel() for column in np.mgrid[:depot_vehicles, : hours.size])
    parked_reports = np.full(parked.size, max(round(city.visits * city.reporting * 2), 1))  # two for a visit
    depot_cell = np.full(parked.size, cells.size // 3)  # any cell would do
    depot = VehicleVisits(city.vehicles + 1 + parked, depot_cell, parked_slot, parked_reports, 0 * parked)
    return VehicleVisits(*(np.concatenate(columns) for columns in zip(rows, depot, strict=True)))


def _draw_visited_cells(
    city: MadeUp, rng: Rng, vehicle: Int64s, slot: Int64s, at_km: Float64s, popular: Float64s, routes: Sequence[Int64s]
) -> Int64s:
    """Draws the cells that each vehicle visits in each hour, (vehicle-hours, visits).

    vehicle, slot: (vehicle-hours,). routes: cells along each. In a city of lines each vehicle goes to and fro on one
    route, else it stays near a home cell. Returns indices of cells.
    """
    if city.kind == "lines":
        line = rng.integers(0, len(routes), city.vehicles)[vehicle]
        sizes = np.array([route.size for route in routes])[line]  # cells of the vehicle's route
        start = rng.integers(0, 60, city.vehicles)[vehicle] + slot * city.visits  # anywhere on the line at first
        step = (start[:, None] + np.arange(city.visits)) % (2 * sizes[:, None])  # along the line and back
        position = np.minimum(step, 2 * sizes[:, None] - 1 - step)  # on the line: the way back is mirrored
        longest = max(route.size for route in routes)
        padded = np.stack([np.resize(route, longest) for route in routes])  # no position lies in the padding
        return np.asarray(padded[line[:, None], position])
    home = rng.choice(popular.size, city.vehicles, p=popular / popular.sum())[vehicle]
    far_km = np.hypot(*(at_km[home][:, None] - at_km).transpose(2, 0, 1))  # (vehicle-hours, cells)
    # Gumbel noise on log weights draws without replacement, by weight (a cell 5 km farther from home has 1 / e of it).
    likely = np.log(popular) - far_km / 5 + rng.gumbel(size=far_km.shape)
    return np.argpartition(-likely, city.visits, axis=1)[:, : city.visits].astype(np.int64)


MOST_VEHICLES, MOST_DAYS = 3000, 7


def drawn(seed: int) -> MadeUp:
    """Draws a city's fields by seed: 20 to MOST_VEHICLES vehicles, 3 to MOST_DAYS days."""
    rng = np.random.default_rng([seed, 20])  # a state apart from those of the city's days
    vehicles = round(_log_uniform(rng, 20, MOST_VEHICLES))
    rings = int(np.clip(round(2.0 + 0.9 * np.log(vehicles) + rng.normal(0, 1.5)), 3, 12))
    visits = int(rng.integers(1, 8))
    mean = float(rng.uniform(13, 38))
    district_kmh = float(rng.uniform(2, 14))
    return MadeUp(
        f"drawn {seed}",
        "lines" if rng.random() < 0.6 else "cabs",
        vehicles=vehicles,
        days=int(rng.integers(3, MOST_DAYS + 1)),
        hours=(range(24), range(24), range(5, 23), range(6, 12))[rng.integers(0, 4)],
        rings=rings,
        lines=int(np.clip(vehicles / 12, 3, 80)),
        visits=visits,
        mean_kmh=mean,
        rough_kmh=float(rng.uniform(0.5, 3)),  # of a HAT's day around its pattern
        own_kmh=float(rng.uniform(6, 18)),  # of a vehicle in a HAT
        uneven_kmh=float(rng.uniform(0.2, 0.8)) * district_kmh,  # of a cell around its neighbours
        slow_centre_kmh=float(rng.uniform(0, 0.5)) * district_kmh,  # slowdown where e times as many go
        steep=float(rng.uniform(0.8, 3)),  # how fast traffic falls off from the centre
        apart_kmh=district_kmh,  # of districts
        reporting=float(_log_uniform(rng, 1, 800)) / (visits * 3.3),  # 1 to 800 reports an hour: a usual visit has 3.3
        lasting_kmh=float(rng.uniform(0, 3)),  # of a cell's hour, the same on every day
        weekend_kmh=float(rng.uniform(2, 6)) if rng.random() < 0.5 else 0.0,
        night=2 if rng.random() < 0.3 else None,  # vehicles from midnight to six
        depot=0.1 if rng.random() < 0.25 else 0.0,  # share of the fleet that stands in one cell
        visitors=float(rng.uniform(0, 0.4)) if rng.random() < 0.5 else 0.0,  # share that comes for an hour
        seed=seed,
    )


def odd(seed: int) -> MadeUp:
    """Draws a city as `drawn` does, with real feeds' faults, such as gaps."""
    rng = np.random.default_rng([seed, 21])  # any number: `drawn` keeps its own draws
    city = drawn(seed)
    # Share of the fleet on the first day, and its first hour: half of the cities begin like on any other day.
    starts = (1.0, 0), (1.0, 0), (0.3, 0), (1.0, city.hours[-1] - 1)
    return replace(
        city,
        name=f"odd {seed}",
        own_kmh=float(rng.uniform(8, 25)),  # of a vehicle in a HAT
        own_day_kmh=float(rng.uniform(0, 3)),  # of a cell's day around its pattern
        unequal=float(rng.uniform(0, 1.2)),  # standard deviation of the log of vehicles' reporting rates
        standing=float(rng.uniform(0, 0.3)),  # share of visits in which a vehicle hardly moves
        first_day=starts[rng.integers(0, len(starts))],
        holiday=int(rng.integers(1, city.days)) if rng.random() < 0.5 else None,  # a day on which all are faster
        gaps=0.3 if rng.random() < 0.25 else 0.0,  # share of hours without any report
    )


def _log_uniform(rng: Rng, minimum: float, maximum: float) -> float:
    """Draws a number, uniform in its logarithm."""
    return float(np.exp(rng.uniform(np.log(minimum), np.log(maximum))))


NAMED = tuple(MadeUp(**city) for city in tomllib.loads(files(__package__).joinpath("cities.toml").read_text())["city"])


def city_named(name: str, days: int | None = None) -> Days:
    """Makes a city by its name. Raises UsageError. days: None for its usual number."""
    city_of, draws = {city.name: city for city in NAMED}, {"drawn": drawn, "odd": odd}
    kind, _, seed = name.partition(" ")  # such as "odd 3": drawn by seed 3, with a real feed's faults
    if name not in city_of and not (kind in draws and seed.isdecimal()):
        raise UsageError(f"there is no city {name!r}: there are {', '.join(city_of)}, and drawn 1, odd 1, drawn 2, ..")
    city = city_of.get(name) or draws[kind](int(seed))
    return made_up(city if days is None else replace(city, days=days))
