"""Where fits begin, once older days were folded in."""

from typing import NamedTuple

from dpops.learning.design import Smoothness
from dpops.learning.whole import NoisyTotals
from dpops.types import Float64s


class Start(NamedTuple):
    """Where a fit begins: effects, (columns,), and how strongly they are held together. totals: what those of older
    days say of the whole weight, in that of these effects."""

    effects: Float64s
    smoothness: Smoothness
    totals: NoisyTotals = NoisyTotals()


class FitStart(NamedTuple):
    """Where fits begin. counts: the whole surface. means: how strongly their effects are held together."""

    counts: Start
    means: Smoothness
