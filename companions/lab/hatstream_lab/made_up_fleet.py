"""Simulates a bus fleet's local day, with realistic faults.

A bus shuttles on its route: its odometer counts on, and `along` turns that into metres along the route. A run is from
one halt to the next; halts are termini, stops and red lights. `ease`, 0 to 1, is how freely traffic flows, `pace` a
street's own factor of speed.

The town does not exist: its default centre lies on open prairie near the South Saskatchewan River. Its zone is west of
UTC, so that a local day covers two UTC dates, and knows no clock changes. Everything is drawn from one explicit seed;
this is simulation and has no part in privacy noise. The same seed, numpy and pyarrow give the same bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from math import ceil, cos, pi, radians
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Rng = np.random.Generator
Vector = npt.NDArray[np.float64]
Reports = npt.NDArray[np.void]  # of _REPORT_DTYPE
_FLOAT_FIELDS = ("lat", "lon", "speed_kmh")  # degrees, degrees, km/h
_REPORT_DTYPE = np.dtype([("bus", "i4"), ("ts_s", "i8"), *((name, "f8") for name in _FLOAT_FIELDS)])
SCHEMA = pa.schema(
    [("bus", pa.string()), ("ts", pa.timestamp("us", tz="UTC")), *((name, pa.float64()) for name in _FLOAT_FIELDS)]
)

TOWN_RADIUS_M = 9_000.0
METRES_PER_DEGREE = 111_195.0  # of latitude, on a sphere of radius 6371 km
CENTRE_M = 2_200.0  # traffic is as slow as in the middle of town up to about here
STOP_GAP_M, LIGHT_GAP_M = (300.0, 600.0), (400.0, 900.0)
STOP_SHORTEST_S, STOP_EXTRA_S, STOP_LONGEST_S = 10.0, 5.0, 40.0
LAYOVER_S, LIGHT_RED_S = (120.0, 360.0), (5.0, 40.0)
TERMINUS, STOP, _LIGHT = range(3)
HALTS_AT = (1.0, 0.9, 0.4)  # how likely, in the order of the kinds
OUTER_KMH, INNER_KMH = (25.0, 50.0), (12.0, 25.0)  # cruise outside the rush hours
RUSH_SLOWDOWN, RUSH_SLOWDOWN_CENTRE = 0.15, 0.25  # the second comes on top of the first in the centre
EASE_SD = 0.15  # of a run's ease of traffic around that of its kilometre
STREET_M, EXPRESS = 2_000.0, 1.3
PACES = (0.6, 1.0, EXPRESS)
"""What may be a street's own speed, where 1 is a usual one's: a narrow street, a usual one, an expressway, on which
nobody waits at stops and lights are green."""
FASTEST_MEAN_KMH = 45.0  # no bus gets further than that in an hour, halts included
ACCELERATION_MS2 = 1.0
GPS_SD_M, SPEED_SD_KMH = 4.0, 0.7
HEAVY_SHARE = 0.05  # of the vehicles, reporting four or five times as often as the others
DUPLICATE_SHARE, FAULT_SHARE = 0.001, 0.001

# local hours: start from, start until, lasting from, lasting to; mornings, evenings, all day, heavy users
_DUTY_HOURS = np.array([[5, 6.5, 6, 7.5], [14, 16, 6.5, 8], [5, 8, 12, 16], [5, 8, 15.5, 16]])
_DUTY_SHARES, _HEAVY_DUTY = (0.3, 0.3, 0.4, 0.0), 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpFleet:
    """Parameters of the simulation of buses on routes.

    town_seed: draws the routes, so that days of one town differ by `seed` alone; default `seed`. stop_gap_m: minimum
    and maximum distance of consecutive stops. has_streets: stretches of STREET_M have lasting speeds of their own.
    """

    seed: int = 7
    town_seed: int | None = None
    vehicles: int = 120
    routes: int = 14
    centre: tuple[float, float] = (50.95, -108.75)
    zone: str = "America/Regina"
    day: date = date(2026, 5, 13)
    report_every_s: float = 20.0
    has_streets: bool = False
    stop_gap_m: tuple[float, float] = STOP_GAP_M

    def __post_init__(self) -> None:
        """Raises ValueError for a fleet that cannot be driven."""
        for name in ("vehicles", "routes", "report_every_s"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not -80 <= self.centre[0] <= 80:  # nearer to a pole a degree's metres vary within the town
            raise ValueError(f"centre must have a latitude within [-80, 80], got {self.centre[0]}")


def write_sample(fleet: MadeUpFleet, path: Path) -> int:
    """Writes the fleet's day as Parquet; returns its rows."""
    table = simulate(fleet)
    partial_path = path.with_name(path.name + ".part")
    pq.write_table(table, partial_path, compression="zstd")
    partial_path.replace(path)
    return int(table.num_rows)


