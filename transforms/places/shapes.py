"""Public places from GeoJSON: polygons, and lines with what lies near them, as tables of fine H3 cells."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import h3
import h3.api.basic_int as h3_int
import numpy as np

from dpops.types import Float64s, Int64s
from transforms.places.directions import ANY_WAY, Near, Shared, bearings, cells_by_place, shared
from transforms.places.ground import NOWHERE, Pieces, Places, ancestors
from transforms.places.hexagons import KM_PER_DEGREE, cell_text, check_looks

if TYPE_CHECKING:
    import shapely

FINE = 12
"""Resolution of the cells that a file's places are made of: edges of 9 m."""
BUFFER_M = 25.0
"""What belongs to a line: so far from it, in metres, where a file says nothing else."""
MOST_PLACES, MOST_KM2 = 200_000, 5_000
LEAST_BUFFER_M, MOST_BUFFER_M = 1.0, 1_000.0
MOST_MEETINGS = 200_000
"""Of pairs of a line's segments that lie within reach of each other: what lies near the line takes 30 us for each."""
_SAMPLED = 50
_LINES, _AREAS = ("LineString", "MultiLineString"), ("Polygon", "MultiPolygon")


def shape_pieces(document: Any, region: Sequence[int], buffer_m: float = BUFFER_M) -> Pieces:
    """A region cut by the features of a GeoJSON collection. region: sorted cells.

    A feature is an area, or a line with all that lies within `buffer_m` of it (or of its own property buffer_m). Each
    needs a property `name` of its own. What lies in several belongs to the nearest, and to the one that is first
    in the file where two are equally near. A line with the property `directed` is of vehicles that drive along it, in
    the order of its positions: see `directions.shared`. Raises ValueError, which names the feature, and
    ModuleNotFoundError without shapely.
    """
    features, names, fine_cells, main = _parts(document, region, buffer_m)
    for name in _lacking(names, main):
        raise ValueError(f"place {name!r} has no part in the region that is not another's: leave it out")
    geometries = tuple(feature["geometry"] for feature in features)
    return Pieces.cut(
        region, FINE, fine_cells.cell, fine_cells.place, Places(names, main, geometries), fine_cells.turns
    )


def without_part(document: Any, region: Sequence[int], buffer_m: float = BUFFER_M) -> list[str]:
    """The places of a collection, by name, that `shape_pieces` would refuse, for others take all they have."""
    _, names, _, main = _parts(document, region, buffer_m)
    return _lacking(names, main)


def _lacking(names: Sequence[str], main: Int64s) -> list[str]:
    return [name for name, cell in zip(names, main.tolist(), strict=True) if cell == NOWHERE]


def _parts(
    document: Any, region: Sequence[int], buffer_m: float
) -> tuple[list[dict[str, Any]], tuple[str, ...], Shared, Int64s]:
    """Reads a collection: its features, and of each the name, the fine cells and the cell that holds most of them."""
    features = _features(document)
    names, fine_cells = _names(features), _fine_cells(features, buffer_m)
    return features, names, fine_cells, _main_cells(fine_cells, region, len(names))


def _main_cells(fine_cells: Shared, region: Sequence[int], places: int) -> Int64s:
    """Finds for each place which cell holds most of its fine cells; the first of several; NOWHERE for a place without
    any."""
    above = ancestors(fine_cells.cell, h3.get_resolution(cell_text(region[0])))
    where = np.minimum(np.searchsorted(np.array(region, np.int64), above), len(region) - 1)
    inside = np.array(region, np.int64)[where] == above
    cell, place, count = cells_by_place(fine_cells, np.where(inside, where, NOWHERE))
    pairs, pair = np.unique(np.stack([place, cell]), axis=1, return_inverse=True)
    whole = np.bincount(pair.ravel(), count, pairs.shape[1])
    order = np.lexsort((-pairs[1], whole))  # the largest last, and of equals the first cell
    main = np.full(places, NOWHERE, np.int64)
    main[pairs[0][order]] = pairs[1][order]
    return main


def _features(document: Any) -> list[dict[str, Any]]:
    kind = document.get("type") if isinstance(document, dict) else None
    features = document.get("features") if kind == "FeatureCollection" else None
    if not isinstance(features, list) or not features:
        raise ValueError(f"places are the features of a GeoJSON FeatureCollection, at least one; it is {kind!r}")
    if len(features) > MOST_PLACES:
        raise ValueError(f"there are at most {MOST_PLACES:,} places; it has {len(features):,}")
    return features


def _names(features: Sequence[dict[str, Any]]) -> tuple[str, ...]:
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


def _fine_cells(features: Sequence[dict[str, Any]], buffer_m: float) -> Shared:
    """Fine cells, each once, and the place of each."""
    import shapely

    shapes = [_shape_of(feature, buffer_m, number) for number, feature in enumerate(features, 1)]
    if sum(shape.area.area for shape in shapes) > MOST_KM2 * 1e6:
        raise ValueError(f"places cover at most {MOST_KM2:,} square kilometres")
    fine_m2 = h3.average_hexagon_area(FINE, "m^2")
    check_looks(
        [shape.area.area / fine_m2 for shape in shapes], [shapely.get_num_coordinates(shape.area) for shape in shapes]
    )
    parts = [_cells_of(shape) for shape in shapes]
    cell, apart_m, bearing = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    place = np.repeat(np.arange(len(parts)), [cells.size for cells, *_ in parts])
    order = np.lexsort((place, apart_m, cell))
    return shared(Near(cell[order], place[order], bearing[order]))


