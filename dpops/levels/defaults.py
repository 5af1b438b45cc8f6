"""Default stages of a day, from public facts alone.

A vehicle-day weighs its reports to a power over their norm, or over the least norm where that is larger, so that short
days weigh less. The bound clips the norm of its weighted speeds, and its weights by the same factor.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from dpops import fitted
from dpops.levels.stages import CITY, LEVELS, UNIT, Kind, PublicHats, Shares, Stage, alike, level, shares_of, unit_noise

_USUAL_BOUND = 6  # km/h, between the table's bounds of first and of later days
_LEARNING_DAYS = 7  # days whose noisy sums an estimate combines after a week


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Public, rough numbers of distinct HATs, cells and so on of a vehicle-day."""

    hats: int = 70
    cells: int = 12
    parents: int = 6  # coarser cells
    grandparents: int = 3
    hours: int = 14
    parts: int = 4  # of the day
    reports: int | None = None  # in a HAT; None: not declared

    def touched(self, name: str) -> int:
        """Estimates a level's groups that a vehicle-day touches."""
        place, time = LEVELS[name]
        if place == CITY:
            return (1, self.parts, self.hours, self.hours)[time]  # by DAY, PART, HOUR, SLOT
        places = (1, self.grandparents, self.parents, self.cells)[place]
        return (places, 2 * places, self.hats, self.hats)[time]  # guessed: a place is visited in two parts of a day


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Public facts of a fleet, fixed for an account."""

    vehicles: int = 200
    profile: Profile = field(default_factory=Profile)


@dataclass(frozen=True, kw_only=True)
class BoundsOnly:
    """Public facts for plans where counts are secret."""

    hats: PublicHats
    fleet: Fleet

    @property
    def usual_vehicles(self) -> float:
        """Expected vehicles in a HAT, if all are alike."""
        return self.fleet.vehicles * self.fleet.profile.hats / self.hats.size


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Stages of an account's first and later days."""

    first: tuple[Stage, ...]
    later: tuple[Stage, ...]

    @property
    def kind(self) -> Kind:
        """Kind of noise."""
        return self.later[0].kind

    @property
    def spread(self) -> Fraction:
        """Spread of the noise, equal in all stages."""
        return self.later[0].spread

    def with_spread(self, spread: Fraction) -> "Recipe":
        """Changes the noise of every stage."""
        first, later = (tuple(replace(stage, spread=spread) for stage in stages) for stages in (self.first, self.later))
        return Recipe(first=first, later=later)


COARSE = {"gaussian": shares_of(cell=".5", hour=".2", parent=".3"), "laplace": shares_of(cell=".8", hour=".2")}
_OF_SMALL_CELLS = shares_of(cell=".8", hour=".08", parent=".12")
_FIRST = {"gaussian": shares_of(cell=".7", hour=".3"), "laplace": shares_of(cell=".8", hour=".2")}
_FINE = shares_of(cell=".2", hour=".1", hat=".7")  # releases single HATs too
_MIDDLE = shares_of(cell=".5", hour=".1", cell_part=".4")
"""Default shares of levels; source of these and of the numbers below: docs/released.md, "Which levels"."""

_PLACES = ("parent-day", "grandparent-day", "city")  # finest first

_FIRST_NUMBERS = {
    "gaussian": (Fraction(7), Fraction(1, 4), Fraction(3, 5), Fraction(17, 20)),
    "laplace": (Fraction(7), Fraction(3, 10), Fraction(1, 2), Fraction(4, 5)),
}
"""First days: bound, km/h; share of the first of two stages; alpha of the first and of the second stage."""
_LATER_NUMBERS = {"gaussian": (Fraction(5), Fraction(9, 10)), "laplace": (Fraction(5), Fraction(17, 20))}
"""Later days: bound, km/h, and alpha."""


