"""OPT-Array-Averaging: arrays of the length with least worst-case error."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpops.forecast import Float64s, HatCounts
from dpops.means.arrays import ArrayPlan, array_plans, lay_out_together
from dpops.mechanism import Integers, Mechanism, Plan, Totals
from dpops.mechanisms.array_average import ArrayAverage
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid

_AVERAGE = ArrayAverage(m_ub="opt")


@dataclass(frozen=True, slots=True)
class OptArray(Mechanism):
    """Array-Averaging (BestFit) at the length of least worst-case error.

    That is U (1 - S(m) / n) + U m / (epsilon S(m)); from epsilon 1 on no user is clipped, so it is close to the
    baseline (erratum E15). Source: S1 "OPT-Array-Averaging".
    """

    name = "opt-array"

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[ArrayPlan]:
        """Plans arrays as best-fit array averages do."""
        return array_plans(self.name, lay_out_together(hats, grid, epsilon, _AVERAGE.m_ub), grid, epsilon, epsilon)

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors as array averages do."""
        return _AVERAGE.forecasts(hats)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws as array averages do."""
        return _AVERAGE.release(totals, plans, noise)
