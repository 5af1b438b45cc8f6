"""Places for tests: lines, squares and fine cells around one position."""

import h3.api.basic_int as h3_int
import numpy as np

LAT, LON = 30.27, -97.74
REGION = tuple(sorted(h3_int.grid_disk(h3_int.latlng_to_cell(LAT, LON, 7), 1)))


def fine_at(ground, *positions):
    return np.array([h3_int.latlng_to_cell(lat, lon, ground.resolution) for lat, lon in positions], np.int64)


def line(name, *positions, **more):
    return feature(name, {"type": "LineString", "coordinates": [[lon, lat] for lat, lon in positions]}, **more)


def square(name, south, west, side):
    ring = [[west, south], [west + side, south], [west + side, south + side], [west, south + side], [west, south]]
    return feature(name, {"type": "Polygon", "coordinates": [ring]})


def feature(name, geometry, **more):
    return {"type": "Feature", "properties": {"name": name, **more}, "geometry": geometry}


def collection(*features):
    return {"type": "FeatureCollection", "features": [*features]}
