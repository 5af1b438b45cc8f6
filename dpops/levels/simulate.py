"""Made-up or measured days as the rows of vehicle-days, for simulation and evaluation."""

import numpy as np

from dpops.levels.bounded import Float64s, Rows
from dpops.levels.stages import Stage
from dpops.types import Int64s


def rows_of(vehicle: Int64s, cell: Int64s, slot: Int64s, reports: Int64s, mean_kmh: Float64s, stage: Stage) -> Rows:
    """Makes rows in order from one entry per (vehicle, cell, slot). mean_kmh: of clipped speeds, put on the grid."""
    order = np.lexsort((slot, cell, vehicle))
    total = np.rint(mean_kmh * reports / float(stage.step_kmh)).astype(np.int64)
    return Rows(*(column[order].astype(np.int64) for column in (vehicle, cell, slot, reports, total)))
