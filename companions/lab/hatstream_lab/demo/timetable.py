"""Makes a timetable and streets of the demo's town."""

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hatstream_lab.made_up_fleet import STOP, STREET_M, TERMINUS, Duty, MadeUpFleet, Route, degrees, draw_town

STREETS = (  # of the routes, in turn
    *("Aspen Road", "Bluestem Avenue", "Chokecherry Street", "Dogwood Lane", "Elevator Road", "Foxtail Drive"),
    *("Goldenrod Way", "Harvest Street", "Ironwood Avenue", "Juniper Street", "Kestrel Road", "Larkspur Drive"),
    *("Meadowlark Way", "Northgate Road"),
)
SPEED_MS, LAYOVER_S = 5.0, 240  # mean speed of trips, halts included; and wait between two trips
BLOCK_M = 400.0  # between two numbered avenues or streets
VALID_DAYS = 90
_COLOURS = ("005A9C", "B3541E", "1B7837", "762A83", "8C510A", "01665E", "C51B7D")


def street_name(route: int) -> str:
    """Names a route's street; from the second round of names on, with a number."""
    again, number = divmod(route, len(STREETS))
    return STREETS[number] + (f" {again + 1}" if again else "")


def write_timetable(fleet: MadeUpFleet, path: Path) -> None:
    """Writes the town's GTFS feed as a reproducible zip."""
    routes, duties = draw_town(np.random.default_rng(fleet.seed), fleet)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, lines in _tables(fleet, routes, list(duties)):
            entry = zipfile.ZipInfo(f"{name}.txt", (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, "".join(f"{line}\r\n" for line in lines))


def _tables(fleet: MadeUpFleet, routes: Sequence[Route], duties: Sequence[Duty]) -> Iterator[tuple[str, Iterable[str]]]:
    """Yields each GTFS table's name and CSV lines, its header first."""
    first, last = fleet.day - timedelta(days=VALID_DAYS), fleet.day + timedelta(days=VALID_DAYS)
    yield "agency", ["agency_name,agency_url,agency_timezone", f"Made-up Transit,https://transit.invalid,{fleet.zone}"]
    days = "monday,tuesday,wednesday,thursday,friday,saturday,sunday"
    yield "calendar", [f"service_id,{days},start_date,end_date", f"daily,1,1,1,1,1,1,1,{first:%Y%m%d},{last:%Y%m%d}"]
    route_rows = [(f"R{i},{i + 1},{street_name(i)}", _COLOURS[i % len(_COLOURS)]) for i in range(len(routes))]
    heading = "route_id,route_short_name,route_long_name,route_type,route_color"
    yield "routes", [heading, *(f"{row},3,{colour}" for row, colour in route_rows)]  # 3: a bus
    stop_rows, stops_m = zip(*(_stops(fleet, index, route) for index, route in enumerate(routes)), strict=True)
    yield "stops", ["stop_id,stop_name,stop_lat,stop_lon", *(row for rows in stop_rows for row in rows)]
    yield "shapes", ["shape_id,shape_pt_lat,shape_pt_lon,shape_pt_sequence", *_shapes(fleet, routes)]
    trips, times = [], []
    for duty in duties:  # to and fro until it ends, and at least once
        start_s, direction, length_m = round(duty.start_s), 0, routes[duty.route].length_m
        while start_s + length_m / SPEED_MS <= duty.end_s or start_s == round(duty.start_s):
            trip = f"T{duty.bus}-{start_s}"
            trips.append(f"R{duty.route},daily,{trip},{direction},B{duty.bus},R{duty.route}-{direction}")
            halts = list(enumerate(stops_m[duty.route]))[:: -1 if direction else 1]
            for order, (stop, along_m) in enumerate(halts):
                s = start_s + round((length_m - along_m if direction else along_m) / SPEED_MS)
                arrival = f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}"
                times.append(f"{trip},{arrival},{arrival},S{duty.route}-{stop},{order}")
            start_s += round(length_m / SPEED_MS) + LAYOVER_S
            direction = 1 - direction
    yield "trips", ["route_id,service_id,trip_id,direction_id,block_id,shape_id", *trips]
    yield "stop_times", ["trip_id,arrival_time,departure_time,stop_id,stop_sequence", *times]


def _stops(fleet: MadeUpFleet, number: int, route: Route) -> tuple[list[str], list[float]]:
    """Writes rows of a route's stops; returns them, and the stops' metres along it."""
    along_m = route.halts_m[np.isin(route.kinds, (TERMINUS, STOP))]
    east_m, north_m = route.position(along_m)
    lat, lon = degrees(fleet, east_m, north_m)
    names = [f"{street_name(number)} at {_crossing(*point)}" for point in np.stack([east_m, north_m], axis=1).tolist()]
    lines = [f"S{number}-{i},{name},{lat[i]:.6f},{lon[i]:.6f}" for i, name in enumerate(names)]
    return lines, along_m.tolist()


def _crossing(east_m: float, north_m: float) -> str:
    """Names the cross street: a numbered avenue (North, South) or street (East, West)."""
    is_avenue = abs(north_m) >= abs(east_m)  # numbered along the axis on which the crossing lies farther out
    metres, sides = (north_m, ("North", "South")) if is_avenue else (east_m, ("East", "West"))
    number = round(abs(metres) / BLOCK_M) + 1  # the first lies at the centre
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending} {'Avenue' if is_avenue else 'Street'} {sides[metres < 0]}"


def _shapes(fleet: MadeUpFleet, routes: Sequence[Route]) -> Iterator[str]:
    """Writes the line of each route, there and back, as rows of shapes.txt."""
    for number, route in enumerate(routes):
        _, east_m, north_m = route.line_m.T  # of each vertex, after its metres along the route
        lat, lon = degrees(fleet, east_m, north_m)
        for direction in (0, 1):
            for index, point in enumerate(range(lat.size)[:: -1 if direction else 1]):
                yield f"R{number}-{direction},{lat[point]:.6f},{lon[point]:.6f},{index}"


def streets(fleet: MadeUpFleet) -> dict[str, Any]:
    """Makes GeoJSON lines of STREET_M metres along routes, named by street and part."""
    routes, _ = draw_town(np.random.default_rng(fleet.seed), fleet)
    lines = []
    for number, route in enumerate(routes):
        edges_m = np.append(np.arange(0.0, route.length_m, STREET_M), route.length_m)
        for segment, (start_m, end_m) in enumerate(pairwise(edges_m), 1):
            lat, lon = degrees(fleet, *route.position(np.linspace(start_m, end_m, 10)))  # ten points bend as streets do
            geometry = {"type": "LineString", "coordinates": np.stack([lon, lat], axis=1).round(6).tolist()}
            name = {"name": f"{street_name(number)}, part {segment}"}
            lines.append({"type": "Feature", "properties": name, "geometry": geometry})
    return {"type": "FeatureCollection", "features": lines}
