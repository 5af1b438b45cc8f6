"""What noisy means of single HATs say about the effects that describe them."""

import numpy as np

from dpops.learning.design import BLOCK_H, BLOCKS, HOURS
from dpops.learning.information import Information
from dpops.learning.layout import Layout
from dpops.types import Float64s


def hat_information(layout: Layout, precisions: Float64s, values: Float64s, last: Float64s) -> Information:
    """Each HAT is its city, cell, hour and parent's part of the day once, and so much of the last columns.

    precisions, values: (cells, 24). last: (cells, 24, columns). The same as `GroupRows` of single HATs, without rows.
    """
    cells = layout.design.cells
    once = np.ones((cells, HOURS, 1)), np.broadcast_to(np.eye(HOURS), (cells, HOURS, HOURS))
    beside = np.concatenate([*once, last], axis=-1)
    weighted = precisions[..., None] * beside
    said = precisions * values
    by_part = _of_parts(layout, weighted)
    none = Information.none(layout)
    none.mixed[layout.cell_places] = weighted.sum(axis=1)
    none.mixed[layout.part_places] = by_part
    none.local[layout.cell_places] = said.sum(axis=1)
    none.local[layout.part_places] = _of_parts(layout, said[..., None])[..., 0]
    corner = weighted.reshape(-1, beside.shape[-1]).T @ beside.reshape(-1, beside.shape[-1])
    border = np.tensordot(said, beside, 2)
    families = _families(layout, precisions, by_part[..., 0])
    return Information(families, none.mixed, corner, none.local, border)


def _families(layout: Layout, precisions: Float64s, by_part: Float64s) -> Float64s:
    cell, part = layout.cell_places, layout.part_places
    both = np.repeat(cell, BLOCKS), part[layout.design.parents].ravel()
    of_both = precisions.reshape(-1, BLOCKS, BLOCK_H).sum(axis=-1).ravel()
    found = np.zeros(int(layout.entries[-1]))
    found[layout.entry(cell, cell)] = precisions.sum(axis=1)
    found[layout.entry(part.ravel(), part.ravel())] = by_part.ravel()
    found[layout.entry(*both)] = of_both
    found[layout.entry(*both[::-1])] = of_both
    return found


def _of_parts(layout: Layout, hats: Float64s) -> Float64s:
    """Sums over each parent's cells in each part of the day, (parents, parts, columns); hats: (cells, 24, columns)."""
    design = layout.design
    found = np.zeros((layout.part_places.shape[0], BLOCKS, hats.shape[-1]))
    np.add.at(found, design.parents, hats.reshape(design.cells, BLOCKS, BLOCK_H, -1).sum(axis=2))
    return found