def simulate(fleet: MadeUpFleet) -> pa.Table:
    """Simulates reports in SCHEMA, sorted by time and bus."""
    rng = np.random.default_rng(fleet.seed)
    routes, duties = draw_town(rng, fleet)
    rows = np.concatenate([_reports(rng, fleet, routes[duty.route], duty) for duty in duties])
    faults = ceil(rows.size * FAULT_SHARE / 3)  # of each kind: no position, an unset clock, no speed
    no_fix, unset_clock, no_speed = rng.choice(rows.size, (3, faults), replace=False)
    rows["lat"][no_fix] = rows["lon"][no_fix] = 0.0
    rows["ts_s"][unset_clock] = 0
    rows["speed_kmh"][no_speed] = np.nan
    repeated_rows = rng.choice(rows.size, ceil(rows.size * DUPLICATE_SHARE), replace=False)
    rows = np.concatenate([rows, rows[repeated_rows]])
    rows = rows[np.lexsort((rows["bus"], rows["ts_s"]))]
    names = pa.array([f"BUS-{bus:04d}" for bus in range(rows["bus"].max() + 1)])
    columns = [
        names.take(pa.array(rows["bus"])),
        pa.array(rows["ts_s"] * 1_000_000).cast(SCHEMA.field("ts").type),
        *(pa.array(rows[name], from_pandas=True) for name in _FLOAT_FIELDS),  # NaN becomes null
    ]
    return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Smooth line on the plane with its halts."""

    line_m: Vector  # [vertex, (along, east, north)]
    halts_m: Vector  # sorted, both termini included
    kinds: npt.NDArray[np.int_]  # of the halts: TERMINUS, STOP or _LIGHT
    ease: Vector  # one in [0, 1] for each kilometre: how freely the traffic flows there
    paces: Vector = field(default_factory=lambda: np.ones(1))  # of PACES, one for each STREET_M

    @property
    def length_m(self) -> float:
        """Length of the route in metres."""
        return float(self.line_m[-1, 0])

    def along(self, odometer_m: Vector) -> Vector:
        """Converts the odometer of a shuttling bus to metres along its route."""
        return self.length_m - np.abs(odometer_m % (2 * self.length_m) - self.length_m)

    def pace(self, odometer_m: Vector) -> Vector:
        """Looks up the street's pace at a distance."""
        street = np.minimum(self.along(odometer_m) / STREET_M, self.paces.size - 1)
        return np.asarray(self.paces[street.astype(np.int64)])

    def position(self, odometer_m: Vector) -> tuple[Vector, Vector]:
        """Finds metres east and north of the centre."""
        along_m, (vertex_m, east_m, north_m) = self.along(odometer_m), self.line_m.T
        return np.interp(along_m, vertex_m, east_m), np.interp(along_m, vertex_m, north_m)


def _draw_route(rng: Rng, number: int, fleet: MadeUpFleet) -> Route:
    """Draws a route across the centre, or, every third, around it."""
    if number % 3 == 2:  # an arc of eight corners; else three on one side of town, two on the other
        radius_m, length_m = TOWN_RADIUS_M * rng.uniform(0.45, 0.8), rng.uniform(9_000.0, 16_000.0)
        start = 2 * pi * (number + rng.uniform(-0.3, 0.3)) / fleet.routes
        bearings, radii_m = start + np.linspace(0.0, length_m / radius_m, 8), radius_m * rng.uniform(0.9, 1.1, 8)
    else:
        start = pi * (number + rng.uniform(-0.3, 0.3)) / fleet.routes
        bearings = start + np.array([0.0, 0.0, 0.0, pi, pi]) + rng.uniform(-0.35, 0.35, 5)
        first_m, last_m = TOWN_RADIUS_M * rng.uniform(0.6, 1.0, 2)
        radii_m = np.array([first_m, first_m / 2, rng.uniform(0.0, 1_200.0), last_m / 2, last_m])
    line_m = np.column_stack([radii_m * np.sin(bearings), radii_m * np.cos(bearings)])
    for _ in range(4):  # corners are cut: G. Chaikin, An algorithm for high-speed curve generation, 1974
        near, far = 0.75 * line_m[:-1] + 0.25 * line_m[1:], 0.25 * line_m[:-1] + 0.75 * line_m[1:]
        line_m = np.concatenate([line_m[:1], np.stack([near, far], axis=1).reshape(-1, 2), line_m[-1:]])
    along_m = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line_m, axis=0).T))])
    stops_m, lights_m = _spaced(rng, along_m[-1], fleet.stop_gap_m), _spaced(rng, along_m[-1], LIGHT_GAP_M)
    halts_m = np.concatenate([[0.0, along_m[-1]], stops_m, lights_m])
    kinds = np.repeat([TERMINUS, STOP, _LIGHT], [2, stops_m.size, lights_m.size])
    order, ease = np.argsort(halts_m, kind="stable"), rng.random(ceil(along_m[-1] / 1000) + 1)  # ease: by km
    line_m = np.column_stack([along_m, line_m])
    return Route(line_m=line_m, halts_m=halts_m[order], kinds=kinds[order], ease=ease)


