"""Names and shapes of H3 cells, and regions' cells."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import h3
import h3.api.numpy_int as h3_int
import numpy as np

from dpops.types import Float64s

MOST_CELLS, MOST_KM2 = 5_000_000, 20_000_000  # of a region: more would not fit into memory
MOST_COMPARISONS = 3 * 10**10  # of cells with positions of the polygons that may hold them: 3 ns each in H3
MOST_ROOM, MOST_ROOM_IN_ALL = 40_000_000, 400_000_000
"""Cells that H3 takes room for, 20 bytes each, to fill one polygon and one after the other: see `room_of`."""
KM_PER_DEGREE = 111.2

Rings = Sequence[Sequence[Sequence[float]]]


def cell_text(cell: int) -> str:
    """Formats an H3 index as text."""
    return f"{cell:x}"


_HEX_DIGITS, _DECIMAL_DIGITS = 16, 20  # most of a number of 64 bits


def cells_of_list(names: Sequence[str], resolution: int) -> tuple[int, ...]:
    """Checks and sorts a region's cells. Raises ValueError."""
    names = [_hexadecimal(name) for name in names]
    for name in names:
        if not h3.is_valid_cell(name):
            raise ValueError(f"{name!r} is not an H3 cell")
        if h3.get_resolution(name) != resolution:
            raise ValueError(f"{name!r} has resolution {h3.get_resolution(name)}, the release has {resolution}")
    return tuple(sorted({h3.str_to_int(name) for name in names}))


def _hexadecimal(name: str) -> str:
    """Converts a cell's decimal number to H3's hexadecimal.

    >>> _hexadecimal("608533827635118079")
    '871f24ac5ffffff'
    """
    if not (name.isascii() and name.isdecimal() and len(name) > _HEX_DIGITS):
        return name
    return f"{int(name[:_DECIMAL_DIGITS]):x}"  # cut, as a hostile text of many digits takes long


def _bounds(rings: Rings) -> tuple[float, float, float, float]:
    """Computes a polygon's west, south, east, north in degrees; east may exceed 180."""
    lons, lats = ([position[axis] for position in rings[0]] for axis in (0, 1))
    if max(lons) - min(lons) > 180:  # then it crosses the antimeridian, as H3 takes it
        lons = [longitude % 360 for longitude in lons]
    return min(lons), min(lats), max(lons), max(lats)


def _sides_km(bounds: Float64s) -> tuple[Float64s, Float64s]:
    """Computes widths and heights in km of rectangles, (polygons, 4) degrees."""
    west, south, east, north = bounds.T
    return (east - west) * np.cos(np.radians((south + north) / 2)) * KM_PER_DEGREE, (north - south) * KM_PER_DEGREE


def room_of(bounds: Float64s, resolution: int) -> Float64s:
    """Estimates the cells that H3 allocates to fill polygons in these rectangles.

    Source: bboxHexEstimate of H3 4.5: the diagonal's square over the sides' ratio, of at most 3.
    """
    degrees = np.maximum((bounds[:, 2:] - bounds[:, :2]).T, 1e-9)  # width and height (2, polygons); no ratio by 0
    width_km, height_km = _sides_km(bounds)
    km2 = (width_km**2 + height_km**2) / np.minimum(degrees.max(axis=0) / degrees.min(axis=0), 3)
    return np.asarray(km2 / h3.average_hexagon_area(resolution, "km^2"), np.float64)


def cells_of_geojson(document: dict[str, Any], resolution: int) -> tuple[int, ...]:
    """Lists cells centred in a GeoJSON area. Raises ValueError.

    Longitudes beyond 180 degrees are refused: H3 omits their cells silently.
    """
    polygons = list(_polygons(document))
    for longitude, *_ in (position for rings in polygons for ring in rings for position in ring):
        if abs(longitude) > 180:
            rule = "write what is west of Greenwich with a minus, and split the region at the antimeridian"
            raise ValueError(f"longitude {longitude} is beyond 180 degrees: {rule}")
    bounds = np.array([_bounds(rings) for rings in polygons], np.float64).reshape(-1, 4)  # (0, 4) without polygons
    km2 = np.multiply(*_sides_km(bounds))
    if km2.sum() > MOST_KM2:
        raise ValueError(f"the area is of about {km2.sum():,.0f} square kilometres; at most {MOST_KM2:,}")
    if (bounds[:, 3] - bounds[:, 1] > 90).any():  # north - south; around the earth H3 runs long and finds no cell
        raise ValueError("the area goes from pole to pole: cut out what is served")
    cells = (km2 / h3.average_hexagon_area(resolution, "km^2")).tolist()
    if (total := sum(cells)) > MOST_CELLS:
        raise ValueError(f"the area takes about {total:,.0f} cells of resolution {resolution}; at most {MOST_CELLS:,}")
    allocated = room_of(bounds, resolution)  # cells, (polygons,): of a thin diagonal polygon many more than are in it
    if allocated.max(initial=0) > MOST_ROOM or allocated.sum() > MOST_ROOM_IN_ALL:
        raise ValueError("the area is long and narrow beyond measure: is a position wrong? Else cut it into parts")
    check_comparisons(cells, [sum(map(len, rings)) for rings in polygons])  # of each cell with each position
    inside = [h3_int.geo_to_cells({"type": "Polygon", "coordinates": rings}, resolution) for rings in polygons]
    return tuple(np.unique(np.concatenate([np.zeros(0, np.uint64), *inside])).tolist())


