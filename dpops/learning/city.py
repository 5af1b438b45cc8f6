"""Effect blocks of a city's fields: log weights, speeds."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sparse

from dpops import fitted
from dpops.learning.effects import Block, EffectLayout
from dpops.learning.releases import BLOCK_H, BLOCKS, HOURS, Design
from dpops.levels.defaults import RETAINED
from dpops.spread import TYPICAL_KMH
from dpops.types import Int64s

Keys = Callable[[Int64s], Int64s]
_NEIGHBOURS, _PARTS_OF_A_CELL = 6, 7
"""Of a hexagon in H3."""


def constant(hours: Int64s) -> Int64s:
    """Returns one key for all slots."""
    return np.zeros(hours.size, np.int64)


def clock_hour(hours: Int64s) -> Int64s:
    """Numbers hours of the clock."""
    return hours % HOURS


def part_of_day(hours: Int64s) -> Int64s:
    """Numbers parts of the day."""
    return hours % HOURS // BLOCK_H


def day_off(hours: Int64s) -> Int64s:
    """Numbers hours of days off; -1 on working days."""
    return np.where(hours >= HOURS, hours % HOURS, -1)


def weight_layout(design: Design) -> EffectLayout:
    """Lists the effects of log weights; one line each."""
    block, everywhere = partial(Block, slot_keys=constant, slots=1), np.zeros(design.cells, np.int64)
    others = 1 / fitted.HAT_LOG_VARIANCE
    hourly = partial(Block, cell_keys=everywhere, slots=HOURS, differences=_ring(), is_border=True)
    city = partial(block, cell_keys=everywhere, is_border=True, is_learned=False)
    return EffectLayout(
        (
            _cells(design, fitted.BUSIER),
            _parts(design, others),
            hourly(name="hour", slot_keys=clock_hour, precision=others, ridge=0.5),
            hourly(name="day off", slot_keys=day_off, precision=others, ridge=0.05),
            hourly(name="own hours", slot_keys=clock_hour, precision=others, ridge=0.5, is_daily=True),
            city(name="day", precision=0.0, is_daily=True),
            city(name="retention", mean=math.log(RETAINED), precision=fitted.RETAINED_SD**-2, regressor="retention"),
        )
    )


def speed_layout(design: Design) -> EffectLayout:
    """Lists the effects of speeds, km/h; one line each."""
    block, everywhere = partial(Block, slot_keys=constant, slots=1), np.zeros(design.cells, np.int64)
    others = fitted.HOURS_KMH**-2
    hourly = partial(Block, cell_keys=everywhere, slots=HOURS, differences=_ring(), is_border=True)
    city = partial(block, cell_keys=everywhere, is_border=True, is_learned=False)
    return EffectLayout(
        (
            _cells(design, fitted.PLACES_KMH),
            _parts(design, others),
            block(name="parent, day", cell_keys=design.parents, precision=others, is_daily=True),
            block(name="cell, day", cell_keys=np.arange(design.cells), precision=others, is_daily=True),
            city(name="city", precision=fitted.CITY_SD_KMH**-2, mean=TYPICAL_KMH),
            hourly(name="hour", slot_keys=clock_hour, precision=others, ridge=0.5),
            hourly(name="day off", slot_keys=day_off, precision=others, ridge=0.05),
            hourly(name="own hours", slot_keys=clock_hour, precision=others, ridge=0.5, is_daily=True),
            city(name="doubt", precision=1.0, is_daily=True, regressor="doubt"),
            city(name="traffic", precision=others, regressor="traffic"),
        )
    )


def _cells(design: Design, sd: float) -> Block:
    """Lists effects of cells, which have this deviation given their six neighbours.

    Small ones have a seventh of the area (H3), so means over them vary by seven times as much.
    """
    return Block(
        name="cell",
        cell_keys=np.arange(design.cells),
        slot_keys=constant,
        slots=1,
        differences=_edges(design),
        precision=1 / (sd**2 * (_NEIGHBOURS + 1) * (_PARTS_OF_A_CELL if design.are_small else 1)),
    )


def _parts(design: Design, precision: float) -> Block:
    return Block(
        name="parent x part", cell_keys=design.parents, slot_keys=part_of_day, slots=BLOCKS, precision=precision
    )


def _ring() -> sparse.csr_matrix:
    """Builds differences of neighbouring hours on a ring."""
    following = np.roll(np.eye(HOURS), 1, axis=0)
    return sparse.csr_matrix(np.eye(HOURS) - following)


def _edges(design: Design) -> sparse.csr_matrix:
    """Builds differences of neighbouring cells, (cells, pairs)."""
    first, second = design.neighbours.T
    pairs = np.arange(first.size)
    values = np.repeat([1.0, -1.0], first.size)
    return sparse.csr_matrix(
        (values, (np.concatenate([first, second]), np.concatenate([pairs, pairs]))), (design.cells, first.size)
    )
