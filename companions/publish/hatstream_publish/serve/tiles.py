"""Vector tiles of one slot's values. Source: Mapbox Vector Tile Specification 2.1."""

from collections.abc import Mapping
from typing import Any

import mapbox_vector_tile
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from hatstream_publish.serve.answers import Answer, BadQuery, chosen
from hatstream_publish.serve.snapshot import Snapshot

MEDIA = "application/vnd.mapbox-vector-tile"
LAYER = "places"
MOST_ZOOM = 22
EXTENT = 4096
_BUFFER = 0.05
"""Of a tile's width, around it."""
_SHOWN = ("cell", "name", "statistic", "value", "lower95", "upper95", "unit", "value_of", "status")

Box = tuple[float, float, float, float]


def tile(snapshot: Snapshot, zoom: int, column: int, row: int, query: Mapping[str, str]) -> Answer:
    """Makes the layer `places` of the tile; without a value in it an empty tile. Raises BadQuery."""
    if not (0 <= zoom <= MOST_ZOOM and 0 <= column < 2**zoom and 0 <= row < 2**zoom):
        raise BadQuery(f"there is no tile {zoom}/{column}/{row}: a zoom is 0 to {MOST_ZOOM}")
    rows = chosen(snapshot, query)
    bounds = _bounds(zoom, column, row)
    rows, places = _within(rows.select([name for name in _SHOWN if name in rows.column_names]), snapshot, bounds)
    features = [
        {
            "geometry": places[said["cell"]],
            "properties": {name: value for name, value in said.items() if value is not None},
        }
        for said in rows.to_pylist()
    ]
    if not features:
        return Answer(b"", MEDIA)
    options = {"extents": EXTENT, "check_winding_order": False}
    return Answer(mapbox_vector_tile.encode([{"name": LAYER, "features": features}], default_options=options), MEDIA)


def _within(rows: pa.Table, snapshot: Snapshot, bounds: Box) -> tuple[pa.Table, Mapping[str, shapely.Geometry]]:
    """Picks the rows whose place touches a tile or the space around it; and these places as the tile has them: all at
    once, which one by one takes half of a tile's time."""
    cells = rows["cell"].unique() if rows.num_rows else pa.array([], pa.string())
    places = np.array([snapshot.on_square[cell] for cell in cells.to_pylist()], dtype=object)
    west, south, east, north = bounds
    within: dict[str, shapely.Geometry] = {}
    for world in snapshot.worlds:
        box = (west + world, south, east + world, north)
        touches = shapely.intersects(places, _around(box))
        touching = cells.filter(pa.array(touches, pa.bool_())).to_pylist()
        within |= zip(touching, _drawn(places[touches], box), strict=True)
    return rows.filter(pc.is_in(rows["cell"], pa.array(within, pa.string()))) if rows.num_rows else rows, within


def _drawn(places: Any, box: Box) -> Any:
    """Draws an array of shapes in the whole numbers of the tile with that box, wound as its layer asks."""
    west, south, east, _ = box
    drawn = shapely.transform(places, lambda xy: np.rint((xy - (west, south)) * (EXTENT / (east - west))))
    return shapely.orient_polygons(drawn, exterior_cw=True)


def _bounds(zoom: int, column: int, row: int) -> Box:
    """Bounds a tile: west, south, east, north on the Mercator square, [0, 1] both ways, north up."""
    size = 1 / 2**zoom
    return column * size, 1 - (row + 1) * size, (column + 1) * size, 1 - row * size


def _around(bounds: Box) -> shapely.Polygon:
    west, south, east, north = bounds
    margin = (east - west) * _BUFFER
    return shapely.box(west - margin, south - margin, east + margin, north + margin)
