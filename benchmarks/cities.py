"""Days of telemetry to try estimates on: made-up cities of many shapes, and parts and sums of a real feed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import h3.api.basic_int as h3_int
import numpy as np
from numpy.typing import NDArray

from dpops.learning.design import HOURS
from dpops.levels import Rows
from dpops.types import Float64s, Grid, Int64s
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, rough_fleet, true_day
from transforms.time.days_off import SATURDAY

_CENTRE = h3_int.latlng_to_cell(48.1, 11.6, 7)
_DAY = np.array(
    [0.2, 0.1, 0.1, 0.1, 0.2, 0.4, 0.7, 1, 1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 1, 1, 1, 1, 0.8, 0.7, 0.6, 0.5, 0.3]
)
"""How likely a vehicle is on the road in each hour."""
_PARTS_H, _PER_KMH = 4, 120.0
_USUAL_KMH = 6.0, 58.0
_NIGHT_ENDS = 6
_VISITORS_FASTER = 1.3
_BRIEF = 0.25
"""A vehicle that stays half as long as usual in a HAT lies so much farther from its pattern: 2 to this power."""


@dataclass(frozen=True)
class MadeUp:
    """A city that never was. Buses and trams follow lines, cabs go where many go.

    rough_kmh: how far a HAT of a day lies from its pattern, whoever drives there. own_kmh: a vehicle in it from that,
    where all drive at the mean speed; faster ones differ more, and those that only pass by, with few reports.
    uneven_kmh: how far a cell lies from the cells around it. slow_centre_kmh: how much slower it is where e times as
    many go. steep: how much busier the middle is than the edge. visits: cells of a vehicle in an hour.
    apart_kmh: how far districts lie from one another. reporting: times as many reports of a visit as usual.
    lasting_kmh: how far a cell in one hour lies from its day, every day. weekend_kmh: how far the hours of days 6 and
    7 lie from those of the others. night: so many vehicles drive from midnight to six. depot: what part of the fleet
    stands in one cell, and reports as often. visitors: what part of the fleet comes for an hour, and is faster.
    """

    name: str
    kind: Literal["lines", "cabs"]
    vehicles: int
    days: int
    hours: tuple[int, ...] = tuple(range(24))
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
    seed: int = 1


def made_up(of: MadeUp, grid: Grid) -> TrueCity:
    rng = np.random.default_rng(of.seed)
    cells = np.array(sorted(h3_int.grid_disk(_CENTRE, of.rings)), np.int64)
    places = np.array([h3_int.cell_to_latlng(int(cell)) for cell in cells])
    at_km = (places - places.mean(axis=0)) * np.array([111.2, 111.2 * np.cos(np.radians(48.1))])
    popular = np.exp(0.7 * rng.normal(size=cells.size) - of.steep * np.hypot(*at_km.T) / (of.rings * 2.2))
    pattern = _pattern(of, rng, cells, at_km, popular)
    routes = _routes(of, rng, at_km)
    patterns = _by_weekday(of, pattern)
    days = [_day(of, rng, grid, cells, at_km, popular, routes, patterns[index % 7]) for index in range(of.days)]
    hours = [tuple(hour + HOURS * (index % 7 >= SATURDAY) for hour in of.hours) for index in range(of.days)]
    touched = {int(cells[cell]) for cell in np.unique(days[0][0].cell)}
    region = tuple(sorted({near for cell in touched for near in h3_int.grid_disk(cell, 1)}))
    true = [_within(hours[index], f"day {index + 1}", rows, cells, region, grid) for index, (rows,) in enumerate(days)]
    return TrueCity(region, grid, rough_fleet(region, true), true, True)


def _pattern(of: MadeUp, rng: np.random.Generator, cells: Int64s, at_km: Float64s, popular: Float64s) -> Float64s:
    """Usual mean of every HAT, km/h, (cells, 24)."""
    bumps = at_km[rng.integers(0, cells.size, 8)]
    near = np.exp(-np.sum((at_km[:, None] - bumps) ** 2, axis=-1) / (2 * 4.0**2))
    cell = near @ (of.apart_kmh * rng.normal(size=8)) + of.uneven_kmh * rng.normal(size=cells.size)
    cell = cell - of.slow_centre_kmh * np.log(popular)
    hour = -3 * np.exp(-((np.arange(24) - 8) ** 2) / 4) - 4 * np.exp(-((np.arange(24) - 17) ** 2) / 6)
    parents = np.unique([h3_int.cell_to_parent(int(cell), 6) for cell in cells], return_inverse=True)[1]
    both = 1.5 * rng.normal(size=(parents.max() + 1, 24 // _PARTS_H))[parents][:, np.arange(24) // _PARTS_H]
    pattern: Float64s = of.mean_kmh + (cell - np.average(cell, weights=popular))[:, None] + hour + both
    return np.clip(pattern, *_USUAL_KMH)


def _by_weekday(of: MadeUp, pattern: Float64s) -> list[Float64s]:
    """The pattern of each of seven days, with what lasts of a cell in an hour."""
    rng = np.random.default_rng([of.seed, 7])
    lasting = pattern + of.lasting_kmh * rng.normal(size=pattern.shape)
    weekend = of.weekend_kmh * (1 + 0.5 * np.cos(2 * np.pi * (np.arange(24) - 8) / 12) + 0.3 * rng.normal(size=24))
    return [np.clip(kmh, *_USUAL_KMH) for kmh in [lasting] * 5 + [lasting + weekend] * 2]


def _routes(of: MadeUp, rng: np.random.Generator, at_km: Float64s) -> list[Int64s]:
    """Cells along each line, in order: straight across the city, bent a little."""
    routes = []
    for _ in range(of.lines):
        angle, off, bend = rng.uniform(0, 2 * np.pi), rng.normal(0, 0.35 * of.rings), rng.normal(0, 0.04)
        along = np.linspace(-1, 1, 400) * of.rings * 1.9 * rng.uniform(0.4, 1)
        way = np.stack([along, off + bend * along**2], axis=1)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        nearest = np.argmin(np.sum(((way @ turn)[:, None] - at_km) ** 2, axis=-1), axis=1)
        routes.append(nearest[np.r_[True, np.diff(nearest) != 0]].astype(np.int64))
    return routes


def _day(
    of: MadeUp,
    rng: np.random.Generator,
    grid: Grid,
    cells: Int64s,
    at_km: Float64s,
    popular: Float64s,
    routes: Sequence[Int64s],
    pattern: Float64s,
) -> tuple[Rows]:
    """Of cells of the whole city."""
    hours = np.array(of.hours)
    truth = pattern[:, hours] + rng.normal(0, 1.0, hours.size) + rng.normal(0, of.rough_kmh, (cells.size, hours.size))
    driven = rng.random((of.vehicles, hours.size)) < _DAY[hours] * rng.uniform(0.5, 1.1, (of.vehicles, 1))
    if of.night is not None:
        driven[np.ix_(np.arange(of.vehicles) >= of.night, hours < _NIGHT_ENDS)] = False
        driven[np.ix_(np.arange(of.vehicles) < of.night, hours < _NIGHT_ENDS)] = True
    visiting = np.arange(of.vehicles) >= round((1 - of.visitors) * of.vehicles)
    if of.visitors:
        driven[visiting] = np.arange(hours.size) == rng.integers(0, hours.size, (int(visiting.sum()), 1))
    vehicle, slot = np.nonzero(driven)
    cell = _visited(of, rng, vehicle, slot, at_km, popular, routes)
    vehicle, slot = (np.repeat(column, of.visits) for column in (vehicle, slot))
    key = np.unique((vehicle * cells.size + cell.ravel()) * hours.size + slot)
    rest, slot = np.divmod(key, hours.size)
    vehicle, cell = np.divmod(rest, cells.size)
    stay = rng.gamma(2, 0.5, key.size)
    own_kmh = of.own_kmh * np.sqrt(pattern[cell, hours[slot]] / of.mean_kmh) * np.maximum(stay, 0.05) ** -_BRIEF
    one = 0.35 * rng.normal(size=of.vehicles)[vehicle] + 0.94 * rng.standard_t(6, key.size) / np.sqrt(1.5)
    faster = np.where(visiting[vehicle], _VISITORS_FASTER, 1.0)
    mean = np.clip(faster * truth[cell, slot] + own_kmh * one, 0, float(grid.upper))
    # Slow vehicles stay longer in a cell, and report more often.
    reports = 1 + rng.poisson(of.reporting * _PER_KMH * stay / (mean + 30))
    total = np.rint(reports * mean / float(grid.step)).astype(np.int64)
    return (_with_depot(of, Rows(vehicle + 1, cell, slot, reports, total), cells.size, hours.size),)


def _with_depot(of: MadeUp, rows: Rows, cells: int, slots: int) -> Rows:
    """The first vehicles stand in one cell in every slot, if any do."""
    standing = round(of.depot * of.vehicles)
    if not standing:
        return rows
    vehicle, slot = (column.ravel() for column in np.mgrid[:standing, :slots])
    reports = np.full(vehicle.size, max(round(of.visits * of.reporting * 2), 1))
    depot = Rows(of.vehicles + 1 + vehicle, np.full(vehicle.size, cells // 3), slot, reports, 0 * vehicle)
    return Rows(*(np.concatenate(columns) for columns in zip(rows, depot, strict=True)))


def _visited(
    of: MadeUp,
    rng: np.random.Generator,
    vehicle: Int64s,
    slot: Int64s,
    at_km: Float64s,
    popular: Float64s,
    routes: Sequence[Int64s],
) -> Int64s:
    """Cells of each vehicle's hour, (vehicle-hours, visits)."""
    if of.kind == "lines":
        line = rng.integers(0, len(routes), of.vehicles)[vehicle]
        sizes = np.array([route.size for route in routes])[line]
        start = rng.integers(0, 60, of.vehicles)[vehicle] + slot * of.visits
        step = (start[:, None] + np.arange(of.visits)) % (2 * sizes[:, None])
        place = np.minimum(step, 2 * sizes[:, None] - 1 - step)
        padded = np.stack([np.resize(route, max(other.size for other in routes)) for route in routes])
        on_line: Int64s = padded[line[:, None], place]
        return on_line
    base = rng.choice(popular.size, of.vehicles, p=popular / popular.sum())[vehicle]
    far = np.hypot(*(at_km[base][:, None] - at_km).transpose(2, 0, 1))
    likely = np.log(popular) - far / 5 + rng.gumbel(size=far.shape)
    return np.argpartition(-likely, of.visits, axis=1)[:, : of.visits].astype(np.int64)