def check_comparisons(cells: Sequence[float], corners: Sequence[int]) -> None:
    """Raises ValueError where H3 would compare too many cells with polygons' corners."""
    if sum(map(operator.mul, cells, corners)) > MOST_COMPARISONS:
        raise ValueError(f"polygons of {sum(corners):,} positions are too detailed for so large an area: simplify them")


def _polygons(document: Any) -> Iterator[Rings]:
    """Lists a document's polygons. Raises ValueError for other geometries."""
    kind = document.get("type") if isinstance(document, dict) else None
    inner = {"FeatureCollection": "features", "GeometryCollection": "geometries"}
    if kind in inner:
        for geometry in document.get(inner[kind], []):
            yield from _polygons(geometry)
    elif kind == "Feature":
        yield from _polygons(document.get("geometry") or {})
    elif kind == "MultiPolygon":
        for rings in document["coordinates"]:
            yield from _polygons({"type": "Polygon", "coordinates": rings})
    elif kind == "Polygon":
        rings = document["coordinates"]
        if not rings or len(rings[0]) < 3:  # rings[0] is the outer one; H3 closes it
            raise ValueError("the outer ring of a polygon needs at least three positions")
        yield rings
    else:
        raise ValueError(f"a region needs polygons, not {kind!r}")


_FULL_TURNS = (-540, -180, 180, 540)  # edges in degrees of the earth's copies side by side, in which longitudes may lie


def hexagon_of(cell: str) -> dict[str, Any] | None:
    """Outlines an H3 cell counter-clockwise; None if invalid.

    >>> hexagon_of("879b0e2caffffff")["type"]
    'MultiPolygon'
    """
    if not h3.is_valid_cell(cell):
        return None
    corners = [[round(lon, 6), round(lat, 6)] for lat, lon in h3.cell_to_boundary(cell)]
    longitudes = [lon for lon, _ in corners]
    crosses = max(longitudes) - min(longitudes) > 180
    if crosses:
        corners = [[round(lon + 360, 6) if lon < 0 else lon, lat] for lon, lat in corners]
    hexagon = {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
    return cut_at_antimeridian(hexagon) if crosses else hexagon


def cut_at_antimeridian(geometry: Mapping[str, Any]) -> dict[str, Any]:
    """Cuts geometry beyond 180 degrees into parts of [-180, 180].

    Returns the same kind of GeoJSON, or the Multi of it, with areas counter-clockwise. Raises ValueError for an invalid
    one.

    >>> cut_at_antimeridian({"type": "LineString", "coordinates": [[179.9, 0], [180.1, 0]]})["coordinates"]
    (((179.9, 0.0), (180.0, 0.0)), ((-180.0, 0.0), (-179.9, 0.0)))

    Source: RFC 7946, section 3.1.9.
    """
    import shapely.affinity  # which takes a while, and few need it
    import shapely.geometry

    shape, pieces = shapely.geometry.shape(geometry), []
    west, _, east, _ = shape.bounds
    if west >= -180 and east <= 180:
        return dict(geometry)
    kind = str(shape.geom_type).removeprefix("Multi")
    for start, end in pairwise(_FULL_TURNS):
        inside = shape.intersection(shapely.box(start, -90, end, 90))
        shifted = shapely.affinity.translate(inside, -(start + end) / 2)
        pieces += [piece for piece in shapely.get_parts(shifted) if piece.geom_type == kind and piece.length]
    oriented = [shapely.geometry.polygon.orient(piece) if piece.geom_type == "Polygon" else piece for piece in pieces]
    multi = {"Polygon": shapely.MultiPolygon, "LineString": shapely.MultiLineString}[kind]
    joined = oriented[0] if len(oriented) == 1 else multi(oriented)
    cut: dict[str, Any] = shapely.geometry.mapping(shapely.set_precision(joined, 1e-6, mode="pointwise"))  # 0.1 m
    return cut
