"""H3 cells: of positions, mostly from squares; their names and shapes; regions' cells.

`rings`: a polygon's outer ring, then holes, of (longitude, latitude). A position in a square that lies in one cell has
that cell: tables, of large squares first, learn squares that were met OFTEN. A square's key has its row from the south
in the upper 32 bits, its column from the west in the lower, both counted from -_SHIFT_E7; its bucket is the key's hash.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import h3
import h3.api.basic_int as h3_int
import h3.api.numpy_int as h3_arrays
import numpy as np
from numpy.typing import NDArray

from dpops.types import Float64s, Int64s

MOST_CELLS, MOST_KM2 = 5_000_000, 20_000_000  # of a region: more would not fit into memory
MOST_COMPARISONS = 3 * 10**10  # of cells with positions of the polygons that may hold them: 3 ns each in H3
MOST_ROOM, MOST_ROOM_IN_ALL = 40_000_000, 400_000_000
"""Cells that H3 takes room for, 20 bytes each, to fill one polygon and one after the other: see `room_of`."""
KM_PER_DEGREE = 111.2

Rings = Sequence[Sequence[Sequence[float]]]


def cell_text(cell: int) -> str:
    """Formats an H3 index as text."""
    return f"{cell:x}"


def cells_of_list(names: Sequence[str], resolution: int) -> tuple[int, ...]:
    """Checks and sorts a region's cells, hexadecimal or decimal. Raises ValueError.

    >>> cells_of_list(["608533827635118079", "871f24ac5ffffff"], resolution=7)
    (608533827635118079,)
    """
    cells = set()
    for listed in names:
        # More than 16 digits are of a decimal number, of 20 at most: cut, as a hostile text of many takes long.
        is_decimal = listed.isascii() and listed.isdecimal() and len(listed) > 16
        name = cell_text(int(listed[:20])) if is_decimal else listed
        if not h3.is_valid_cell(name):
            raise ValueError(f"{name!r} is not an H3 cell")
        if h3.get_resolution(name) != resolution:
            raise ValueError(f"{name!r} has resolution {h3.get_resolution(name)}, the release has {resolution}")
        cells.add(h3.str_to_int(name))
    return tuple(sorted(cells))


def _bounds(rings: Rings) -> tuple[float, float, float, float]:
    """Computes a polygon's west, south, east, north in degrees; east may exceed 180."""
    lons, lats = ([position[axis] for position in rings[0]] for axis in (0, 1))
    if max(lons) - min(lons) > 180:  # such a one crosses the antimeridian for H3
        lons = [longitude % 360 for longitude in lons]
    return min(lons), min(lats), max(lons), max(lats)


def _sides_km(bounds: Float64s) -> tuple[Float64s, Float64s]:
    """Computes widths and heights in km of rectangles, (polygons, 4) degrees."""
    west, south, east, north = bounds.T
    return (east - west) * np.cos(np.radians((south + north) / 2)) * KM_PER_DEGREE, (north - south) * KM_PER_DEGREE


def room_of(bounds: Float64s, resolution: int) -> Float64s:
    """Estimates the cells that H3 allocates to fill polygons in these rectangles.

    bounds: (polygons, 4), degrees west, south, east, north. Source: bboxHexEstimate of H3 4.5: the diagonal's square
    over the ratio of the sides in degrees, longer to shorter, of at most 3.
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
    cells = km2 / h3.average_hexagon_area(resolution, "km^2")  # (polygons,)
    if (total := cells.sum()) > MOST_CELLS:
        raise ValueError(f"the area takes about {total:,.0f} cells of resolution {resolution}; at most {MOST_CELLS:,}")
    allocated = room_of(bounds, resolution)  # cells, (polygons,): of a thin diagonal polygon many more than are in it
    if allocated.max(initial=0) > MOST_ROOM or allocated.sum() > MOST_ROOM_IN_ALL:
        raise ValueError("the area is long and narrow beyond measure: is a position wrong? Else cut it into parts")
    check_comparisons(cells, np.array([sum(map(len, rings)) for rings in polygons], np.int64))  # of cells and corners
    inside = [h3_arrays.geo_to_cells({"type": "Polygon", "coordinates": rings}, resolution) for rings in polygons]
    return tuple(np.unique(np.concatenate([np.zeros(0, np.uint64), *inside])).tolist())


def check_comparisons(cells: Float64s, corners: Int64s) -> None:
    """Raises ValueError where H3 would compare too many cells with polygons' corners."""
    if cells @ corners > MOST_COMPARISONS:
        raise ValueError(
            f"polygons of {corners.sum():,} positions are too detailed for so large an area: simplify them"
        )


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


