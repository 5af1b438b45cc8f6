"""Release of a period's counts, in one stage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpops.estimate import OK
from dpops.statistics import COUNT
from dpops.types import Int64s
from transforms.recorded.units import StageEntry, StageUnit, all_of
from transforms.records import RecordedSlot, SlotEstimates
from transforms.releases.base import Before
from transforms.releases.periods.publish import HatEstimates, estimates_of_slot
from transforms.releases.periods.release import PeriodRelease
from transforms.releases.periods.stages import LevelsPolicy, first_centres, read_unit

Z95 = 1.959963984540054


@dataclass(frozen=True)
class CountRelease(PeriodRelease):
    """Counts of a period, with intervals of their noise."""

    learns = False

    @staticmethod
    def centres(_entries: Sequence[StageEntry], policy: LevelsPolicy, hours: Sequence[int]) -> Int64s:
        """Returns constant centres, as a count has no values."""
        return first_centres(len(policy.region), len(hours))

    def estimates(self, recorded: RecordedSlot, _before: Before) -> Iterator[SlotEstimates]:
        """Reads a period's counts from its single stage."""
        value = replace(self.policy.value, lower=Fraction(0), scale=Fraction(1), unit="1")
        (unit,), policy = all_of(StageUnit, recorded.units), replace(self.policy, value=value)
        read = read_unit(unit, policy.region)
        (level,), bound = read.levels, read.stage.least_norm
        counts, sd = level.weights.reshape(len(policy.region), -1) * bound, level.weight_sd * bound
        counts, lower, upper = np.maximum([counts, counts - Z95 * sd, counts + Z95 * sd], 0.0)  # no count is less
        shown = HatEstimates(counts, lower, upper, np.full_like(counts, sd), np.full(counts.shape, OK))
        for number, slot_s in enumerate(self.slots[unit.slot_s].plan):
            slot = estimates_of_slot(shown, number, self.slots[slot_s], policy)
            hats = replace(slot.hats, statistic=[COUNT.name] * len(slot.hats.cell))
            yield slot._replace(statistics=(COUNT.name,), hats=hats)
