"""H3 cells of positions, and the cells of a region."""

from itertools import repeat

import h3.api.basic_int as h3_int
import numpy as np

from dpops.types import Int64s
from transforms.observe.squares import cells_by_squares
from transforms.records import Observations

OUTSIDE_REGION = "outside-region"


def cells_of(observations: Observations, resolution: int) -> Int64s:
    """Finds the H3 cell of each position, int64 (rows,)."""
    return cells_at(observations.lat_e7, observations.lon_e7, resolution)


def cells_at(lat_e7: Int64s, lon_e7: Int64s, resolution: int) -> Int64s:
    """Finds the H3 cell of each position in units of 1e-7 degrees, int64 (positions,)."""

    def ask(some_lat_e7: Int64s, some_lon_e7: Int64s) -> Int64s:
        lat, lon = (some_lat_e7 / 1e7).tolist(), (some_lon_e7 / 1e7).tolist()
        return np.fromiter(map(h3_int.latlng_to_cell, lat, lon, repeat(resolution)), np.int64, len(lat))

    return cells_by_squares(lat_e7, lon_e7, resolution, ask)
