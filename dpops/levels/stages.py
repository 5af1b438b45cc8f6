"""Levels, which group HATs, and stages, public release plans."""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.claims import NOISE_CLAIMS, ZCDP, Accounting, PureDP
from dpops.types import Float64s, Int64s

BLOCK_H = 4  # hours of a part of the day


@dataclass(frozen=True, kw_only=True)
class PublicHats:
    """Public HATs of a day: every cell, every slot.

    parents, grandparents: coarser cell of each cell. hours: local hour in which each slot begins; with a clock change
    one may come twice, or not at all. are_small: cells of about 1 km^2 or less, whose neighbours differ as streets do.
    """

    parents: tuple[int, ...]
    grandparents: tuple[int, ...]
    hours: tuple[int, ...]
    are_small: bool = False

    def __post_init__(self) -> None:
        if not self.parents or len(self.parents) != len(self.grandparents) or not self.hours:
            raise ValueError("a day needs cells, as many parents as grandparents, and slots")

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.parents)

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self.hours)

    @property
    def size(self) -> int:
        """Number of HATs."""
        return self.cells * self.slots


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of HATs: indices of each cell's group, (cells,), and of each slot's, (slots,)."""

    cells: Int64s
    slots: Int64s

    @staticmethod
    def everything(cells: int, slots: int) -> "Groups":
        """Makes one group of all HATs."""
        return Groups(cells=np.zeros(cells, np.int64), slots=np.zeros(slots, np.int64))

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Numbers of cell groups and of slot groups."""
        return int(self.cells.max()) + 1, int(self.slots.max()) + 1

    @cached_property
    def key(self) -> bytes:
        """Bytes that are equal for equal groups."""
        return self.cells.tobytes() + b"/" + self.slots.tobytes() + b"/"

    @cached_property
    def index(self) -> Int64s:
        """Group of every HAT, (cells, slots), by cell group, then slot group."""
        return np.asarray(self.cells[:, None] * self.shape[1] + self.slots)

    @property
    def is_wide(self) -> bool:
        """Whether groups have over 200 cells each, or all: many for a sparse matrix."""
        return self.shape[0] < max(2, self.cells.size // 200)

    def totals(self, hats: Float64s) -> Float64s:
        """Sums HATs' numbers by group, (cell groups, slot groups)."""
        sums = np.bincount(self.index.ravel(), hats.ravel(), math.prod(self.shape))
        return sums.astype(np.float64, copy=False).reshape(self.shape)

    def to_hats(self, groups: Float64s) -> Float64s:
        """Gives each HAT its group's number, (cells, slots)."""
        return np.asarray(groups[self.cells[:, None], self.slots])


@dataclass(frozen=True)
class Level:
    """Grouping of HATs, with shares of a stage's budget.

    speed_share, weight_share: of the budget of speeds and of weights; each adds up to 1 over the levels of a stage.
    """

    name: str
    speed_share: Fraction
    weight_share: Fraction
    groups: Groups

    @property
    def size(self) -> int:
        """The number of groups."""
        return math.prod(self.groups.shape)


CITY, GRANDPARENT, PARENT, CELL = range(4)
DAY, PART, HOUR, SLOT = range(4)
LEVELS: Mapping[str, tuple[int, int]] = {
    "hat": (CELL, SLOT),
    "cell-part": (CELL, PART),
    "parent": (PARENT, PART),
    "cell": (CELL, DAY),
    "parent-day": (PARENT, DAY),
    "grandparent-day": (GRANDPARENT, DAY),
    "city": (CITY, DAY),
    "hour": (CITY, HOUR),
    "part": (CITY, PART),
    "parent-hour": (PARENT, HOUR),
    "cell-hour": (CELL, HOUR),
}
"""By name: the place and the time of a group; a part of the day has BLOCK_H hours."""


PLACE = "place"  # level of a stage of places: its HATs lie in places, not in cells, and each place's day is a group
CLASS = "class"  # level of a stage of speed classes: HATs lie in the classes of each cell; each class's day is a group


def level(name: str, hats: PublicHats, share: Fraction, weight_share: Fraction | None = None) -> Level:
    """Makes a level by name. Raises ValueError if unknown.

    share, weight_share: its parts of the stage's budgets of speeds and of weights; equal by default.
    """
    # These two levels number places or classes in place of cells: each is a group by itself, for a day.
    place_and_time = LEVELS["cell"] if name in (PLACE, CLASS) else LEVELS.get(name)
    if place_and_time is None:
        raise ValueError(f"there is no level {name!r}; there are {', '.join(LEVELS)}")
    place, time = place_and_time
    cells = ((0,) * hats.cells, hats.grandparents, hats.parents, range(hats.cells))[place]  # as of CITY to CELL
    slots = np.arange(hats.slots)
    if time != SLOT:
        times = [{DAY: 0, PART: hour // BLOCK_H, HOUR: hour}[time] for hour in hats.hours]
        slots = np.unique(times, return_inverse=True)[1].astype(np.int64)  # ranks from 0, of equal times alike
    groups = Groups(cells=np.array(cells, np.int64), slots=slots)
    return Level(name, share, share if weight_share is None else weight_share, groups)


Kind = Literal["gaussian", "laplace"]

UNIT = 1 << 20  # M: bound of the norm of a vehicle-day's integer vector, in steps

CENTRE_STEP_KMH = Fraction(1, 100)
FIRST_CENTRE = 2_000  # centre without earlier releases: 20 km/h, in steps of CENTRE_STEP_KMH

EXPONENT = Fraction(3, 4)  # between 0, a mean of vehicles' means, and 1, a mean of all reports
WEIGHT_STEPS = 10_000  # of a usual day, in which plans store forecast weights as integers

Shares = tuple[tuple[str, Fraction], ...]  # names of levels, each with its part; the parts add up to 1


class Part(NamedTuple):
    """A level's parts of the speed and weight budgets."""

    level: str
    speeds: Fraction
    weights: Fraction


def shares_of(**parts: str) -> Shares:
    """Writes shares by level names, with `_` for `-`."""
    return tuple((name.replace("_", "-"), Fraction(part)) for name, part in parts.items())


def alike(shares: Shares) -> tuple[Part, ...]:
    """Builds levels' parts, equal for speeds and weights."""
    return tuple(Part(name, share, share) for name, share in shares)


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Differences of places from cells, learned from earlier entries.

    cell, steps: int64 (places,), each one's cell and difference in CENTRE_STEP_KMH. lowest, highest: bounds of centres.
    slot_weights: forecast weight of the city in each slot, WEIGHT_STEPS for a usual day.
    """

    cell: Int64s = field(repr=False)
    steps: Int64s = field(repr=False)
    lowest: int
    highest: int
    slot_weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.cell.shape != self.steps.shape or not self.lowest < self.highest or min(self.slot_weights) <= 0:
            raise ValueError("places need a cell and a difference each, two bounds, and weights of slots above 0")

    @property
    def day_weight(self) -> float:
        """Weight of the day relative to a usual one."""
        return sum(self.slot_weights) / WEIGHT_STEPS

    def centres(self, of_cells: Int64s) -> Int64s:
        """Computes centres, int64 (places, slots), from those of cells, (cells, slots)."""
        centres: Int64s = np.clip(of_cells[self.cell] + self.steps[:, None], self.lowest, self.highest)
        return centres


@dataclass(frozen=True)
class StageHats:
    """HATs of a stage, and centres of their speeds.

    of_cells: centres of cells, int64 (cells, slots), in CENTRE_STEP_KMH. step_kmh: of the speeds' grid. rests_on: the
    newest ledger entry behind the centres. differences: of places from their cells, where the HATs lie in places.
    """

    hats: PublicHats
    of_cells: Int64s = field(repr=False)
    step_kmh: Fraction
    rests_on: Hashable = 0
    differences: Differences | None = None

    def __post_init__(self) -> None:
        if self.centres.shape != (self.hats.cells, self.hats.slots):  # centres: of cells, or of places if there are any
            raise ValueError("the centres and the HATs differ in number")
        if self.step_kmh <= 0:
            raise ValueError("the speed step must be above 0")

    @cached_property
    def centres(self) -> Int64s:
        """Centres, int64 (cells or places, slots), in CENTRE_STEP_KMH."""
        return self.of_cells if self.differences is None else self.differences.centres(self.of_cells)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Public plan of a vehicle-day's integers and their noise.

    kind: norm and noise: Gaussian (Euclidean) or Laplace (sum of absolute values). spread: variance of the Gaussian, or
    scale of the discrete Laplace, in (squared) steps, equal in all stages. parts: levels, each with its part of speeds'
    and of weights' budget. share: of a vehicle-day's budget; those of a release's stages add up to at most 1.
    bound_kmh: B, clip of the norm of a vehicle-day's weighted residual speeds.
    alpha: the part of the share that speeds get; 0 with classes. exponent: of the reports in a HAT, a multiple of 1/4.
    least_norm: least norm of a vehicle-day's reports to that exponent, by which short days weigh less. 0: none.
    counts_public: weights are then exact and unscaled, and speeds have the full share at twice the bound.
    counts_vehicles: all that it releases is a number of vehicles. classes: ascending inner edges of speed classes, in
    steps of the speed grid. accounting: "gdp" where Gaussian noise is normal and rounded, else discrete.
    number: from 0, of the `stages` of a period. around: None until the stage is laid on a day's HATs.
    """

    kind: Kind
    spread: Fraction
    parts: tuple[Part, ...]
    share: Fraction
    bound_kmh: Fraction
    alpha: Fraction
    exponent: Fraction = EXPONENT
    least_norm: int = 0
    counts_public: bool = False
    counts_vehicles: bool = False
    classes: tuple[int, ...] = ()
    accounting: Accounting = "zcdp"
    number: int = 0
    stages: int = 1
    around: StageHats | None = None

    def __post_init__(self) -> None:
        for shares in ([part.speeds for part in self.parts], [part.weights for part in self.parts]):
            if sum(shares) != 1 or min(shares) < 0:
                raise ValueError(f"the shares of the levels must add up to 1, they are {[str(s) for s in shares]}")
        if not 0 < self.share <= 1 or not 0 <= self.alpha < 1 or bool(self.alpha) == bool(self.classes):
            raise ValueError("a stage's share must be in (0, 1], and alpha in (0, 1), or 0 with classes")
        if self.classes and not all(a < b for a, b in pairwise((0, *self.classes))):
            raise ValueError("the edges of speed classes must ascend from above 0")
        if self.bound_kmh <= 0 or self.spread <= 0:
            raise ValueError("the bound and the spread of the noise must be above 0")
        if self.least_norm < 0:
            raise ValueError("the least norm must be 0 or more")
        if (4 * self.exponent).denominator != 1 or not 0 <= self.exponent <= 1:
            raise ValueError(f"the exponent must be 0, 1/4, 1/2, 3/4 or 1, it is {self.exponent}")

    @property
    def is_of_places(self) -> bool:
        """Whether its HATs lie in places instead of cells."""
        return any(part.level == PLACE for part in self.parts)

    @property
    def has_speeds(self) -> bool:
        """Whether noisy speeds are released beside the weights."""
        return self.counts_public or self.alpha > 0

    @property
    def laid(self) -> StageHats:
        """HATs that the stage is laid on (`around`). Raises ValueError without."""
        if self.around is None:
            raise ValueError("the stage has no HATs yet")
        return self.around

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels on the day's HATs."""
        return tuple(level(part.level, self.laid.hats, part.speeds, part.weights) for part in self.parts)

    @property
    def groups(self) -> int:
        """Number of groups of all levels together."""
        return sum(level.size for level in self.levels)

    @property
    def shares(self) -> Shares:
        """Each level's part of the speeds."""
        return tuple((part.level, part.speeds) for part in self.parts)

    @property
    def noise_sd(self) -> float:
        """Noise standard deviation in steps; slightly above for Laplace."""
        return UNIT * unit_noise(self.kind, self.spread, part=1.0)

    @property
    def claim(self) -> PureDP | ZCDP:
        """The stage's share of a UNIT vector's claim."""
        return claim_of_vector(self.kind, self.spread, self.accounting).times(self.share)


def unit_noise(kind: Kind, spread: Fraction, part: float) -> float:
    """Computes noise deviations of a sum of norm 1, by its budget part.

    spread: Laplace scale, or variance, of a vector of norm UNIT that has all of the budget. part: of it, for this sum.
    """
    if kind == "laplace":  # a Laplace law's deviation is sqrt(2) scales
        return math.sqrt(2) * float(spread) / UNIT / part
    return math.sqrt(float(spread) / part) / UNIT


def claim_of_vector(kind: Kind, spread: Fraction, accounting: Accounting) -> PureDP | ZCDP:
    """Computes the claim of a vector of norm UNIT. spread: Laplace scale, or variance."""
    if kind == "laplace":
        return PureDP(UNIT / spread)
    return NOISE_CLAIMS[accounting].of_gaussian(sensitivity=Fraction(UNIT), variance=spread)


def with_last(stages: tuple[Stage, ...], last: Stage, share: Fraction) -> tuple[Stage, ...]:
    """Appends a stage with `share` of the stages' total, which stays as it was."""
    total = sum((stage.share for stage in stages), Fraction(0))
    return (*scaled(stages, 1 - share), replace(last, share=share * total))


def scaled(stages: Iterable[Stage], factor: Fraction) -> tuple[Stage, ...]:
    """Multiplies the stages' shares by a factor."""
    return tuple(replace(stage, share=factor * stage.share) for stage in stages)


def centres_of(speeds_kmh: NDArray[np.float64], lowest: Fraction, highest: Fraction) -> Int64s:
    """Rounds speeds to centres, in steps, within [lowest, highest] km/h; nan to FIRST_CENTRE."""
    known_kmh = np.where(np.isfinite(speeds_kmh), speeds_kmh, FIRST_CENTRE * float(CENTRE_STEP_KMH))
    ends = float(lowest / CENTRE_STEP_KMH), float(highest / CENTRE_STEP_KMH)
    return np.clip(np.rint(known_kmh / float(CENTRE_STEP_KMH)), *ends).astype(np.int64)
