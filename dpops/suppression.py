"""How HATs that are planned together share what a vehicle may spend."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.privacy import Composition
from dpops.types import Int64s


class Asked(NamedTuple):
    """The statistics that are asked for: U in units, and the share of a HAT's epsilon of each, or 0."""

    upper: Fraction
    mean: Fraction
    variance: Fraction


class Shared(NamedTuple):
    """kept: which rows stay, bool (rows,). most_hats: the most HATs of a vehicle. epsilon_hat: of each HAT."""

    kept: NDArray[np.bool_]
    most_hats: int
    epsilon_hat: Fraction


def share_out(
    hat: Int64s,  # noqa: ARG001
    vehicle: Int64s,
    kept: Int64s,
    reported: Int64s,  # noqa: ARG001
    composition: Composition,
    plans: int,
    asked: Asked | None,
) -> Shared:
    """One row for each vehicle in each HAT, int64 (rows,). kept: samples that count. plans: that share the period."""
    if asked is not None:
        raise NotImplementedError("clip-user")
    some = kept > 0
    most = int(np.unique(vehicle[some], return_counts=True)[1].max(initial=0))
    return Shared(some, most, composition.hat(max(most, 1), plans))
