"""Vehicles that a HAT needs, under public counts.

Half widths are of a HAT's 95 % interval, in the value's unit, with the worst clipping; `within` is the requested one.
Epsilons are of a HAT: the specified one, and FACTORS of it.
"""

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial

import msgspec
import numpy as np

from dpops.mechanism import Mechanism
from dpops.mechanisms import registered
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.constant import Constant
from dpops.statistics import RequestedStatistic
from dpops.types import CountsKnown, Grid, Int64s
from pipelines.specification import Specification

MOST_VEHICLES = 3_000  # a half width that needs more vehicles in a HAT is out of reach
MISS = 0.05  # probability that an interval misses the true mean
TYPICAL_COUNTS = (2, 40)  # reports of a vehicle in a HAT, from the fewest to the most
VEHICLES = (3, 10, 30, 100, 300)  # in a HAT, for which half widths are shown
FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))  # of the specified epsilon, compared


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Vehicles needed at an epsilon, by mechanism."""

    epsilon: float
    as_specified: bool
    half_widths: list[float]  # of 95 % intervals with worst clipping, for each of VEHICLES
    vehicles: int | None  # fewest for the requested one; None: impossible
    best: str | None  # mechanism that needs fewest
    best_vehicles: int | None


class MechanismNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Vehicles that a mechanism needs, by epsilon."""

    mechanism: str
    unit: str
    within: float
    vehicles_in_a_hat: list[int]
    by_epsilon: list[Need]
    answers: list[str]


def needs_of(spec: Specification, within: float, epsilon: Fraction) -> MechanismNeeds | None:
    """Computes vehicles that a mean needs; None if the specification has no statistic `mean`."""
    stat = next((statistic for statistic in spec.statistics if statistic.name == "mean"), None)
    if stat is None:
        return None
    name, unit = stat.mechanism.name, spec.value.unit
    rows = [_need(spec, stat, epsilon * multiple, within, is_now=multiple == 1) for multiple in FACTORS]
    now = next(row for row in rows if row.as_specified)
    larger = next((row for row in rows if row.epsilon > now.epsilon and row.best_vehicles is not None), None)
    goal = f"±{within:g} {unit} for a HAT at epsilon {now.epsilon:g}"
    if now.vehicles is not None:
        better = now.best_vehicles is not None and now.best_vehicles < now.vehicles
        tail = f"; mechanism {now.best!r} needs {now.best_vehicles:,}" if better else ""
        answer = f"{goal} needs {now.vehicles:,} vehicles in it with {name!r}{tail}."
    elif now.best_vehicles is not None:
        answer = (
            f"{goal} is out of reach with {name!r}, whose clipping may move a mean by more: mechanism {now.best!r} "
            f"needs {now.best_vehicles:,} vehicles in a HAT."
        )
    elif larger is not None:
        answer = (
            f"{goal} is out of reach with any mechanism: epsilon {larger.epsilon:g} has it with {larger.best!r} from "
            f"{larger.best_vehicles:,} vehicles; so do longer slots and larger cells, which hold more vehicles."
        )
    else:
        answer = (
            f"{goal} is out of reach up to epsilon {rows[-1].epsilon:g}: ask for a wider interval (--within), longer "
            "slots or larger cells."
        )
    return MechanismNeeds(
        mechanism=name,
        unit=unit,
        within=within,
        vehicles_in_a_hat=list(VEHICLES),
        by_epsilon=rows,
        answers=[answer],
    )


def _need(spec: Specification, stat: RequestedStatistic, epsilon: Fraction, within: float, *, is_now: bool) -> Need:
    """Computes half widths, and vehicles needed by mechanism. is_now: as specified."""
    half: Callable[..., float] = partial(_half_width, spec.value.grid, epsilon * stat.share)  # the statistic's share

    def needed(mechanism: Mechanism) -> int | None:
        return fewest(lambda vehicles: half(mechanism, vehicles) <= within, MOST_VEHICLES)

    needs = {  # fewest vehicles by mechanism; `auto` chooses among these, and a constant has no interval
        name: needed(cls())
        for name, cls in registered().items()
        if stat.name in cls.statistics and "counts-public" in cls.adjacencies and not issubclass(cls, Auto | Constant)
    }
    feasible = {name: number for name, number in needs.items() if number is not None}
    best = min(feasible, key=lambda name: feasible[name]) if feasible else None
    return Need(
        epsilon=float(epsilon),
        as_specified=is_now,
        half_widths=[half(stat.mechanism, number) for number in VEHICLES],
        vehicles=needed(stat.mechanism),
        best=best,
        best_vehicles=None if best is None else feasible[best],
    )


@cache
def _half_width(grid: Grid, epsilon: Fraction, mechanism: Mechanism, vehicles: int) -> float:
    """Computes a HAT's half width. epsilon: of its mean. Counts: TYPICAL_COUNTS, evenly in logs."""
    low, high = TYPICAL_COUNTS
    counts: Int64s = np.geomspace(high, low, vehicles + 2)[1:-1].round().astype(np.int64)  # between the two ends
    plan = mechanism.plan(CountsKnown.all_of(counts), grid, epsilon)
    return min(plan.half_width(MISS), float(grid.upper))  # values lie from 0 to `upper`: no error is larger


def fewest(holds: Callable[[int], bool], limit: int) -> int | None:
    """Finds the least number that holds, as all larger ones do; None beyond `limit`."""
    # A galloping search tries few large numbers, which cost most: powers of 2, then between the last two.
    end = next(2**k for k in range(limit.bit_length() + 1) if 2**k >= limit or holds(2**k))
    number = bisect_left(range(min(end, limit) + 1), True, lo=end // 2 + 1, key=holds)
    return number if number <= limit else None
