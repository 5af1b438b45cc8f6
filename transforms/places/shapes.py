"""Public places from GeoJSON shapes, as fine H3 cells.

A feature is a place. Messages number features from 1. H3 takes room, and compares positions, to fill areas with cells:
both are bounded before. A line's reach is how far from it reports may be. `report`: a callback of progress.
"""

import math
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import h3
import h3.api.basic_int as h3_int
import numpy as np

from transforms.places import near
from transforms.places.ground import NOWHERE, Pieces, Places, ancestors, number_in
from transforms.places.hexagons import KM_PER_DEGREE, MOST_ROOM, MOST_ROOM_IN_ALL, check_comparisons, room_of

if TYPE_CHECKING:
    import shapely

BUFFER_M = 25.0  # what belongs to a line: so far from it, in metres, where a file says nothing else
MOST_PLACES, MOST_KM2 = 200_000, 5_000
LEAST_BUFFER_M, MOST_BUFFER_M = 1.0, 1_000.0
MOST_MEETINGS = 200_000  # of a line's pairs of segments within reach of each other: each takes 30 us
_MOST_CORNERS = 16  # of a quarter of a circle, around the ends of lines: a place's fine cells and digest follow from it
_SAMPLED, _FEW = 50, 600  # so few positions meet less often: of n segments there are n^2 / 2 pairs
_LINES, _AREAS = ("LineString", "MultiLineString"), ("Polygon", "MultiPolygon")


def shape_pieces(
    document: Any, region: Sequence[int], buffer_m: float = BUFFER_M, report: near.Report = near.ignore
) -> Pieces:
    """Cuts a region by GeoJSON features. Raises ValueError.

    A feature is an area, or a line with what lies within `buffer_m`, or its own property buffer_m. What several contain
    belongs to the nearest, among equals the first. A line with the property `directed` is driven in the order of its
    positions alone: reports without a heading are not of it.
    """
    places, cells = _read_places(document, region, buffer_m, report)
    for name in compress(places.names, places.cell == NOWHERE):
        raise ValueError(f"place {name!r} has no part in the region that is not another's: leave it out")
    return Pieces.cut(region, near.FINE_RES, cells.cell, cells.place, places, cells.turns)  # turns: places by heading


def places_outside(document: Any, cells: Sequence[int]) -> list[str]:
    """Lists the GeoJSON places that lie outside the region.

    cells: the region's H3 cells of one resolution, sorted. Raises ValueError for a collection that no release can use.

    >>> places_outside({"type": "FeatureCollection", "features": []}, [])
    Traceback (most recent call last):
    ValueError: ...
    """
    places, _ = _read_places(document, cells, BUFFER_M)
    return list(compress(places.names, places.cell == NOWHERE))


