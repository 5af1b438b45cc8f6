"""Shapes as files have them: cut where they cross the antimeridian, so that nothing runs around the globe."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import h3

_HALVES = (-540, -180, 180, 540)


def hexagon_of(cell: str) -> dict[str, Any] | None:
    """Draws an H3 cell counter-clockwise; None for what is no cell.

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
    """Cuts a GeoJSON geometry, whose longitudes may go on beyond 180, into parts between -180 and 180.

    Args:
        geometry: Of lines or areas; one that stays between -180 and 180 is given back as it is.

    Returns:
        A geometry of the same kind, or the Multi of it, with areas counter-clockwise.

    Raises:
        ValueError: It is no geometry.

    >>> cut_at_antimeridian({"type": "LineString", "coordinates": [[179.9, 0], [180.1, 0]]})["coordinates"]
    (((179.9, 0.0), (180.0, 0.0)), ((-180.0, 0.0), (-179.9, 0.0)))

    Source: RFC 7946, section 3.1.9.
    """
    import shapely.affinity  # which takes a while, and few need it
    import shapely.geometry

    west, _, east, _ = shapely.geometry.shape(geometry).bounds
    if west >= -180 and east <= 180:
        return dict(geometry)
    whole, parts = shapely.geometry.shape(geometry), []
    for start, end in pairwise(_HALVES):
        inside = whole.intersection(shapely.box(start, -90, end, 90))
        shifted = shapely.affinity.translate(inside, -(start + end) / 2)
        parts += [part for part in shapely.get_parts(shifted) if part.geom_type == _single(whole) and part.length]
    oriented = [shapely.geometry.polygon.orient(part) if part.geom_type == "Polygon" else part for part in parts]
    multi = {"Polygon": shapely.MultiPolygon, "LineString": shapely.MultiLineString}[_single(whole)]
    joined = oriented[0] if len(oriented) == 1 else multi(oriented)
    cut: dict[str, Any] = shapely.geometry.mapping(shapely.set_precision(joined, 1e-6, mode="pointwise"))
    return cut


def _single(whole: Any) -> str:
    return str(whole.geom_type).removeprefix("Multi")
