"""What caps and clips alone move the means of reports by, without noise: slow buses report more often. Not private."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpops import CountsKnown, Grid, Mechanism, Noise, Plan, Totals, values_of
from hatstream_lab.evaluation.simulate import made
from hatstream_lab.types import Float64s, Int64s

ONCE = made("baseline", statistic="mean-of-vehicles")


class Silent(Noise):
    """Adds nothing to any query; private choices are drawn as in a release. For comparisons alone."""

    def laplace(self, scales: Sequence[Fraction]) -> Int64s:
        return np.zeros(len(scales), np.int64)


@dataclass(frozen=True)
class OfVehicles:
    """`mean-of-vehicles` beside the means of reports: errors against its own truth, over HATs and by rows, in km/h.

    above: how far the true mean of vehicles' means lies above that of reports, by rows: it asks another question.
    """

    epsilon: str
    mean: float
    row_weighted: float
    bias: float
    above: float


def published(mechanism: Mechanism, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> Float64s:
    """Releases each HAT once, km/h, clamped."""
    released = mechanism.release(totals, plans, noise)
    values: Float64s = values_of(released, plans)
    return values


def plans_of(mechanism: Mechanism, hats: Sequence[tuple[Totals, int]], grid: Grid, epsilon: Fraction) -> Sequence[Plan]:
    return mechanism.plans([CountsKnown(totals.counts, reported) for totals, reported in hats], grid, epsilon)


def of_vehicles(
    hats: Sequence[tuple[Totals, int]], truth: Float64s, rows: Float64s, grid: Grid, epsilon: str, runs: int
) -> OfVehicles:
    """Measures errors of means of vehicles. truth: the mean of reports of each HAT, km/h; rows: its reports."""
    totals, plans = [hat for hat, _ in hats], plans_of(ONCE, hats, grid, Fraction(epsilon))
    own = np.array([float((hat.sums / hat.counts).mean()) for hat in totals]) * float(grid.step)
    errors = [np.abs(published(ONCE, totals, plans, Noise()) - own) for _ in range(runs)]
    error, bias = np.mean(errors, axis=0), published(ONCE, totals, plans, Silent()) - own
    return OfVehicles(
        epsilon=epsilon,
        mean=float(error.mean()),
        row_weighted=float(error @ rows / rows.sum()),
        bias=float(bias @ rows / rows.sum()),
        above=float((own - truth) @ rows / rows.sum()),
    )