def _within(hours: Sequence[int], name: str, rows: Rows, cells: Int64s, region: Sequence[int], grid: Grid) -> TrueDay:
    inside = np.isin(cells[rows.cell], np.array(region))
    rows = Rows(*(column[inside] for column in rows))
    rows = rows._replace(cell=np.searchsorted(np.array(region), cells[rows.cell]))
    return true_day(name, rows, hours, len(region), grid)


def of_vehicles(city: TrueCity, vehicles: int, seed: int = 1) -> TrueCity:
    """Random ones of each day."""
    rng = np.random.default_rng(seed)

    def some(day: TrueDay) -> NDArray[np.bool_]:
        names = np.unique(day.rows.vehicle)
        return np.isin(day.rows.vehicle, rng.permutation(names)[:vehicles])

    return _declared(replace(city, days=[_where(city, day, some(day), day.hours) for day in city.days]))


def of_hours(city: TrueCity, first: int, last: int) -> TrueCity:
    """Slots from one to before another of each day."""

    def part(day: TrueDay) -> TrueDay:
        day_part = _where(city, day, (day.rows.slot >= first) & (day.rows.slot < last), day.hours)
        rows = day_part.rows._replace(slot=day_part.rows.slot - first)
        return true_day(day.name, rows, day.hours[first:last], len(city.region), city.grid)

    return _declared(replace(city, days=[part(day) for day in city.days]))


def as_one(city: TrueCity, groups: Sequence[Sequence[int]]) -> TrueCity:
    """Several days taken for one: a denser city. Each vehicle-day stays one."""

    def together(group: Sequence[int]) -> TrueDay:
        parts = [city.days[index].rows for index in group]
        moved = [
            rows._replace(vehicle=np.unique(rows.vehicle, return_inverse=True)[1] + 10_000 * index)
            for index, rows in enumerate(parts)
        ]
        rows = Rows(*(np.concatenate(columns) for columns in zip(*moved, strict=True)))
        return true_day(city.days[group[0]].name, rows, city.days[group[0]].hours, len(city.region), city.grid)

    return _declared(replace(city, days=[together(group) for group in groups]))


def _declared(city: TrueCity) -> TrueCity:
    return replace(city, fleet=rough_fleet(city.region, city.days))


def _where(city: TrueCity, day: TrueDay, chosen: NDArray[np.bool_], hours: Sequence[int]) -> TrueDay:
    rows = Rows(*(column[chosen] for column in day.rows))
    return true_day(day.name, rows, hours, len(city.region), city.grid)
