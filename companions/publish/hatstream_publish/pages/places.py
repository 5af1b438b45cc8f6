"""Reads names and shapes of maps' places.

Positions are (longitude, latitude) in degrees. A shape is drawn as parts: lines, or rings of an area. A GeoJSON feature
has properties, such as a name, and a geometry. Across the antimeridian longitudes are shifted by 360 degrees, so that a
shape is not torn.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h3
import msgspec
import numpy as np
from numpy.typing import NDArray

from hatstream.api import InputError

Box = tuple[float, float, float, float]  # west, south, east, north; west > east across the antimeridian (RFC 7946)
Float64s = NDArray[np.float64]
Position = tuple[float, float]  # longitude and latitude, degrees
LINE, AREA = "line", "area"
AREA_KINDS = dict.fromkeys(("water", "lake", "river", "riverbank", "reservoir", "bay", "sea"), "water") | dict.fromkeys(
    ("park", "forest", "wood", "grass", "garden", "meadow", "cemetery", "nature_reserve"), "park"
)  # kinds of drawn areas, by words that a feature's properties may hold, OpenStreetMap's values among them
_MOST_BYTES = 256 << 20
_MOST_PARTS = 65_535  # of a shape, as a page counts them
_GEOMETRIES = {"LineString": (LINE, 0), "MultiLineString": (LINE, 1), "Polygon": (AREA, 1), "MultiPolygon": (AREA, 2)}
"""How each is drawn, and how many lists lie around its lists of positions."""


@dataclass(frozen=True)
class DrawnShape:
    """Line, or area by the even-odd rule."""

    kind: str  # LINE or AREA
    parts: tuple[tuple[Position, ...], ...]
    geometry: Mapping[str, Any]  # GeoJSON


@dataclass(frozen=True)
class Place:
    """Place of a map."""

    id: str
    name: str = ""  # empty if it has none
    note: str = ""  # further public text, such as its routes
    shape: DrawnShape | None = None
    departures: int = 0  # of a timetable, on all its days


@dataclass(frozen=True)
class NamedPlaces:
    """Public names and shapes of places, by id."""

    named: Mapping[str, Place] = field(default_factory=dict)

    def place(self, place_id: str) -> Place:
        """Returns a row's place. Raises InputError without a shape."""
        place = self.named.get(place_id, Place(place_id))
        if place.shape is not None:
            return place
        if len(place_id) > 18 or not h3.is_valid_cell(place_id):  # h3 fails on far longer ones
            raise InputError(
                f"the place {place_id[:40]!r} is no H3 cell and has no shape: name the specification (--spec), if its "
                "[places] have a file, or a file of places (--places)"
            )
        corners = [(round(lon, 6), round(lat, 6)) for lat, lon in h3.cell_to_boundary(place_id)]
        if max(lon for lon, _ in corners) - min(lon for lon, _ in corners) > 180:  # it lies across the antimeridian
            corners = [(lon + 360 if lon < 0 else lon, lat) for lon, lat in corners]
        ring = (*corners, corners[0])
        polygon = {"type": "Polygon", "coordinates": [list(map(list, ring))]}
        return replace(place, shape=DrawnShape(AREA, (ring,), polygon))

    def with_shapes(self, geometries: Mapping[str, Mapping[str, Any]], origin: Path) -> "NamedPlaces":
        """Adds missing shapes. geometries: GeoJSON by id, of file `origin`. Raises InputError."""
        places = dict(self.named)
        for place_id, geometry in geometries.items():
            place = places.get(place_id, Place(place_id))
            if place.shape is None:
                places[place_id] = replace(place, shape=_shape(str(origin), geometry))
        return NamedPlaces(places)


@dataclass(frozen=True)
class GroundLine:
    """Background line or area."""

    name: str
    colour: str  # of CSS, or empty
    shape: DrawnShape
    kind: str = ""  # of an area: `water`, `park` or empty


def read_places(path: Path | None) -> NamedPlaces:
    """Reads GeoJSON features of places. Raises InputError.

    Their properties: `place` (or `cell`, `id`, or `name` alone), `name`, `note` and `departures`.
    """
    if path is None:
        return NamedPlaces()
    places = {}
    for origin, feature, properties in _features(path):
        ids = filter(None, map(properties.get, ("place", "cell", "id", "name")))
        place_id = next(ids, feature.get("id"))
        if place_id is None:
            raise InputError(f"{origin} needs one of the properties place, cell, id and name")
        shape = None if feature.get("geometry") is None else _shape(origin, feature["geometry"])
        name, note = (str(properties.get(key) or "") for key in ("name", "note"))
        count = properties.get("departures")
        places[str(place_id)] = Place(str(place_id), name, note, shape, count if isinstance(count, int) else 0)
    return NamedPlaces(places)