def coarser_shares(kind: Kind, shares: Shares, hats: PublicHats) -> Shares:
    """Replaces default shares by those of coarser levels, which suit small fleets.

    Small cells get a larger share: they differ more from their neighbours than hours do. Shares of a specification
    stay, and all under Laplace noise: there the total alone decides, in `recipe`.
    """
    if kind == "laplace" or shares not in (COARSE[kind], _FINE):
        return shares
    return _OF_SMALL_CELLS if hats.are_small else COARSE[kind]


def recipe(kind: Kind, epsilon: Fraction, rho: Fraction | None, bounds: BoundsOnly) -> Recipe:
    """Makes default stages from a day's total epsilon, or, under Gaussian noise, its rho."""
    spread = spread_of(kind, epsilon if rho is None else rho)
    # By experiment finer levels are better from a total of 10 on, the finest under Laplace noise from 30 on.
    fine = _MIDDLE if kind == "laplace" and epsilon < 30 else _FINE
    shares, first_shares = COARSE[kind] if epsilon < 10 else fine, _FIRST[kind]
    # A fleet too small for single cells gets levels of larger places.
    if group_sd_kmh(kind, spread, "cell", dict(shares)["cell"], bounds) > fitted.LIMIT_SD_KMH:
        shares = first_shares = _coarser_levels(kind, spread, bounds)
    bound, share, first_alpha, second_alpha = _FIRST_NUMBERS[kind]  # alpha: speeds' part of a share; weights: the rest
    later_bound, later_alpha = _LATER_NUMBERS[kind]
    first_parts, parts = alike(first_shares), alike(shares)  # for speeds and weights
    first = Stage(kind=kind, spread=spread, parts=first_parts, share=share, bound_kmh=bound, alpha=first_alpha)
    second = replace(first, parts=parts, share=1 - share, alpha=second_alpha)
    later = replace(second, share=Fraction(1), bound_kmh=later_bound, alpha=later_alpha)
    # On the first day no centres of speeds are known: a stage finds them, another measures around them.
    return Recipe(first=(first, second), later=(later,))


def spread_of(kind: Kind, budget: Fraction) -> Fraction:
    """Computes the noise of a vehicle's vector whose norm is at most UNIT.

    Laplace: the scale, for the L1 norm and a budget of epsilon. Gaussian: the variance, for L2 and a budget of rho.
    """
    return UNIT / budget if kind == "laplace" else Fraction(math.ceil(UNIT * UNIT / (2 * budget)))  # up: no less noise


def _coarser_levels(kind: Kind, spread: Fraction, bounds: BoundsOnly) -> Shares:
    """Chooses levels of places and of hours, the finest whose noise is tolerable."""
    choices = []
    for names, share in ((_PLACES, Fraction(7, 10)), (("hour", "part"), Fraction(3, 10))):  # shares as in _FIRST
        tolerable = [name for name in names if group_sd_kmh(kind, spread, name, share, bounds) <= fitted.LIMIT_SD_KMH]
        choices.append((tolerable[0] if tolerable else names[-1], share))
    return tuple(choices)


def group_sd_kmh(kind: Kind, spread: Fraction, name: str, share: Fraction, bounds: BoundsOnly) -> float:
    """Forecasts noise of a level's mean speeds after a week, km/h, at its `share`.

    That is noise of a group's sum over its weight, equal in all groups. A vehicle-day's weights have norm 1: they add
    up to 1 under Laplace noise, to the root of the number of groups that it touches under Gaussian noise. spread: the
    Laplace scale or Gaussian variance of a UNIT vector; sums of speeds have the part alpha of it, weights the rest.
    """
    groups, touched = level(name, bounds.hats, Fraction(1)).size, bounds.fleet.profile.touched(name)
    bound_kmh, alpha = _LATER_NUMBERS[kind]
    weight_of_vehicle = 1 if kind == "laplace" else math.sqrt(touched)  # of which a group has 1 / groups
    noise = groups * unit_noise(kind, spread, float(share * alpha)) / weight_of_vehicle
    return noise * float(bound_kmh) / bounds.fleet.vehicles / math.sqrt(_LEARNING_DAYS)


