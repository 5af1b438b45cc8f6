"""Guards what it costs to find what positions are counted under, by cells and by places."""

import resource
import time
from collections.abc import Callable
from typing import Any

import click
import h3.api.basic_int as h3_int
import numpy as np

from hatstream_lab.demo.streets import streets
from hatstream_lab.made_up_fleet import MadeUpFleet, simulate
from transforms.observe.hexagons import cells_at
from transforms.places.ground import Ground, Hexagons, hexagon_pieces
from transforms.places.hexagons import KM_PER_DEGREE
from transforms.places.shapes import shape_pieces

ROUNDS, SEGMENT_M = 5, 400.0
CENTRE = (-74.0, 40.7)


@click.command()
@click.option("--rings", default=6, show_default=True, help="Of cells around one: the region.")
@click.option("--lines", type=int, help="Instead: what it takes to load a file of so many streets.")
def benchmark(rings: int, lines: int | None) -> None:
    """A made-up day, 100,000 reports at a time as a scheduled job reads them; the least CPU time of several rounds."""
    if lines is not None:
        for document in (grid(lines), both_ways(grid(lines // 2))):
            print(_loaded(document))
        return
    fleet = MadeUpFleet()
    table = simulate(fleet)
    lat, lon = (table.column(name).to_numpy() for name in ("lat", "lon"))
    there = np.isfinite(lat) & np.isfinite(lon) & (np.abs(lat) <= 90) & (np.abs(lon) <= 180)
    lat_e7, lon_e7 = (np.rint(column[there] * 1e7).astype(np.int64) for column in (lat, lon))
    heading = np.random.default_rng(0).integers(-90, 360, lat_e7.size)  # a fifth has none
    region = tuple(sorted(h3_int.grid_disk(h3_int.latlng_to_cell(*fleet.centre, 7), rings)))
    grounds: dict[str, Callable[[], Ground]] = {
        "cells of resolution 7": lambda: Hexagons(7, region),
        "places of resolution 8": lambda: hexagon_pieces(region, 8),
        "places of resolution 9": lambda: hexagon_pieces(region, 9),
        "segments of 400 m, by cells of resolution 12": lambda: shape_pieces(streets(fleet, SEGMENT_M), region),
        "segments of 400 m, one for each direction": lambda: shape_pieces(both_ways(streets(fleet, SEGMENT_M)), region),
    }
    for name, make in grounds.items():
        start = time.process_time()
        ground = make()
        made_s = time.process_time() - start
        took_s = min(_round_s(ground, lat_e7, lon_e7, heading) for _ in range(ROUNDS))
        print(f"{name}: made in {made_s:.2f} s, then {took_s / lat_e7.size * 1e9:.0f} ns a report ({lat_e7.size:,})")


def _loaded(document: dict[str, Any]) -> str:
    """CPU time, and the largest memory so far."""
    positions = np.array([feature["geometry"]["coordinates"] for feature in document["features"]])
    lon, lat = positions.mean(axis=(0, 1))
    rings = int(np.ptp(positions[..., 1]) * 1_000 * KM_PER_DEGREE / 2_000) + 3
    region = sorted(h3_int.grid_disk(h3_int.latlng_to_cell(lat, lon, 7), rings))
    start = time.process_time()
    pieces = shape_pieces(document, region)
    took_s, most_mb = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    kind = "directed" if pieces.is_directed else "of both directions"
    return f"{len(pieces.places.names):,} lines {kind}: {took_s:.1f} s, {most_mb:.0f} MB"


def grid(lines: int) -> dict[str, Any]:
    """Streets of 250 m that bend a little, between crossings that are not quite in rows."""
    rng, side = np.random.default_rng(0), int(np.ceil(np.sqrt(lines / 2)))
    metres = 1_000 * KM_PER_DEGREE * np.array([np.cos(np.radians(CENTRE[1])), 1.0])
    crossings = 250.0 * np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1) + rng.normal(
        0, 15, (side, side, 2)
    )
    ways = 250.0 * np.linspace(0, 1, 4)[None, :, None] * np.eye(2)[:, None, :]
    streets = crossings[:, :, None, None, :] + ways + rng.normal(0, 4, (side, side, 2, 4, 2))
    degrees = (streets / metres + CENTRE).reshape(-1, 4, 2)[:lines].round(6).tolist()
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"name": str(number)},
                "geometry": {"type": "LineString", "coordinates": positions},
            }
            for number, positions in enumerate(degrees)
        ],
    }


def _round_s(ground: Ground, lat_e7: np.ndarray, lon_e7: np.ndarray, heading: np.ndarray) -> float:
    start = time.process_time()
    for first in range(0, lat_e7.size, 100_000):
        chosen = slice(first, first + 100_000)
        ground.keys(cells_at(lat_e7[chosen], lon_e7[chosen], ground.resolution), heading[chosen])
    return time.process_time() - start


def both_ways(document: dict[str, Any]) -> dict[str, object]:
    """Two lines in the place of each, one for those who drive either way."""
    features = []
    for feature in document["features"]:
        name, there = feature["properties"]["name"], feature["geometry"]["coordinates"]
        for way, positions in (("", there), (" back", there[::-1])):
            geometry = {"type": "LineString", "coordinates": positions}
            properties = {"name": name + way, "directed": True}
            features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    return {"type": "FeatureCollection", "features": features}


if __name__ == "__main__":
    benchmark()
