"""State of learning: public fleet facts, and blocks of effects.

Recent days are kept as released; older ones are folded into mean days, one for each kind of hours. A HAT has one effect
of each block, by `cell_keys` and, by hour, `slot_keys`: of the clock, parts of the day, days off. Blocks with
`is_border` touch most cells; those without `is_learned` hold their prior strength, `precision`.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import spsolve

from dpops import fitted
from dpops.learning.effects import Block, EffectLayout, Start
from dpops.learning.releases import HABITS, HOURS, DayValues, Design
from dpops.levels.defaults import RETAINED
from dpops.levels.stages import BLOCK_H
from dpops.spread import TYPICAL_KMH
from dpops.types import Float64s

RECENT = 2  # least number of days kept as released; older ones are folded into their mean day


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public facts about a fleet; weights in typical vehicle-days.

    Attributes:
        vehicles: expected on a day.
        hat_weight: weight of one of a vehicle's HATs.
        hats_in_hour, hats_in_cell: HATs of one vehicle in an hour that it drives in, and in a cell that it comes to.
        standing: ratio of what a typical vehicle's reports weigh to those of one that stands all day.
    """

    vehicles: float
    hat_weight: float
    hats_in_hour: float = 1.0
    hats_in_cell: float = 1.0
    standing: float = 1.0

    def __post_init__(self) -> None:
        if not min(self.vehicles, self.hat_weight) > 0:
            raise ValueError("a fleet's facts must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Summary of earlier releases.

    Attributes:
        days: number of days in it.
        older: mean days of those folded in, one for each kind of hours.
        recent: the last days as released, at least `least_recent`; None keeps all.
        start: initial values of fits, once days are folded.
    """

    design: Design
    weight_layout: EffectLayout
    speed_layout: EffectLayout
    facts: Facts
    days: int = 0
    older: tuple[DayValues, ...] = ()
    recent: tuple[DayValues, ...] = ()
    least_recent: int | None = RECENT
    start: Start | None = None

    @staticmethod
    def new(design: Design, facts: Facts, least_recent: int | None = RECENT) -> "State":
        """Makes the state before the first day."""
        weights, speeds = weight_layout(design), speed_layout(design)
        return State(design=design, weight_layout=weights, speed_layout=speeds, facts=facts, least_recent=least_recent)


VERSION = 25  # version of the model and of what a state means; a stored one of another version is not restored

_HOURS = np.arange(HABITS)
_CONSTANT, _CLOCK, _PART = 0 * _HOURS, _HOURS % HOURS, _HOURS % HOURS // BLOCK_H
_DAY_OFF = np.where(_HOURS >= HOURS, _CLOCK, -1)
"""Keys of effects by hour of a day (see `Design`): all alike, of the clock, parts of the day, days off."""
_NEIGHBOURS, _PARTS_OF_A_CELL = 6, 7  # of a hexagon in H3


def weight_layout(design: Design) -> EffectLayout:
    """Lists the effects that add up to a HAT's log weight.

    "popularity": elasticity of weights to public popularity (`_popularity`), of prior mean 1 if that is a timetable's
    visits, else THINNING. "day": log of a day's level, without a prior: numbers of vehicles are observations of it.
    "retention": log of the part of a day's weight that clipping leaves; only rows of daily totals have it as regressor.
    """
    precision = 1 / fitted.HAT_LOG_VARIANCE
    city = partial(Block, cell_keys=np.zeros(design.cells, np.int64), is_border=True, is_learned=False)
    elasticity = fitted.THINNING if design.visits is None else 1.0
    return EffectLayout(
        (
            _cells(design, fitted.BUSIER),
            Block(name="parent x part", cell_keys=design.parents, slot_keys=_PART, precision=precision),
            *_hours(design, precision),
            city(name="popularity", mean=elasticity, precision=fitted.BUSIER**-2, regressor="popularity"),
            city(name="day", precision=0.0, is_daily=True),
            city(name="retention", mean=math.log(RETAINED), precision=fitted.RETAINED_SD**-2, regressor="retention"),
        ),
        known={"popularity": _popularity(design)},
    )


def speed_layout(design: Design) -> EffectLayout:
    """Lists the effects that add up to a HAT's speed, km/h."""
    precision = fitted.HOURS_KMH**-2
    city = partial(Block, cell_keys=np.zeros(design.cells, np.int64), is_border=True, is_learned=False)
    return EffectLayout(
        (
            _cells(design, fitted.PLACES_KMH),
            Block(name="parent x part", cell_keys=design.parents, slot_keys=_PART, precision=precision),
            Block(name="parent, day", cell_keys=design.parents, precision=precision, is_daily=True),
            Block(name="cell, day", cell_keys=np.arange(design.cells), precision=precision, is_daily=True),
            city(name="city", precision=fitted.CITY_SD_KMH**-2, mean=TYPICAL_KMH),
            *_hours(design, precision),
            # Error of the log of a day's weights: it moves sums of speeds. `SpeedField.fit` sets its precision.
            city(name="doubt", precision=1.0, is_daily=True, regressor="doubt"),
            city(name="traffic", precision=precision, regressor="traffic"),  # km/h per unit of a HAT's log weight
        )
    )


def _popularity(design: Design) -> Float64s:
    """Computes the public regressor of log weights, (cells, HABITS), of mean 0.

    Logs of a timetable's visits where known, one added as cells without a stop have some traffic too. Else, as a city
    thins out towards its edge (Clark, 1951), logs of the expected steps s after which a random walk over neighbours
    leaves the region. One step leads to any of six sides: 6 s = 6 + the sum of neighbours' s, those outside with s = 0.
    """
    if design.visits is not None:
        logs = np.log1p(design.visits)
    else:
        edges = _edges(design.neighbours, design.cells)
        laplacian = edges @ edges.T  # numbers of neighbours less neighbours
        sides_outside = np.maximum(_NEIGHBOURS - laplacian.diagonal(), 0) + 1e-6  # above 0: every walk ends
        steps = spsolve((laplacian + sparse.diags(sides_outside)).tocsc(), np.full(design.cells, _NEIGHBOURS))
        logs = np.repeat(np.log(steps)[:, None], HABITS, axis=1)
    return np.asarray(logs - logs.mean())


def _cells(design: Design, sd: float) -> Block:
    """Builds cells' effects, a Markov random field; sd: of one given its neighbours.

    The prior precision matrix, `precision` (D D' + I), has `precision` (6 + 1) on its diagonal: 1 / sd^2.
    Small cells have a seventh of the area (H3), so means over them vary by seven times as much.
    """
    precision = 1 / (sd**2 * (_NEIGHBOURS + 1) * (_PARTS_OF_A_CELL if design.are_small else 1))
    differences = _edges(design.neighbours, design.cells)
    return Block(name="cell", cell_keys=np.arange(design.cells), differences=differences, precision=precision)


def _hours(design: Design, precision: float) -> tuple[Block, Block, Block]:
    """Builds effects of hours: of all days, days off, and each day."""
    clock, everywhere = np.arange(HOURS), np.zeros(design.cells, np.int64)
    ring = _edges(np.stack([clock, (clock + 1) % HOURS], axis=1), HOURS)  # 23 h neighbours 0 h
    hourly = partial(
        Block, cell_keys=everywhere, differences=ring, ridge=fitted.RING_RIDGE, precision=precision, is_border=True
    )
    return (
        hourly(name="hour", slot_keys=_CLOCK),
        hourly(name="day off", slot_keys=_DAY_OFF),
        hourly(name="own hours", slot_keys=_CLOCK, is_daily=True),
    )


def _edges(pairs: np.ndarray, count: int) -> sparse.csr_matrix:
    """Builds pairs' incidence matrix, (count, pairs): +1 and -1 in each column."""
    columns, values = np.tile(np.arange(len(pairs)), 2), np.repeat([1.0, -1.0], len(pairs))
    return sparse.csr_matrix((values, (pairs.T.ravel(), columns)), (count, len(pairs)))