def _spaced(rng: Rng, length_m: float, gap_m: tuple[float, float]) -> Vector:
    """Draws points along `length_m` with gaps from `gap_m`."""
    points_m = np.cumsum(rng.uniform(*gap_m, ceil(length_m / gap_m[0])))
    return points_m[points_m < length_m - gap_m[0]]


class Duty(NamedTuple):
    """Shift of a bus on a route."""

    bus: int
    route: int
    start_s: float  # since local midnight
    end_s: float
    every_s: float


def draw_town(rng: Rng, fleet: MadeUpFleet) -> tuple[list[Route], Iterator[Duty]]:
    """Draws the town's routes and a day's duties, lazily."""
    # Drawn in any case, so that a day's duties are the same whatever the town.
    routes = [_draw_route(rng, number, fleet) for number in range(fleet.routes)]
    if fleet.town_seed is not None and fleet.town_seed != fleet.seed:
        town = np.random.default_rng(fleet.town_seed)
        routes = [_draw_route(town, number, fleet) for number in range(fleet.routes)]
    if fleet.has_streets:
        # 1: a random state of their own, so that other draws stay the same.
        streets = np.random.default_rng([fleet.seed if fleet.town_seed is None else fleet.town_seed, 1])
        routes = [replace(route, paces=streets.choice(PACES, ceil(route.length_m / STREET_M))) for route in routes]
    count = fleet.vehicles
    heavy = rng.permutation(count) < ceil(count * HEAVY_SHARE)  # buses that report four or five times as often
    kind = np.where(heavy, _HEAVY_DUTY, rng.choice(len(_DUTY_HOURS), count, p=_DUTY_SHARES))
    first, last, shortest, longest = _DUTY_HOURS[kind].T  # hours of the start, and lengths
    start_s = 3600 * rng.uniform(first, last)
    end_s = start_s + 3600 * rng.uniform(shortest, longest)
    reports_per_interval = np.where(heavy, rng.integers(4, 6, count), 1)
    every_s = np.maximum(1.0, fleet.report_every_s / reports_per_interval)  # no two within the same second
    route_of_bus = rng.permutation(np.arange(count) % fleet.routes)
    return routes, map(Duty, range(count), route_of_bus, start_s, end_s, every_s)


def _reports(rng: Rng, fleet: MadeUpFleet, route: Route, duty: Duty) -> Reports:
    """Simulates a bus's reports during its duty, every `duty.every_s`, with GPS noise."""
    report_s = np.floor(np.arange(duty.start_s + rng.uniform(0.0, duty.every_s), duty.end_s, duty.every_s))
    odometer_m, speed_ms = _drive(rng, route, duty, report_s)
    east_m, north_m = route.position(odometer_m)
    jitter_m, noise_kmh = rng.normal(0.0, GPS_SD_M, (2, report_s.size)), rng.normal(0.0, SPEED_SD_KMH, report_s.size)
    lat, lon = degrees(fleet, east_m + jitter_m[0], north_m + jitter_m[1])
    rows = np.empty(report_s.size, _REPORT_DTYPE)
    noon_s = int(datetime.combine(fleet.day, time(12), ZoneInfo(fleet.zone)).timestamp())  # GTFS counts from it
    rows["bus"], rows["ts_s"] = duty.bus, noon_s - 12 * 3600 + report_s.astype(np.int64)
    rows["lat"], rows["lon"] = lat.round(6), lon.round(6)
    rows["speed_kmh"] = np.where(speed_ms > 0, np.maximum(0.0, 3.6 * speed_ms + noise_kmh), 0.0).round(1)
    return rows


