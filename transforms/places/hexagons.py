"""Names of H3 cells, and the cells of a region."""

import math
from collections.abc import Sequence
from typing import Any

import h3

from dpops.types import Int64s

MOST_CELLS = 5_000_000
"""Of a region: more would not fit into memory."""
KM_PER_DEGREE = 111.2


def cell_text(cell: int) -> str:
    return f"{cell:x}"


def cell_texts(cells: Int64s) -> list[str]:
    """`cell_text` of each."""
    return list(map("%x".__mod__, cells.tolist()))


def cells_of_list(names: Sequence[str], resolution: int) -> tuple[int, ...]:
    """Checked cells of a region given as a list, sorted. Raises ValueError naming the first wrong one."""
    for name in names:
        if not h3.is_valid_cell(name):
            raise ValueError(f"{name!r} is not an H3 cell")
        if h3.get_resolution(name) != resolution:
            raise ValueError(f"{name!r} has resolution {h3.get_resolution(name)}, the release has {resolution}")
    return tuple(sorted({h3.str_to_int(name) for name in names}))


def _rectangle_km2(rings: Sequence[Sequence[Sequence[float]]]) -> float:
    """Square kilometres of the rectangle around a polygon."""
    lons, lats = ([position[axis] for position in rings[0]] for axis in (0, 1))
    middle = math.cos(math.radians((min(lats) + max(lats)) / 2))
    return (max(lons) - min(lons)) * (max(lats) - min(lats)) * middle * KM_PER_DEGREE**2


def cells_of_geojson(document: dict[str, Any], resolution: int) -> tuple[int, ...]:
    """Cells whose centre lies in a GeoJSON polygon, multipolygon, feature or collection; sorted.

    Raises ValueError for anything that is not an area, and for longitudes beyond 180 degrees, whose cells H3 leaves
    out without a word.
    """
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "FeatureCollection":
        parts = [cells_of_geojson(feature, resolution) for feature in document.get("features", [])]
        return tuple(sorted(set().union(*parts)))
    if kind == "Feature":
        return cells_of_geojson(document.get("geometry") or {}, resolution)
    if kind == "GeometryCollection":
        parts = [cells_of_geojson(geometry, resolution) for geometry in document.get("geometries", [])]
        return tuple(sorted(set().union(*parts)))
    if kind not in ("Polygon", "MultiPolygon"):
        raise ValueError(f"a region needs polygons, not {kind!r}")
    polygons = [document["coordinates"]] if kind == "Polygon" else document["coordinates"]
    for longitude, *_ in (position for rings in polygons for ring in rings for position in ring):
        if abs(longitude) > 180:
            raise ValueError(f"longitude {longitude} is beyond 180 degrees: split the region at the antimeridian")
    if (cells := sum(map(_rectangle_km2, polygons)) / h3.average_hexagon_area(resolution, "km^2")) > MOST_CELLS:
        raise ValueError(f"the area takes about {cells:,.0f} cells of resolution {resolution}; at most {MOST_CELLS:,}")
    return tuple(sorted(h3.str_to_int(cell) for cell in h3.geo_to_cells(document, resolution)))