def read_ground(path: Path | None) -> Sequence[GroundLine]:
    """Reads GeoJSON features of the background. Raises InputError.

    Their properties: `name`, `colour` or GTFS's `route_color`, and any, such as `kind`, with a word of AREA_KINDS.
    """
    if path is None:
        return ()
    lines = []
    for origin, feature, properties in _features(path):
        shape = _shape(origin, feature.get("geometry"))
        kind = next((AREA_KINDS[word] for word in map(str, properties.values()) if word in AREA_KINDS), "")
        text = str(next(filter(None, map(properties.get, ("colour", "color", "route_color"))), "")).removeprefix("#")
        fits = len(text) == 6 and all(letter in "0123456789abcdefABCDEF" for letter in text)
        lines.append(GroundLine(str(properties.get("name") or ""), f"#{text.lower()}" if fits else "", shape, kind))
    return lines


def _features(path: Path) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yields features, each with its file and number, and its properties. Raises InputError."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file")
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path} is of more than {_MOST_BYTES:,} bytes")
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")  # that editors on Windows put first
        document = msgspec.json.decode(text, type=dict[str, Any])
        features = [(number, item) for number, item in enumerate(document["features"], 1) if isinstance(item, dict)]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or type(error).__name__}") from None
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError):
        raise InputError(f"{path} is no GeoJSON collection of features") from None
    for number, feature in features:
        properties = feature.get("properties") or {}
        if not isinstance(properties, dict):
            raise InputError(f"{path}: feature {number}: its properties must be an object, of names with values")
        yield f"{path}: feature {number}", feature, properties


def _shape(feature: str, geometry: Any) -> DrawnShape:
    """Checks a GeoJSON geometry, and flattens it into parts to draw. Raises InputError."""
    kind = str(geometry.get("type")) if isinstance(geometry, dict) else "none"
    if kind not in _GEOMETRIES:
        raise InputError(f"{feature}: its shape must be one of {', '.join(_GEOMETRIES)}; it is {kind[:20]!r}")
    drawn, depth = _GEOMETRIES[kind]  # LINE or AREA; number of lists around lists of positions
    try:
        rings = _flat(geometry["coordinates"], depth)
    except (KeyError, TypeError, ValueError, IndexError):
        raise InputError(f"{feature}: its {kind} has coordinates that are no positions in degrees") from None
    if len(rings) > _MOST_PARTS:
        raise InputError(f"{feature}: its {kind} has more than {_MOST_PARTS:,} parts")
    if not rings or any(len(ring) < 2 for ring in rings):
        raise InputError(f"{feature}: its {kind} needs at least two positions")
    return DrawnShape(drawn, rings, geometry)


def _flat(nested: Any, depth: int) -> tuple[tuple[Position, ...], ...]:
    """Lists the lists of positions in `depth` nested lists, without heights. Raises ValueError."""
    if depth > 0:
        return tuple(polygon for inner in nested for polygon in _flat(inner, depth - 1))
    if not all(math.fabs(longitude) <= 360 and math.fabs(latitude) <= 90 for longitude, latitude, *_ in nested):
        raise ValueError  # up to 360: lines may go on beyond the antimeridian
    return (tuple((float(longitude), float(latitude)) for longitude, latitude, *_ in nested),)


def middle_of(lons: Float64s) -> float:
    """Computes the longitude opposite the widest gap, -180 to 180; 0 for none."""
    if not lons.size:
        return 0.0
    around = np.unique(lons % 360)
    gaps = np.diff(around, append=around[0] + 360)
    widest = gaps.argmax()
    return float((around[widest] + gaps[widest] / 2) % 360 - 180)


def turns(lons: Float64s, middle: float) -> Float64s:
    """Computes multiples of 360 that bring longitudes within half a turn of `middle`."""
    return 360 * np.rint((middle - lons) / 360)


def box_of(shapes: Iterable[DrawnShape]) -> Box:
    """Finds the box of all shapes; zeros without any."""
    positions = [position for shape in shapes for ring in shape.parts for position in ring]
    lons, lats = np.array(positions or [(0.0, 0.0)], np.float64).T
    lons = lons + turns(lons, middle_of(lons))  # each shifted by 360 degrees where that is nearer to the middle
    west, east = float(lons.min()), float(lons.max())  # around the middle: maybe beyond 180
    west, east = west + 360 if west < -180 else west, east - 360 if east > 180 else east
    return west, float(lats.min()), east, float(lats.max())
