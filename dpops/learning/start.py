"""Where fits begin, once older days were folded in."""

from typing import NamedTuple

from dpops.learning.effects import Effects, Strengths
from dpops.spread import VehicleSpread


class Start(NamedTuple):
    """Where fits begin: lasting effects of weights, and strengths of both fields."""

    effects: Effects
    weights: Strengths
    speeds: Strengths
    spread: VehicleSpread