def hexagon_of(cell: str) -> dict[str, Any] | None:
    """Outlines an H3 cell counter-clockwise; None if invalid.

    >>> hexagon_of("879b436d5ffffff")["type"]
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

    Returns the same kind of GeoJSON, or the Multi of it, with areas counter-clockwise. Raises ValueError if invalid.

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
    for start, end in pairwise((-540, -180, 180, 540)):  # the earth and its copies side by side
        inside = shape.intersection(shapely.box(start, -90, end, 90))
        shifted = shapely.affinity.translate(inside, -(start + end) / 2)  # by full turns
        pieces += [piece for piece in shapely.get_parts(shifted) if piece.geom_type == kind and piece.length]
    oriented = [shapely.geometry.polygon.orient(piece) if piece.geom_type == "Polygon" else piece for piece in pieces]
    multi = {"Polygon": shapely.MultiPolygon, "LineString": shapely.MultiLineString}[kind]
    joined = oriented[0] if len(oriented) == 1 else multi(oriented)
    cut: dict[str, Any] = shapely.geometry.mapping(shapely.set_precision(joined, 1e-6, mode="pointwise"))  # 0.1 m
    return cut


FEW_POSITIONS = 256  # below, H3 is asked at once
OFTEN = 3  # a square is learnt, which asks H3 for four corners, when so many positions have been in its bucket
BUCKET_BITS = 19  # a hash table has 2**19 buckets
FARTHEST_E7, WIDEST_E7 = 700_000_000, 1_800_000_000
SQUARES_AN_EDGE = 3, 12, 48
"""Squares along the edge of a cell: a few coarse ones hold most positions, finer ones most of those near edges."""
MOST_BITS = 22  # of a side, 47 km: parallels would stray too far from great circles in larger squares

_SHIFT_E7 = 1 << 32  # makes every coordinate positive; sides are of 4 steps at least, so a key is below 2^63
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: Fibonacci hashing (Knuth, volume 3, 6.4)
_UNKNOWN, _NO_CELL = -1, 0


class _SquareTable(NamedTuple):
    """Squares of one size and their cells, in a write-once hash table.

    A square of 2^k by 2^k steps of 1e-7 degrees counts as inside a cell if the four corners of a larger one do, half as
    wide again from south to north, twice as wide from west to east. That is enough: the edges of a cell are arcs of
    great circles, and it is convex but where they cross an edge of H3's icosahedron. There they turn by 22.7 degrees at
    most, so that what lies outside fills an angle of 157 degrees or more, seen from the turn. Up to 70 degrees of
    latitude, two neighbouring corners are less than 155 degrees apart, seen from any point of the square: a turn inside
    it would show at a corner. (A parallel strays from a great circle by less than a hundredth of the side.) What is
    nearer to a pole or at the 180th meridian is left to H3.
    """

    resolution: int  # of the cells
    bits: int  # of the side, which is 2**bits steps of 1e-7 degrees
    key: Int64s  # square by bucket, or _UNKNOWN
    cell: Int64s  # by bucket, written before the key: the square's cell, or _NO_CELL if it lies in several
    met: NDArray[np.uint8]  # positions in a free bucket's squares, up to OFTEN


def cells_at(lat_e7: Int64s, lon_e7: Int64s, resolution: int) -> Int64s:
    """Finds H3 cells of positions in 1e-7 degrees, asking H3 near their edges."""
    if lat_e7.size < FEW_POSITIONS:
        return cells_by_h3(lat_e7, lon_e7, resolution)
    cells = np.full(lat_e7.size, _NO_CELL, np.int64)
    rows: slice | Int64s = slice(None)  # all
    for table in _tables(resolution):
        row, column = (lat_e7[rows] + _SHIFT_E7) >> table.bits, (lon_e7[rows] + _SHIFT_E7) >> table.bits
        squares = (row << 32) | column  # keys
        cell, is_known = _cells_of(table, squares)
        unknown = np.flatnonzero(~is_known)
        if unknown.size and _learn(table, squares[unknown]):
            cell[unknown], _ = _cells_of(table, squares[unknown])  # those that were learnt are known now
        cells[rows] = cell
        rows = np.flatnonzero(cells == _NO_CELL)  # positions for the next table, of smaller squares
        if rows.size == 0:
            return cells
    cells[rows] = cells_by_h3(lat_e7[rows], lon_e7[rows], resolution)
    return cells


def cells_by_h3(lat_e7: Int64s, lon_e7: Int64s, resolution: int) -> Int64s:
    """Asks H3 for cells of positions in 1e-7 degrees."""
    lat, lon = (lat_e7 / 1e7).tolist(), (lon_e7 / 1e7).tolist()
    return np.fromiter(map(h3_int.latlng_to_cell, lat, lon, repeat(resolution)), np.int64, len(lat))


@cache
def _tables(resolution: int) -> tuple[_SquareTable, ...]:
    """Creates empty tables of coarse to fine squares, sides powers of 2."""
    edge_e7 = h3.average_hexagon_edge_length(resolution, unit="km") / KM_PER_DEGREE * 1e7  # of a cell, 1e-7 degrees
    sides = (edge_e7 / number for number in SQUARES_AN_EDGE if edge_e7 / number >= 4)  # keys stay below 2^63
    sizes = dict.fromkeys(min(int(np.log2(side)), MOST_BITS) for side in sides)  # bits of a side, each number once
    key, cell = np.full(1 << BUCKET_BITS, _UNKNOWN, np.int64), np.zeros(1 << BUCKET_BITS, np.int64)
    return tuple(_SquareTable(resolution, bits, key.copy(), cell.copy(), met=cell.astype(np.uint8)) for bits in sizes)


def _buckets(square: Int64s) -> Int64s:
    mixed: NDArray[np.uint64] = square.view(np.uint64) * _HASH_FACTOR
    return (mixed >> np.uint64(64 - BUCKET_BITS)).view(np.int64)


def _cells_of(table: _SquareTable, squares: Int64s) -> tuple[Int64s, NDArray[np.bool_]]:
    """Looks up squares' cells, _NO_CELL if unknown or in several; marks the known ones."""
    bucket = _buckets(squares)
    is_known = table.key[bucket] == squares
    return np.where(is_known, table.cell[bucket], _NO_CELL), is_known