def _drive(rng: Rng, route: Route, duty: Duty, report_s: Vector) -> tuple[Vector, Vector]:
    """Drives from halt to halt; computes odometer (m) and speed (m/s) at times."""
    halts_m, waits_s = _draw_halts(rng, route, (duty.end_s - duty.start_s) / 3600)
    odometer_m, length_m, wait_s = halts_m[:-1], np.diff(halts_m), waits_s[1:]  # of runs: start, way, wait behind it
    middle_m = odometer_m + length_m / 2
    centrality = np.exp(-((np.hypot(*route.position(middle_m)) / CENTRE_M) ** 2))
    road_ease = np.interp(route.along(middle_m) / 1000, np.arange(route.ease.size), route.ease)
    ease = np.clip(road_ease + rng.normal(0.0, EASE_SD, middle_m.size), 0.0, 1.0)
    outer, inner = (low + (high - low) * ease for low, high in (OUTER_KMH, INNER_KMH))
    # Outside the rush hours: between the speeds of suburbs and centre, by `ease`, times the street's own pace.
    free_kmh = (outer + centrality * (inner - outer)) * route.pace(middle_m)
    depart_s = duty.start_s + (odometer_m - odometer_m[0]) / 5.0  # a first guess: 18 km/h, halts included
    for _ in range(4):  # speeds and departures depend on each other
        # How strong the rush is at an hour, between which it changes in straight lines.
        hours, strength = [6.0, 7.0, 9.0, 10.0, 15.0, 16.0, 19.0, 20.0], [0.0, 1.0, 1.0, 0.2, 0.2, 1.0, 1.0, 0.0]
        slowdown = np.interp(depart_s / 3600, hours, strength) * (RUSH_SLOWDOWN + RUSH_SLOWDOWN_CENTRE * centrality)
        # A run accelerates to its peak and brakes from it; a short one never reaches its cruising speed.
        peak_ms = np.minimum(free_kmh * (1 - slowdown) / 3.6, np.sqrt(length_m * ACCELERATION_MS2))
        lasts_s = length_m / peak_ms + peak_ms / ACCELERATION_MS2
        depart_s = duty.start_s + np.cumsum(lasts_s + wait_s) - wait_s - lasts_s  # after all former runs and waits
    run = np.maximum(0, np.searchsorted(depart_s, report_s, side="right") - 1)  # of each time
    lasts_s, peak_ms, length_m = lasts_s[run], peak_ms[run], length_m[run]
    since_s = np.clip(report_s - depart_s[run], 0.0, lasts_s)
    left_s, ramp_s = lasts_s - since_s, peak_ms / ACCELERATION_MS2
    driven_m = np.select(
        [since_s < ramp_s, left_s < ramp_s],  # it speeds up, or brakes; else it has the peak speed
        [ACCELERATION_MS2 * since_s**2 / 2, length_m - ACCELERATION_MS2 * left_s**2 / 2],
        peak_ms * (since_s - ramp_s / 2),
    )
    speed_ms = np.minimum(peak_ms, ACCELERATION_MS2 * np.minimum(since_s, left_s))
    return odometer_m[run] + driven_m, speed_ms


def _draw_halts(rng: Rng, route: Route, hours: float) -> tuple[Vector, Vector]:
    """Draws halts' odometers (m) and waits (s), back and forth for so many hours."""
    there_and_back_m = np.concatenate([route.halts_m[:-1], 2 * route.length_m - route.halts_m[:0:-1]])
    rounds = ceil(hours * 1000 * FASTEST_MEAN_KMH / (2 * route.length_m)) + 1
    halts_m = (there_and_back_m + 2 * route.length_m * np.arange(rounds)[:, None]).ravel()
    kind = np.tile(np.concatenate([route.kinds[:-1], route.kinds[:0:-1]]), rounds)
    layover_s = rng.uniform(*LAYOVER_S, kind.size)
    dwell_s = np.minimum(STOP_LONGEST_S, STOP_SHORTEST_S + rng.exponential(STOP_EXTRA_S, kind.size))
    red_s = rng.uniform(*LIGHT_RED_S, kind.size)
    wait_s = np.choose(kind, [layover_s, dwell_s, red_s])  # in the order of the kinds
    halts = rng.random(kind.size) < np.array(HALTS_AT)[kind]  # HALTS_AT: probability of a halt, by kind
    halts &= (kind == TERMINUS) | (route.pace(halts_m) < EXPRESS)  # nobody waits on an expressway
    halts[: rng.choice([0, route.kinds.size - 1])] = False  # the duty begins at one terminus or the other
    return halts_m[halts], wait_s[halts]


def degrees(fleet: MadeUpFleet, east_m: Vector, north_m: Vector) -> tuple[Vector, Vector]:
    """Converts metres to degrees on the centre's tangent plane."""
    lat, lon = fleet.centre
    return lat + north_m / METRES_PER_DEGREE, lon + east_m / (METRES_PER_DEGREE * cos(radians(lat)))


def made_up_day(zone: str) -> tuple[pa.Table, date, int]:
    """Simulates the default fleet's reports of a day; returns also day and vehicles."""
    fleet = MadeUpFleet(zone=zone)
    return simulate(fleet), fleet.day, fleet.vehicles
