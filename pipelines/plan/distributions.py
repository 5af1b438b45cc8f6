"""What a distribution by `levels` is expected to be worth, from public facts alone."""

import math

import numpy as np

from dpops import fitted
from dpops.learning.classes import ExpectedCell, expected_error, prior_shares
from dpops.levels.class_stage import MOVING, times_of, with_classes
from dpops.levels.defaults import BoundsOnly
from dpops.levels.stages import UNIT, scaled
from dpops.levels.strategy import PARTS, left_of, told_by
from dpops.spread import TYPICAL
from dpops.types import Grid
from pipelines.specification.classes import ClassesAsked
from pipelines.specification.levels import LevelsRelease
from transforms.releases.periods.learned_classes import edges_in_units, weight_of_one

VEHICLES, DAYS, LEVEL = 10, 4, 0.85
WORTH = 0.8
"""Of one constant's error: above it a distribution is hardly worth its share."""


def of_distributions(asked: LevelsRelease, facts: BoundsOnly, grid: Grid) -> list[str]:
    """Says by how much the 85th percentile of a cell's day is expected to be missed; nothing where none is asked
    for."""
    if asked.classes is None:
        return []
    first, later, constant = (_error(asked, asked.classes, facts, grid, days) for days in (1, DAYS, 0))
    said = (
        f"The 85th percentile of a cell's day with {VEHICLES} vehicles is expected to be missed by {first:.1f} km/h "
        f"after a day and by {later:.1f} after {DAYS}; one constant for all cells by {constant:.1f}."
    )
    if later <= WORTH * constant:
        return [said]
    return [
        f"{said} That is hardly worth the {float(asked.classes.share):.0%} of the total that means go without: leave "
        "the statistic 'distribution' out, or take a larger total, privacy.delta, or larger cells."
    ]


def _error(asked: LevelsRelease, classes: ClassesAsked, facts: BoundsOnly, grid: Grid, days: int) -> float:
    """Estimates the error. days: 0 for one constant, of which is known how far cells lie from their city."""
    *_, coarse, last = with_classes(scaled(asked.strategy.later, asked.usual_part), classes.share, classes.edges)
    edges, before = edges_in_units(classes.edges, grid), {part: sd**2 for part, sd in PARTS.items()}
    told = told_by(coarse, facts, before, math.exp(fitted.BUSIER**2 / 2))
    left = sum(left_of(before, {part: days * precision for part, precision in told.items()}).values())
    hats = VEHICLES * facts.fleet.profile.hats / facts.fleet.profile.cells
    part = float(last.share) if asked.recipe.kind == "laplace" else math.sqrt(float(last.share))
    sd = last.noise_sd / (UNIT * part) / (times_of(edges.size - 1) / MOVING)
    share = prior_shares(edges.size - 1) * weight_of_one(facts.fleet, asked.recipe.kind) / facts.fleet.profile.cells
    cell = ExpectedCell(VEHICLES * share, left, float(TYPICAL.of(np.array(hats))), hats)
    visitors = facts.fleet.vehicles * facts.fleet.profile.cells / facts.hats.cells
    return expected_error(edges, cell, days / sd**2, LEVEL, (visitors * share, facts.hats.cells) if days else None)