def _learn(table: _SquareTable, key: Int64s) -> bool:
    """Counts positions in unknown squares, and stores cells of frequent ones; False for none."""
    key = key[table.key[_buckets(key)] == _UNKNOWN]  # of positions, in free buckets: squares keep theirs for good
    squares, positions = np.unique(key, return_counts=True)
    bucket, first = np.unique(_buckets(squares), return_index=True)  # of several squares in a bucket, one is counted
    squares = squares[first]
    counts = np.minimum(table.met[bucket] + positions[first], OFTEN)  # of positions so far; no more is counted
    table.met[bucket] = counts
    bucket, squares = bucket[counts == OFTEN], squares[counts == OFTEN]
    if not squares.size:
        return False
    table.cell[bucket] = _cell_around(table, squares)
    table.key[bucket] = squares  # last: who finds the key finds the cell too, in any thread
    return True


def _cell_around(table: _SquareTable, squares: Int64s) -> Int64s:
    """Finds the cell that contains each square and a margin; _NO_CELL if several."""
    side = 1 << table.bits
    high, wide = -(-side // 4), -(-side // 2)  # margins on each side, rounded up: 1.5 by 2 sides in all
    south = ((squares >> 32) << table.bits) - _SHIFT_E7 - high
    west = ((squares & 0xFFFFFFFF) << table.bits) - _SHIFT_E7 - wide
    north, east = south + side + 2 * high, west + side + 2 * wide
    # Away from poles and the 180th meridian.
    is_regular = (south >= -FARTHEST_E7) & (north <= FARTHEST_E7) & (west >= -WIDEST_E7) & (east <= WIDEST_E7)
    corners = [(south, west), (south, east), (north, west), (north, east)]
    lat_lon = (np.where(is_regular, corner, 0) for corner in corners)  # 0: any valid position
    cells = [cells_by_h3(lat, lon, table.resolution) for lat, lon in lat_lon]
    is_in_one = is_regular & np.logical_and.reduce([corner == cells[0] for corner in cells[1:]])
    return np.where(is_in_one, cells[0], _NO_CELL)
