"""From a recorded live slot, and all entries before it, to an estimate of each of its HATs: post-processing."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpops.learning.interval import Z95, rounded
from transforms.records import SlotEstimates
from transforms.release.learned import learned_forecast
from transforms.release.levels import LevelsPolicy, plan_of, read_unit
from transforms.release.levels_publish import HatEstimates, estimates_of_slot
from transforms.release.policy import SlotFacts
from transforms.release.recorded import Sequenced

MECHANISM = "levels-live"

LiveEstimator = Callable[[Sequence[Sequenced], Sequence[Sequenced], LevelsPolicy], HatEstimates]
"""(stages of whole earlier periods; live slots of the period up to the one that is estimated; policy) -> its HATs,
(cells, 1). Both in the order of the ledger, and all recorded before the slot: so it can be made again."""

DEVIATION_SD_KMH = 2.8
"""How far a slot's speeds stray from those of other days, all over the city."""
LEAST_SIGNAL = 2.0
"""A weight of fewer standard deviations of its noise is taken for so many: nothing is divided by noise."""


def shifted_forecast(stages: Sequence[Sequenced], live: Sequence[Sequenced], policy: LevelsPolicy) -> HatEstimates:
    """What earlier periods forecast for the slot, moved by what the whole city's speeds in it say."""
    plan = plan_of(live[-1].unit)
    usual = learned_forecast(stages, policy, plan.hours)
    shift, variance = _city(live[-1], policy)
    upper = float(policy.grid.upper)
    value, sd = np.clip(usual.value + shift, 0, upper), np.sqrt(usual.sd**2 + variance)
    lower, upper95 = (np.clip(value + side * Z95 * sd, 0, upper) for side in (-1, 1))
    return HatEstimates(rounded(value), rounded(lower), rounded(upper95), rounded(sd), usual.status)


def _city(entry: Sequenced, policy: LevelsPolicy) -> tuple[float, float]:
    """The deviation of the whole city from the slot's centres in km/h, shrunk, and its variance."""
    hour = next(level for level in read_unit(entry.unit, policy.region).levels if level.level.name == "hour")
    weight = max(float(hour.weights[0]), LEAST_SIGNAL * hour.weight_sd)
    before, noise = DEVIATION_SD_KMH**2, (hour.speed_sd / weight) ** 2
    gain = before / (before + noise)
    return gain * float(hour.speeds[0]) / weight, (1 - gain) * before


def live_estimates(
    entry: Sequenced, stages: Sequence[Sequenced], live: Sequence[Sequenced], facts: SlotFacts, policy: LevelsPolicy,
    estimator: LiveEstimator,
) -> SlotEstimates:  # fmt: skip
    """One estimate for every cell of the region. stages, live: what is recorded before the entry, and it."""
    found = estimates_of_slot(estimator(stages, live, policy), 0, facts, entry.unit.unit, policy)
    spent = _epsilon(entry, policy)
    hats = [hat._replace(mechanism=MECHANISM, epsilon_slot=spent) for hat in found.hats]
    return found._replace(hats=hats, is_live=True)


def _epsilon(entry: Sequenced, policy: LevelsPolicy) -> str:
    """What a vehicle spends in the slot, as rows say it: of zCDP what it comes to at the specification's delta."""
    return str(plan_of(entry.unit).claim.approx(policy.delta or Fraction(0)).epsilon)
