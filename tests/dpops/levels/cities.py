"""Small made-up cities for the tests of levels: HATs, rows of vehicle-days, stages."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from dpops.levels import bounded
from dpops.levels.bounded import Rows
from dpops.levels.defaults import spread_of
from dpops.levels.stages import FIRST_CENTRE, UNIT, Kind, Part, PublicHats, Stage, StageHats

STEP = Fraction(1, 100)
HATS = PublicHats(parents=(0, 0, 1), grandparents=(0, 0, 0), hours=(7, 8, 12, 13))
LEVELS = ("cell", "hour", "parent", "cell-part", "hat")
KINDS: tuple[Kind, ...] = ("gaussian", "laplace")

Visit = tuple[int, int, int, int]  # cell, slot, reports, and the mean of their speeds in steps


def rows(days: "list[list[Visit]]") -> Rows:
    """One vehicle-day per list of visits."""
    entries = sorted(
        (vehicle, cell, slot, n, n * mean) for vehicle, day in enumerate(days) for cell, slot, n, mean in day
    )
    return Rows(*(np.array(column, np.int64) for column in zip(*entries, strict=True)) if entries else [_NONE] * 5)


_NONE = np.zeros(0, np.int64)


def stage(
    kind: Kind,
    names: tuple[str, ...] = ("cell", "hour", "parent"),
    share: Fraction = Fraction(1),
    *,
    hats: PublicHats = HATS,
    bound: Fraction = Fraction(7),
    alpha: Fraction = Fraction(17, 20),
    weight_shares: tuple[Fraction, ...] | None = None,
    budget: Fraction = Fraction(66, 25),
    centre: int = FIRST_CENTRE,
    counts_public: bool = False,
) -> Stage:
    """Levels with unequal shares, constant centres."""
    whole = sum(range(1, len(names) + 1))
    shares = [Fraction(index + 1, whole) for index in range(len(names))]
    weights = weight_shares or tuple(shares)
    planned = Stage(
        kind=kind,
        parts=tuple(map(Part, names, shares, weights)),
        share=share,
        spread=spread_of(kind, budget),
        bound_kmh=bound,
        alpha=alpha,
        counts_public=counts_public,
    )
    return replace(planned, around=StageHats(hats, np.full((hats.cells, hats.slots), centre), STEP))


def excess(stages: list[Stage], days: "list[list[Visit]]") -> Fraction:
    """The largest norm of a vehicle-day's stacked integers over all stages, as a part of what is allowed (1)."""
    visits, norms, power = rows(days), np.zeros(len(days), np.int64), 2 if stages[0].kind == "gaussian" else 1
    for one in stages:
        made = bounded.unchecked(visits, one)  # by name in its module, where a test may put a wrong one
        counted = made.query >= (one.groups if one.counts_public else 0)
        size = abs(made.value[counted]) * (2 if one.counts_public else 1)  # a neighbour's speeds are others: twice
        np.add.at(norms, made.vehicle[counted], size**power)
    return Fraction(int(norms.max()), UNIT**power)


def days_of(speeds: tuple[int, ...] = (0, 2700, 3400, 6500), reports: tuple[int, ...] = (1, 9)) -> "list[list[Visit]]":
    """All days of up to two visits, and of visits everywhere: alike, alternating, and one heavy."""
    hats = list(product(range(HATS.cells), range(HATS.slots)))
    kinds = list(product(reports, speeds))
    single = [[(*hat, *kind)] for hat in hats for kind in kinds]
    double = [[(*hats[0], *one), (*other, *two)] for other in hats[1:] for one in kinds for two in kinds]
    everywhere = [[(*hat, n, speed) for hat in hats] for n, speed in kinds]
    mixed = [[(*hat, n, 6500 * (index % 2)) for index, hat in enumerate(hats)] for n in reports]
    heavy = [[(*hat, 5000 if index == 3 else 1, 6500) for index, hat in enumerate(hats)]]
    return [*single, *double, *everywhere, *mixed, *heavy]


def random_days(seed: int, count: int, hats: PublicHats = HATS) -> "list[list[Visit]]":
    rng = np.random.default_rng(seed)
    places = list(product(range(hats.cells), range(hats.slots)))
    days = []
    for _ in range(count):
        chosen = rng.choice(len(places), rng.integers(1, len(places) + 1), replace=False)
        visits = [(*places[place], int(rng.integers(1, 40)), int(rng.integers(0, 6501))) for place in chosen]
        days.append(visits)
    return days
