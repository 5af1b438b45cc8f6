"""From a period's recorded stages, and all entries before them, to rows for every cell and slot: post-processing."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.levels.stages import FIRST_CENTRE
from dpops.types import Int64s
from transforms.observe.hexagons import cell_text
from transforms.release.levels import MECHANISM, LevelsPolicy
from transforms.release.recorded import Sequenced
from transforms.sinks.files import Row

Float64s = NDArray[np.float64]


class HatEstimates(NamedTuple):
    """Of every HAT of a period, (cells, slots): km/h, bounds of an interval, standard deviation, and a status."""

    value: Float64s
    lower95: Float64s
    upper95: Float64s
    sd: Float64s
    status: NDArray[np.str_]


Estimator = Callable[[Sequence[Sequenced], LevelsPolicy, Sequence[int]], HatEstimates]
"""(recorded stages up to the period's last one, in the order of the ledger; policy; hours of the period's slots)."""


def nothing_known(_entries: Sequence[Sequenced], policy: LevelsPolicy, hours: Sequence[int]) -> HatEstimates:
    """The constant that releases begin with, and the whole range."""
    shape = len(policy.region), len(hours)
    whole = np.full(shape, float(policy.grid.upper))
    return HatEstimates(
        np.full(shape, FIRST_CENTRE / 100), np.zeros(shape), whole, whole / 4, np.full(shape, "unreliable")
    )


def constant_centres(_entries: Sequence[Sequenced], policy: LevelsPolicy, hours: Sequence[int]) -> Int64s:
    """The constant that releases begin with, on every day."""
    return np.full((len(policy.region), len(hours)), FIRST_CENTRE, np.int64)


def rows_of_slot(
    estimates: HatEstimates, slot: int, start: str, end: str, epsilon: float, policy: LevelsPolicy
) -> list[Row]:
    """One row for every cell of the region, by cell. slot: its index in the period."""
    columns = [column[:, slot].tolist() for column in estimates]
    return [
        {
            "spec_id": policy.spec_id,
            "slot_start": start,
            "slot_end": end,
            "cell": cell_text(cell),
            "statistic": "mean",
            "value": round(value, 6),
            "unit": "km/h",
            "lower95": round(lower, 6),
            "upper95": round(upper, 6),
            "noise_std": round(sd, 6),
            "bias_bound": None,
            "mechanism": MECHANISM,
            "epsilon": None,
            "epsilon_slot": epsilon,
            "status": status,
        }
        for cell, value, lower, upper, sd, status in zip(policy.region, *columns, strict=True)
    ]
