"""What noisy sums of speeds say of weights: a sum is a weight times how far a mean lies from the sum's centre."""

from typing import NamedTuple

import numpy as np

from dpops.learning.queries import RowMaker
from dpops.learning.releases import DayValues, LevelValues, StageValues
from dpops.types import Float64s


class Thought(NamedTuple):
    """What is thought of a day's HATs before, (cells, slots) each.

    weights: of HATs. values, variances: of what describes their means, km/h. own: of what the HATs' own deviations from
    that add to a sum.
    """

    weights: Float64s
    values: Float64s
    variances: Float64s
    own: Float64s


def told_by_speeds(day: DayValues, hats: Thought, rows: RowMaker) -> DayValues:
    """Reads a day's sums of speeds as sums of weights: of the groups that lie in one parent each, which are most.

    A group of weight w, whose mean lies a +- d from the centre, has a sum s = w a, with noise of variance v. What
    (s - w a)^2 / v is on average is least where w = s a / (a^2 + d^2), and grows as if that had been measured with
    noise of variance v / (a^2 + d^2). This is a step of variational Bayes with a factor for all weights and one for all
    means (Bishop, Pattern Recognition and Machine Learning, 10.1).
    """
    looks = []
    for look in day.looks:
        narrow = [level for level in look.levels if rows(level.groups, day.hours).is_narrow]
        read = tuple(_weights(level, look.centre, hats) for level in narrow)
        looks.append(StageValues(centre=look.centre, levels=read))
    return DayValues(hours=day.hours, stages=tuple(looks))


def _weights(level: LevelValues, centre: Float64s, hats: Thought) -> LevelValues:
    groups = level.groups
    share = hats.weights / groups.spread(groups.totals(hats.weights))
    mean = groups.totals(share * (hats.values - centre))
    square, noise = mean**2 + groups.totals(share * hats.variances), level.speed_variance + groups.totals(hats.own)
    return LevelValues(
        groups=groups,
        weights=level.speeds * mean / square,
        weight_variance=noise / square,
        speeds=np.zeros(groups.shape),
        speed_variance=np.inf,
    )
