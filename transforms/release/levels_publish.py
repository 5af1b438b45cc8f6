"""From a period's recorded stages, and all entries before them, to an estimate of every HAT: post-processing."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.estimate import Estimate, Number
from dpops.levels.stages import FIRST_CENTRE
from dpops.types import Int64s
from transforms.observe.hexagons import cell_text
from transforms.records import HatEstimate, SlotEstimates
from transforms.release.levels import MECHANISM, LevelsPolicy
from transforms.release.policy import SlotFacts
from transforms.release.recorded import Sealed, Sequenced

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


def estimates_of_slot(
    estimates: HatEstimates, slot: int, facts: SlotFacts, unit: Sealed, policy: LevelsPolicy
) -> SlotEstimates:
    """One estimate for every cell of the region, by cell. slot: its index in the period."""
    columns = [column[:, slot].tolist() for column in estimates]
    hats = [
        HatEstimate(
            cell_text(cell),
            "mean",
            MECHANISM,
            str(policy.epsilon),
            Estimate(
                numbers={"mean": Number(value, lower, upper)},
                lists={},
                noise_std=sd,
                bias_bound=None,
                epsilon=None,
                status=status,
            ),
        )
        for cell, value, lower, upper, sd, status in zip(policy.region, *columns, strict=True)
    ]
    return SlotEstimates(unit.spec_id, facts.start, facts.end, unit.unit, ("mean",), hats)
