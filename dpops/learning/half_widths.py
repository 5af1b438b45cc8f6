"""How wide the intervals of a `levels` release will be, from public facts alone: no count, no speed, no release.

What is not promised: that neighbouring cells, hours and earlier days teach more, as they mostly do (docs/estimates.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.learning.chances import CAUTIOUS, VEHICLES, Doubt, numbers_of
from dpops.learning.interval import LEAST_VEHICLES, MOST_LOG_VARIANCE, Z95
from dpops.learning.learner import KEPT
from dpops.levels.defaults import BoundsOnly, Settings, vehicle_weight
from dpops.levels.groups import Level, level
from dpops.levels.stages import UNIT, Kind
from dpops.spread import USUAL
from dpops.types import Float64s

UNKNOWN_LOG_VARIANCE = 1.2
"""Of the logarithm of a HAT's vehicles where no release tells anything: about so much in a city that is half known."""
ROUGH_FLOOR = 4.0
"""What a plan takes for the floor, which only releases tell (`Told`): cities differ, and a plan must not promise."""
_FEWER = 3
"""The number of vehicles, of `numbers_of`, at which a HAT's own variance makes about as wide an interval as all do."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One stage of a day, as far as it is public before any release. See `dpops.levels.Stage` for the fields."""

    settings: Settings
    kind: Kind
    spread: Fraction
    known: BoundsOnly
    counts_public: bool = False

    @property
    def usual_vehicles(self) -> float:
        """Vehicles in a HAT if all are alike."""
        return self.known.fleet.vehicles * self.known.fleet.profile.hats / self.known.hats.size


class HalfWidths(NamedTuple):
    """Of 95 % intervals in km/h, and whether the number of vehicles is known well enough to call them reliable."""

    kmh: Float64s
    reliable: NDArray[np.bool_]


def hat_half_widths(look: Look, vehicles: Float64s, upper_kmh: float, days: int = 1) -> HalfWidths:
    """Of a HAT, for each number of vehicles in it; at most upper_kmh / 2, for then nothing is known.

    The noise in what describes the HAT, and its own variance around that, at a cautious number of vehicles
    (docs/estimates.md, "Intervals"). days: so many days that are alike, whose noise averages out.
    """
    own_speed, speed = _described(look, vehicles, days, _speed_noise)
    own_count, count = np.zeros(vehicles.size), np.zeros(vehicles.size)
    if not look.counts_public:
        own_count, count = _described(look, vehicles, days, _weight_noise)
        count = 1 / (own_count + 1 / np.maximum(count, 1e-300))
    doubt = Doubt(1.0, 0.0, 0.0) if look.counts_public else VEHICLES
    numbers = numbers_of(vehicles, count, UNKNOWN_LOG_VARIANCE, doubt)
    own = 1 / (1 / USUAL.of(numbers[:, _FEWER], least=ROUGH_FLOOR) + own_speed)
    half = np.minimum(Z95 * np.sqrt(speed + own), upper_kmh / 2)
    return HalfWidths(half, (numbers[:, CAUTIOUS] >= LEAST_VEHICLES) & (count <= MOST_LOG_VARIANCE))


def place_half_widths(look: Look, vehicles: Float64s, upper_kmh: float, days: int = 1) -> Float64s:
    """Of the mean of a whole day in the cell, or in the finest place that a level has; see `place_level`.

    Noise and the HATs' own variance alone: what the published product counts beside them is in `coarser`.
    """
    name = place_level(look)
    grouped, share = level(name, look.known.hats, Fraction(1)), dict(look.settings.shares)[name]
    noise = (_speed_noise(look, share) / _weight(look, grouped, vehicles)) ** 2 / days
    own = USUAL.of(np.maximum(vehicles, 1.0), least=ROUGH_FLOOR) / look.known.hats.slots
    half: Float64s = np.minimum(Z95 * np.sqrt(noise + own), upper_kmh / 2)
    return half


def place_level(look: Look) -> str:
    """The name of the level with the most places, and of these the one with the longest times."""
    shares: Sequence[tuple[str, Fraction]] = look.settings.shares
    return max(shares, key=lambda item: _places(level(item[0], look.known.hats, Fraction(1))))[0]


def _places(grouped: Level) -> tuple[int, int]:
    return grouped.size // grouped.slot_groups, -grouped.slot_groups


def _speed_noise(look: Look, share: Fraction) -> float:
    """Standard deviation of the noise in a level's sums of weighted speeds, as `dpops.levels.read` says it."""
    alpha = Fraction(1) if look.counts_public else look.settings.alpha
    return _noise(look, share * alpha) * float(look.settings.bound_kmh) * (2 if look.counts_public else 1)


def _weight_noise(look: Look, share: Fraction) -> float:
    return _noise(look, share * (1 - look.settings.alpha))


def _noise(look: Look, part: Fraction) -> float:
    """Of a quantity that has this part of the stage's share, for a norm of 1."""
    share = float(look.settings.share * part)
    if look.kind == "gaussian":
        return math.sqrt(float(look.spread) / share) / UNIT
    return math.sqrt(2) * float(look.spread) / share / UNIT


def _weight(look: Look, grouped: Level, vehicles: Float64s) -> Float64s:
    """Expected weight of a group, for each number of vehicles in the HATs of one cell of it, all day.

    The cells around it have as many as there are in a HAT if all are alike.
    """
    slots = look.known.hats.slots / grouped.slot_groups
    others = look.known.hats.cells / _places(grouped)[0] - 1
    fleet = look.known.fleet
    one = KEPT * vehicle_weight(look.kind, look.settings.shares, fleet) / fleet.profile.hats
    weight: Float64s = one * slots * (vehicles + others * look.usual_vehicles)
    return weight


def _described(
    look: Look, vehicles: Float64s, days: int, noise: Callable[[Look, Fraction], float]
) -> tuple[Float64s, Float64s]:
    """Precision of what a level of single HATs says, and the variance of what the others say together.

    A place's effect + a time's effect, combined with levels that tell both apart.
    """
    single, place, time, both = np.zeros((4, vehicles.size))
    for name, share in look.settings.shares:
        grouped = level(name, look.known.hats, Fraction(1))
        precision = (_weight(look, grouped, vehicles) / noise(look, share)) ** 2
        if grouped.size == look.known.hats.size:  # a day's own HATs, of which other days say nothing
            single = single + precision
        elif grouped.slot_groups == 1:
            place = place + days * precision
        elif grouped.size == grouped.slot_groups:
            time = time + days * precision
        else:
            both = both + days * precision
    apart = [1 / np.maximum(known, 1e-300) for known in (place, time) if known.any()]
    variance: Float64s = 1 / np.maximum(both + (1 / sum(apart) if apart else 0.0), 1e-300)
    return single, variance