def vehicle_weight(stage: Stage, fleet: Fleet) -> float:
    """Estimates a typical vehicle-day's total weight before clips, less below the least norm."""
    norm = usual_norm(stage, fleet)
    return _own_weight(stage, fleet) * (1.0 if norm is None else norm / max(norm, stage.least_norm))


def usual_norm(stage: Stage, fleet: Fleet) -> float | None:
    """Computes a typical vehicle-day's norm of reports; None if reports are not declared."""
    if fleet.profile.reports is None:
        return None
    # A HAT's weight is its reports^exponent / norm: over all HATs, the sum of powers is the norm times that of weights.
    return fleet.profile.hats * math.pow(fleet.profile.reports, stage.exponent) / _own_weight(stage, fleet)


def _own_weight(stage: Stage, fleet: Fleet) -> float:
    """Computes a vehicle-day's total weight if its norm is above the least norm."""
    return 1.0 if stage.kind == "laplace" else _weight(stage.shares, fleet.profile)


def with_least_norm(stage: Stage, bounds: BoundsOnly) -> Stage:
    """Sets a stage's least norm, below which vehicle-days weigh in proportion to theirs.

    Without one short days weigh as much as long ones, and bias means of reports. With a high one vehicles weigh less
    than the noise allows, so it is the lower, the more noise there is.
    """
    norm = usual_norm(stage, bounds.fleet)
    if norm is None or stage.counts_public:  # not declared; or weights are exact, hence unscaled
        return stage
    share = dict(stage.shares).get("cell", Fraction(1))  # without such a level, as if cells had all
    noise_kmh = group_sd_kmh(stage.kind, stage.spread, "cell", share, bounds)
    low_kmh, high_kmh = fitted.NORM_NOISE_KMH
    # Of the typical norm; at 0 all vehicle-days have equal weights.
    times = fitted.NORM_TIMES if noise_kmh <= low_kmh else 1 if noise_kmh < high_kmh else 0
    return replace(stage, least_norm=round(times * norm))


def weight_at_places(profile: Profile, kind: Kind, in_a_cell: float) -> float:
    """Estimates a vehicle-day's weight, added up over places; `in_a_cell`: places per cell."""
    # Guessed: a vehicle passes half the root of a cell's places. n equal weights of Euclidean norm 1 add up to sqrt(n).
    return 1.0 if kind == "laplace" else max(1.0, math.sqrt(profile.cells * math.sqrt(in_a_cell) / 2))


def standing(profile: Profile) -> float:
    """Computes a typical vehicle-day's weight over that of one in a single cell."""
    still = replace(profile, hats=profile.hours, cells=1, parents=1, grandparents=1)
    return max(_weight(COARSE["gaussian"], profile) / _weight(COARSE["gaussian"], still), 1.0)


@lru_cache(maxsize=64)
def _weight(shares: Shares, profile: Profile) -> float:
    """Computes the total of a vehicle-day's equal weights, of Euclidean norm 1."""
    return 1 / math.sqrt(sum(share / profile.touched(name) for name, share in shares))


def kept(bound_kmh: float) -> float:
    """Estimates the part of weight that a bound leaves: smooth min(1, bound / norm)."""
    return bound_kmh / math.cbrt(bound_kmh**3 + fitted.NORM_KMH**3)


def weight_gain(bound_kmh: Fraction) -> float:
    """Computes the weight that a bound leaves over the usual bound's, at least 1."""
    return max(kept(float(bound_kmh)) / kept(_USUAL_BOUND), 1.0)


RETAINED = kept(float(_LATER_NUMBERS["gaussian"][0]))
"""Part of counted vehicles' weight that later days' bound leaves, as a prior mean."""
