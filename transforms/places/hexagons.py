"""Names of H3 cells, and the cells of a region."""

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import h3

from dpops.types import Int64s

MOST_CELLS = 5_000_000
"""Of a region: more would not fit into memory."""
MOST_LOOKS = 3 * 10**10
"""Cells times positions of the polygons that they are looked for in: H3 takes 3 ns for each."""
KM_PER_DEGREE = 111.2

Rings = Sequence[Sequence[Sequence[float]]]


def cell_text(cell: int) -> str:
    return f"{cell:x}"


def cell_texts(cells: Int64s) -> list[str]:
    """Writes each as `cell_text` does."""
    return list(map("%x".__mod__, cells.tolist()))


def cells_of_list(names: Sequence[str], resolution: int) -> tuple[int, ...]:
    """Checks and sorts the cells of a region given as a list. Raises ValueError naming the first wrong one."""
    for name in names:
        if not h3.is_valid_cell(name):
            raise ValueError(f"{name!r} is not an H3 cell")
        if h3.get_resolution(name) != resolution:
            raise ValueError(f"{name!r} has resolution {h3.get_resolution(name)}, the release has {resolution}")
    return tuple(sorted({h3.str_to_int(name) for name in names}))


def _rectangle_km2(rings: Rings) -> float:
    """Computes the square kilometres of the rectangle around a polygon."""
    lons, lats = ([position[axis] for position in rings[0]] for axis in (0, 1))
    middle = math.cos(math.radians((min(lats) + max(lats)) / 2))
    return (max(lons) - min(lons)) * (max(lats) - min(lats)) * middle * KM_PER_DEGREE**2


def cells_of_geojson(document: dict[str, Any], resolution: int) -> tuple[int, ...]:
    """Finds the cells whose centre lies in a GeoJSON polygon, multipolygon, feature or collection; sorted.

    Raises ValueError for anything that is not an area, and for longitudes beyond 180 degrees, whose cells H3 leaves
    out without a word.
    """
    polygons = list(_polygons(document))
    for longitude, *_ in (position for rings in polygons for ring in rings for position in ring):
        if abs(longitude) > 180:
            rule = "write what is west of Greenwich with a minus, and split the region at the antimeridian"
            raise ValueError(f"longitude {longitude} is beyond 180 degrees: {rule}")
    cells = [_rectangle_km2(rings) / h3.average_hexagon_area(resolution, "km^2") for rings in polygons]
    if (total := sum(cells)) > MOST_CELLS:
        raise ValueError(f"the area takes about {total:,.0f} cells of resolution {resolution}; at most {MOST_CELLS:,}")
    check_looks(cells, [sum(map(len, rings)) for rings in polygons])
    parts = (h3.geo_to_cells({"type": "Polygon", "coordinates": rings}, resolution) for rings in polygons)
    return tuple(sorted({h3.str_to_int(cell) for part in parts for cell in part}))


def check_looks(cells: Sequence[float], positions: Sequence[int]) -> None:
    """Raises ValueError where polygons of so many cells and positions each would take minutes."""
    if sum(map(operator.mul, cells, positions)) > MOST_LOOKS:
        raise ValueError(
            f"polygons of {sum(positions):,} positions are too detailed for so large an area: simplify them"
        )


def _polygons(document: Any) -> Iterator[Rings]:
    """Raises ValueError for what is no polygon, multipolygon, feature or collection."""
    kind = document.get("type") if isinstance(document, dict) else None
    inner = {"FeatureCollection": "features", "GeometryCollection": "geometries"}
    if kind in inner:
        for part in document.get(inner[kind], []):
            yield from _polygons(part)
    elif kind == "Feature":
        yield from _polygons(document.get("geometry") or {})
    elif kind == "MultiPolygon":
        yield from map(_ringed, document["coordinates"])
    elif kind == "Polygon":
        yield _ringed(document["coordinates"])
    else:
        raise ValueError(f"a region needs polygons, not {kind!r}")


def _ringed(rings: Rings) -> Rings:
    if not rings or len(rings[0]) < 3:
        raise ValueError("a polygon needs a ring of at least three positions")
    return rings