def _read_places(
    document: Any, region: Sequence[int], buffer_m: float, report: near.Report = near.ignore
) -> tuple[Places, near.CellPlaces]:
    """Reads GeoJSON places, and assigns them fine cells. Raises ValueError for unfit ones.

    The cell of a place is NOWHERE if none of its fine cells lies in the region.
    """
    kind = document.get("type") if isinstance(document, dict) else None
    features = document.get("features") if kind == "FeatureCollection" else None
    if not isinstance(features, list) or not features:
        raise ValueError(f"places are the features of a GeoJSON FeatureCollection, at least one; it is {kind!r}")
    if len(features) > MOST_PLACES:
        raise ValueError(f"there are at most {MOST_PLACES:,} places; it has {len(features):,}")
    import shapely

    names, shapes = _names(features), _shapes(features, buffer_m)
    area_m2 = shapely.area(shapes.area)
    if area_m2.sum() > MOST_KM2 * 1e6:
        raise ValueError(f"places cover at most {MOST_KM2:,} square kilometres")
    parts, feature_of = shapely.get_parts(shapes.area, return_index=True)
    for row in np.flatnonzero(shapely.is_empty(parts))[:1]:  # the first, if any; so below
        raise ValueError(f"feature {feature_of[row] + 1} has an empty part: leave it out")
    # Cells that H3 takes room for. Bounds in metres, (parts, 4), over metres per degree of west, south, east, north.
    room = room_of(shapely.bounds(parts) / np.tile(shapes.scale[feature_of], 2), near.FINE_RES)
    for row in np.flatnonzero(room > MOST_ROOM)[:1]:  # H3 would take much memory or minutes to fill it
        raise ValueError(f"feature {feature_of[row] + 1} reaches too far: is a position wrong? Else cut it into parts")
    if room.sum() > MOST_ROOM_IN_ALL:
        raise ValueError("places reach too far in all: cut long ones into parts")
    fine_m2 = h3.average_hexagon_area(near.FINE_RES, "m^2")  # H3 compares each cell of an area with each position
    check_comparisons(area_m2 / fine_m2, shapely.get_num_coordinates(shapes.area))  # raises for too many
    fine_cells = near.places_of_cells(near.near_pairs(shapes, report))
    coarse_cell = ancestors(fine_cells.cell, h3_int.get_resolution(region[0]))  # of each fine cell
    region_index = number_in(np.array(region, np.int64), coarse_cell)  # NOWHERE: outside the region, not counted below
    place, cell, size = near.cells_by_place(fine_cells, region_index)
    order = np.lexsort((-cell, size))  # the largest last, and of equals the first cell
    main_cell = np.full(len(names), NOWHERE, np.int64)  # of each place: the cell with most of its fine cells
    main_cell[place[order]] = cell[order]
    return Places(names, main_cell, tuple(feature["geometry"] for feature in features)), fine_cells


