"""What noisy means of single HATs say about the effects that describe them."""

import numpy as np

from dpops.learning.design import BLOCK_H, BLOCKS, HABITS, HOURS
from dpops.learning.information import Information
from dpops.learning.layout import EffectLayout
from dpops.types import Float64s


def hat_information(layout: EffectLayout, precisions: Float64s, values: Float64s, last: Float64s) -> Information:
    """Adds up what noisy means of single HATs say of the effects. All days are taken for working days.

    Each HAT is its city, cell, hour and parent's part of the day once, and so much of the last columns.

    precisions, values: (cells, 24). last: (cells, 24, columns). The same as `GroupRows` of single HATs, without rows.
    """
    weighted = precisions[..., None] * last
    said = precisions * values
    once = np.concatenate([precisions[..., None], said[..., None], weighted], axis=-1)
    by_cell, by_hour, by_part = once.sum(axis=1), once.sum(axis=0), _of_parts(layout, once)
    none = Information.none(layout)
    hours, off = np.arange(HOURS), HABITS - HOURS
    of_hours = np.pad(precisions, ((0, 0), (0, off)))
    none.mixed[layout.cell_places] = np.concatenate([by_cell[:, :1], of_hours, by_cell[:, 2:]], axis=-1)
    part_hours = np.zeros((*by_part.shape[:2], HABITS))
    part_hours[:, hours // BLOCK_H, hours] = _of_parents(layout, precisions)
    none.mixed[layout.part_places] = np.concatenate([by_part[..., :1], part_hours, by_part[..., 2:]], axis=-1)
    none.local[layout.cell_places], none.local[layout.part_places] = by_cell[:, 1], by_part[..., 1]
    corner, border = none.corner, none.border
    everywhere = by_hour.sum(axis=0)
    clock, further = slice(1, 1 + HOURS), slice(1 + HABITS, None)
    corner[0, 0], corner[0, clock], corner[0, further] = everywhere[0], by_hour[:, 0], everywhere[2:]
    corner[1 + hours, 1 + hours], corner[clock, further] = by_hour[:, 0], by_hour[:, 2:]
    corner[further, further] = np.tensordot(weighted, last, ((0, 1), (0, 1)))
    corner[:] = np.triu(corner) + np.triu(corner, 1).T
    border[0], border[clock] = everywhere[1], by_hour[:, 1]
    border[further] = np.tensordot(said, last, 2)
    return Information(_families(layout, precisions, by_part[..., 0]), none.mixed, corner, none.local, border)


def _families(layout: EffectLayout, precisions: Float64s, by_part: Float64s) -> Float64s:
    cell, part = layout.cell_places, layout.part_places
    both = np.repeat(cell, BLOCKS), part[layout.design.parents].ravel()
    of_both = precisions.reshape(-1, BLOCKS, BLOCK_H).sum(axis=-1).ravel()
    entries = np.zeros(int(layout.entries[-1]))
    entries[layout.entry(cell, cell)] = precisions.sum(axis=1)
    entries[layout.entry(part.ravel(), part.ravel())] = by_part.ravel()
    entries[layout.entry(*both)] = of_both
    entries[layout.entry(*both[::-1])] = of_both
    return entries


def _of_parts(layout: EffectLayout, hats: Float64s) -> Float64s:
    """Sums over each parent's cells in each part of the day, (parents, parts, columns); hats: (cells, 24, columns)."""
    by_cell = hats.reshape(hats.shape[0], BLOCKS, BLOCK_H, -1).sum(axis=2)
    return _of_parents(layout, by_cell)


def _of_parents(layout: EffectLayout, cells: Float64s) -> Float64s:
    """Sums over each parent's cells, (parents, ..)."""
    summed = np.zeros((layout.part_places.shape[0], *cells.shape[1:]))
    np.add.at(summed, layout.design.parents, cells)
    return summed
