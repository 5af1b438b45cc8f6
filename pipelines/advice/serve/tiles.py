"""Vector tiles of one slot's values. Source: Mapbox Vector Tile Specification 2.1."""

import math
from collections.abc import Mapping
from functools import lru_cache

import mapbox_vector_tile
import numpy as np
import shapely
import shapely.geometry

from dpops.types import Float64s
from pipelines.advice.serve.answers import Answer, BadQuery, chosen
from pipelines.advice.serve.snapshot import Snapshot

MEDIA = "application/vnd.mapbox-vector-tile"
LAYER = "places"
MOST_ZOOM = 22
_BUFFER = 0.05
"""Of a tile's width, around it."""
_SHOWN = ("cell", "name", "statistic", "value", "lower95", "upper95", "unit", "value_of", "status")

Box = tuple[float, float, float, float]


def tile(snapshot: Snapshot, zoom: int, column: int, row: int, query: Mapping[str, str]) -> Answer:
    """The layer `places` of the tile; without a value in it an empty tile. Raises BadQuery."""
    if not (0 <= zoom <= MOST_ZOOM and 0 <= column < 2**zoom and 0 <= row < 2**zoom):
        raise BadQuery(f"there is no tile {zoom}/{column}/{row}: a zoom is 0 to {MOST_ZOOM}")
    rows = chosen(snapshot, query)
    bounds, places, features = _bounds(zoom, column, row), _projected(snapshot), []
    for said in rows.select([name for name in _SHOWN if name in rows.column_names]).to_pylist():
        place = places[said["cell"]]
        if place.intersects(_around(bounds)):
            properties = {name: value for name, value in said.items() if value is not None}
            features.append({"geometry": place, "properties": properties})
    if not features:
        return Answer(b"", MEDIA)
    options = {"quantize_bounds": bounds, "extents": 4096}
    return Answer(mapbox_vector_tile.encode([{"name": LAYER, "features": features}], default_options=options), MEDIA)


def _bounds(zoom: int, column: int, row: int) -> Box:
    """West, south, east, north on the Mercator square, [0, 1] both ways, north up."""
    size = 1 / 2**zoom
    return column * size, 1 - (row + 1) * size, (column + 1) * size, 1 - row * size


def _around(bounds: Box) -> shapely.Polygon:
    west, south, east, north = bounds
    margin = (east - west) * _BUFFER
    return shapely.box(west - margin, south - margin, east + margin, north + margin)


@lru_cache(maxsize=1)
def _projected(snapshot: Snapshot) -> dict[str, shapely.Geometry]:
    """Every place on the Mercator square."""
    return {
        cell: shapely.transform(shapely.geometry.shape(place.shape.geometry), _on_square)
        for cell, place in snapshot.places.items()
        if place.shape is not None
    }


def _on_square(positions: Float64s) -> Float64s:
    return np.array([_mercator(*position) for position in positions])


def _mercator(lon: float, lat: float) -> tuple[float, float]:
    sine = math.sin(math.radians(max(-85.0, min(85.0, lat))))
    return lon / 360 + 0.5, 0.5 + math.log((1 + sine) / (1 - sine)) / (4 * math.pi)