def _names(features: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Reads features' names, in order. Raises ValueError for missing or repeated ones."""
    names: dict[str, int] = {}
    for number, feature in enumerate(features, 1):
        properties = feature.get("properties") if isinstance(feature, dict) else None
        name = properties.get("name") if isinstance(properties, dict) else None
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 200:
            raise ValueError(f"feature {number} needs a property name: printable text of at most 200 letters")
        if name in names:
            raise ValueError(f"features {names[name]} and {number} are both named {name!r}: a name is of one place")
        names[name] = number
    return tuple(names)


def _shapes(features: Sequence[dict[str, Any]], buffer_m: float) -> near.Shapes:
    """Reads and checks features' geometries. Raises ValueError that names the first wrong one."""
    import shapely

    degrees = np.array([_degrees_of(feature, number) for number, feature in enumerate(features, 1)])
    west, south, east, north = shapely.bounds(degrees).T  # nan for an empty one, for which comparisons are False
    on_earth = (west >= -180) & (west <= east) & (east <= 180) & (south >= -85) & (south <= north) & (north <= 85)
    for number in _first_number(~on_earth):  # of the first such feature, if any; so below
        raise ValueError(f"feature {number} needs longitudes and latitudes within 85 degrees of the equator")
    middle = ((south + north) / 2).tolist()  # latitudes: a degree of longitude is shorter by their cosine
    scale = 1_000 * KM_PER_DEGREE * np.array([[math.cos(math.radians(latitude)), 1.0] for latitude in middle])
    positions, feature_of = shapely.get_coordinates(degrees, return_index=True)
    in_metres = shapely.set_coordinates(degrees.copy(), positions * scale[feature_of])
    for number in _first_number(~shapely.is_valid(in_metres)):
        why = shapely.is_valid_reason(degrees[number - 1])
        raise ValueError(f"feature {number} has a geometry that is not valid: {why}")
    is_directed = np.array([_is_directed(feature, number) for number, feature in enumerate(features, 1)], np.bool_)
    is_single_line = shapely.get_type_id(degrees) == shapely.GeometryType.LINESTRING
    for number in _first_number(is_single_line & (east - west > 180)):
        raise ValueError(f"feature {number}: cut a line at the antimeridian; else it goes around the world")
    reach_m = np.array([_buffer_of(feature, buffer_m, number) for number, feature in enumerate(features, 1)])
    is_line = reach_m > 0  # areas have 0
    for row in np.flatnonzero(is_line & (shapely.get_num_coordinates(in_metres) > _FEW)).tolist():  # few: no tangle
        if _meetings(in_metres[row], reach_m[row]) > MOST_MEETINGS:
            raise ValueError(f"feature {row + 1} has a line that is too tangled or too detailed: simplify or split it")
    area = in_metres.copy()
    area[is_line] = shapely.buffer(in_metres[is_line], reach_m[is_line], quad_segs=_MOST_CORNERS)
    return near.Shapes(in_metres, area, scale, reach_m, is_directed)


def _first_number(is_wrong: "np.typing.NDArray[np.bool_]") -> list[int]:
    """Lists the first wrong feature's number, if any."""
    return [int(row) + 1 for row in np.flatnonzero(is_wrong)[:1]]


def _degrees_of(feature: dict[str, Any], number: int) -> "shapely.Geometry":
    """Reads a feature's line or area, degrees. Raises ValueError naming its number."""
    import shapely
    import shapely.geometry

    geometry = feature.get("geometry")
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if geometry is None or kind not in (*_LINES, *_AREAS):
        raise ValueError(f"feature {number} needs a line or a polygon; it is {kind!r}")
    if not _are_numbers(geometry.get("coordinates")):  # shapely reads texts of numbers too; maps draw none
        raise ValueError(f"feature {number} has a geometry that cannot be read: coordinates must be numbers")
    try:
        with np.errstate(invalid="ignore"):  # what is no number is nowhere on earth
            return shapely.geometry.shape(geometry)
    except (ValueError, TypeError, LookupError, AttributeError, shapely.errors.ShapelyError) as error:
        raise ValueError(f"feature {number} has a geometry that cannot be read: {type(error).__name__}") from None


def _are_numbers(coordinates: object, depth: int = 4) -> bool:
    """Checks that coordinates are numbers, nested to a depth: a MultiPolygon's is 4."""
    if isinstance(coordinates, list | tuple):
        return depth > 0 and all(_are_numbers(inner_coordinates, depth - 1) for inner_coordinates in coordinates)
    return isinstance(coordinates, int | float)


def _property(feature: dict[str, Any], name: str, default: Any) -> Any:
    """Reads a property, with null as missing."""
    value = (feature.get("properties") or {}).get(name)
    return default if value is None else value


def _is_directed(feature: dict[str, Any], number: int) -> bool:
    """Reads whether a line is driven in one direction only. Raises ValueError."""
    kind = feature["geometry"]["type"]
    is_directed = _property(feature, "directed", default=False)
    if not isinstance(is_directed, bool):
        raise ValueError(f"feature {number}: directed must be true or false")
    if is_directed and kind != "LineString":
        raise ValueError(f"feature {number}: directed needs a LineString; it is {kind!r}")
    return is_directed


def _meetings(line: "shapely.Geometry", buffer_m: float) -> float:
    """Estimates how many pairs of a line's segments lie within reach, by sampling."""
    import shapely

    pieces = [shapely.get_coordinates(piece) for piece in shapely.get_parts(line)]
    segments = np.concatenate([shapely.linestrings(np.stack([piece[:-1], piece[1:]], axis=1)) for piece in pieces])
    sample = segments[:: max(1, segments.size // _SAMPLED)]  # evenly along the line
    reach = shapely.bounds(sample) + np.array([-buffer_m, -buffer_m, buffer_m, buffer_m])  # rectangles
    met = shapely.STRtree(segments).query(shapely.box(*reach.T))  # (2, pairs) of a sampled one and any
    return float(met.shape[1] / sample.size * segments.size / 2)  # halved: each pair is met from both its segments


def _buffer_of(feature: dict[str, Any], buffer_m: float, number: int) -> float:
    """Reads a line's buffer in metres, 0 for areas. Raises ValueError naming `number`."""
    if feature["geometry"]["type"] in _AREAS:
        return 0.0
    reach_m = _property(feature, "buffer_m", buffer_m)
    if not isinstance(reach_m, int | float) or not LEAST_BUFFER_M <= reach_m <= MOST_BUFFER_M:
        raise ValueError(f"feature {number}: buffer_m must be {LEAST_BUFFER_M:g} to {MOST_BUFFER_M:g} metres")
    return float(reach_m)