class _Shape(NamedTuple):
    """A feature on a plane of metres that is true around a latitude. area: with what lies near a line. is_directed:
    whether a line is of those alone who drive in the order of its positions."""

    line: "shapely.Geometry"
    area: "shapely.Geometry"
    middle: float
    is_directed: bool


def _shape_of(feature: dict[str, Any], buffer_m: float, number: int) -> _Shape:
    import shapely
    import shapely.geometry

    geometry = feature.get("geometry")
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind not in (*_LINES, *_AREAS):
        raise ValueError(f"feature {number} needs a line or a polygon; it is {kind!r}")
    try:
        with np.errstate(invalid="ignore"):  # what is no number is nowhere on earth
            degrees = shapely.geometry.shape(geometry)
    except (ValueError, TypeError, LookupError, AttributeError, shapely.errors.ShapelyError) as error:
        raise ValueError(f"feature {number} has a geometry that cannot be read: {type(error).__name__}") from None
    if not _is_on_earth(degrees):
        raise ValueError(f"feature {number} needs longitudes and latitudes within 85 degrees of the equator")
    middle = (degrees.bounds[1] + degrees.bounds[3]) / 2
    line = shapely.transform(degrees, lambda positions: positions * _metres_per_degree(middle))
    if not line.is_valid:
        raise ValueError(f"feature {number} has a geometry that crosses itself: {shapely.is_valid_reason(degrees)}")
    is_directed = _is_directed(feature, number, str(kind))
    if is_directed and degrees.bounds[2] - degrees.bounds[0] > 180:
        raise ValueError(f"feature {number}: cut a line with a direction at the antimeridian")
    if kind in _AREAS:
        return _Shape(line, line, middle, is_directed)
    own_m = _buffer_of(feature, buffer_m, number)
    if _meetings(line, own_m) > MOST_MEETINGS:
        raise ValueError(f"feature {number} has a line that is too tangled or too detailed: simplify or split it")
    return _Shape(line, line.buffer(own_m), middle, is_directed)


def _is_directed(feature: dict[str, Any], number: int, kind: str) -> bool:
    said = (feature.get("properties") or {}).get("directed", False)
    if not isinstance(said, bool):
        raise ValueError(f"feature {number}: directed must be true or false")
    if said and kind != "LineString":
        raise ValueError(f"feature {number}: directed goes with a LineString; it is {kind!r}")
    return said


def _meetings(line: "shapely.Geometry", buffer_m: float) -> float:
    """About how many pairs of a line's segments lie within reach, by boxes around a sample of them."""
    import shapely

    parts = [shapely.get_coordinates(part) for part in shapely.get_parts(line)]
    segments = np.concatenate([shapely.linestrings(np.stack([part[:-1], part[1:]], axis=1)) for part in parts])
    sample = segments[:: max(1, segments.size // _SAMPLED)]
    reach = shapely.bounds(sample) + np.array([-buffer_m, -buffer_m, buffer_m, buffer_m])
    met = shapely.STRtree(segments).query(shapely.box(*reach.T))
    return float(met.shape[1] / sample.size * segments.size / 2)


def _cells_of(shape: _Shape) -> tuple[Int64s, Float64s, Int64s]:
    """The fine cells whose centres lie in a shape's area, how far each is from its line, in whole metres, and which way
    the line runs there."""
    import shapely
    import shapely.geometry

    scale = _metres_per_degree(shape.middle)
    area = shapely.transform(shape.area, lambda metres: metres / scale)
    found = h3_int.h3shape_to_cells(h3.geo_to_h3shape(shapely.geometry.mapping(area)), FINE)
    cells = np.array(sorted(found), np.int64)
    centres = np.array([h3_int.cell_to_latlng(cell) for cell in cells.tolist()], np.float64).reshape(-1, 2)
    points = shapely.points(centres[:, ::-1] * scale)
    bearing = bearings(shape.line, points) if shape.is_directed else np.full(cells.size, ANY_WAY)
    return cells, np.rint(shapely.distance(points, shape.line)), bearing


def _is_on_earth(degrees: "shapely.Geometry") -> bool:
    west, south, east, north = degrees.bounds  # nan, which is nowhere, of an empty one
    return bool(-180 <= west <= east <= 180 and -85 <= south <= north <= 85)


def _buffer_of(feature: dict[str, Any], buffer_m: float, number: int) -> float:
    own = (feature.get("properties") or {}).get("buffer_m", buffer_m)
    if not isinstance(own, int | float) or not LEAST_BUFFER_M <= own <= MOST_BUFFER_M:
        raise ValueError(f"feature {number}: buffer_m must be {LEAST_BUFFER_M:g} to {MOST_BUFFER_M:g} metres")
    return float(own)


def _metres_per_degree(latitude: float) -> Float64s:
    """Metres of a degree of longitude and of latitude, float64 (2,)."""
    return 1_000 * KM_PER_DEGREE * np.array([math.cos(math.radians(latitude)), 1.0])
