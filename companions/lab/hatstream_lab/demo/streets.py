"""Streets of a made-up town as a file of places: stretches of its routes, with the names that its timetable has."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from hatstream_lab.demo.timetable import street_name
from hatstream_lab.made_up_fleet import STREET_M, MadeUpFleet, Route, degrees, draw_town
from hatstream_lab.types import Float64s


def streets(fleet: MadeUpFleet, length_m: float = STREET_M) -> dict[str, Any]:
    """Makes a GeoJSON FeatureCollection of lines of so many metres; the last of each route is shorter."""
    routes, _ = draw_town(np.random.default_rng(fleet.seed), fleet)
    lines = [line for number, route in enumerate(routes) for line in _lines(fleet, number, route, length_m)]
    return {"type": "FeatureCollection", "features": lines}


def _lines(fleet: MadeUpFleet, number: int, route: Route, length_m: float) -> Iterator[dict[str, Any]]:
    edges_m: Float64s = np.append(np.arange(0.0, route.length_m, length_m), route.length_m)
    for part, (start_m, end_m) in enumerate(pairwise(edges_m), 1):
        lat, lon = degrees(fleet, *route.place(np.linspace(start_m, end_m, 10)))
        name = f"{street_name(number)}, part {part}"
        positions = np.stack([lon, lat], axis=1).round(6).tolist()
        geometry = {"type": "LineString", "coordinates": positions}
        yield {"type": "Feature", "properties": {"name": name}, "geometry": geometry}
