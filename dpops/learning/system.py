"""Normal equations of smooth effects: block tridiagonal with a dense border, solved block by block."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpops.learning.design import HOURS, Smoothness, both_kinds, hour_smoothness, off_smoothness
from dpops.learning.information import Information
from dpops.learning.layout import Block, EffectLayout
from dpops.types import Float64s

_SMALL = 100


@dataclass(frozen=True)
class System:
    """All that is believed and observed, as normal equations.

    families: flat, of all families' own effects, without their smoothness. columns: (places, border): how local effects
    meet the border, in which the lasting columns of the layout come first. corner: (border, border), local, border:
    right-hand sides.
    """

    layout: EffectLayout
    smoothness: Smoothness
    families: Float64s
    columns: Float64s
    corner: Float64s
    local: Float64s
    border: Float64s
    own: Sequence[slice | None]
    """Where each part's own deviation by hour stands in the border."""

    def solved(self) -> "Solved":
        inverses, gains = self._factors()
        reach = _back(self.layout.blocks, inverses, gains, np.column_stack([self.columns, self.local]))
        across, alone = reach[:, :-1], reach[:, -1]
        spread = _inverse(self.corner - self.columns.T @ across)
        border = spread @ (self.border - self.columns.T @ alone)
        return Solved(self, inverses, gains, across, spread, alone - across @ border, border)

    def _factors(self) -> tuple[list[Float64s], list[Float64s]]:
        """Finds each block's inverse of what is left after those before it, and its gain on the next one."""
        inverses: list[Float64s] = []
        gains: list[Float64s] = []
        blocks, carried = self.layout.blocks, np.zeros((0, 0))
        for index, block in enumerate(blocks):
            matrix = self._own(block)
            if index:
                matrix -= carried
            inverses.append(_positive_inverse(matrix))
            if index + 1 < len(blocks):
                onward = self._onward(block, blocks[index + 1])
                gains.append(inverses[index] @ onward)
                carried = onward.T @ gains[index]
        return inverses, gains

    def _own(self, block: Block) -> Float64s:
        matrix = np.zeros((block.size, block.size))
        matrix.ravel()[block.inside] = self.families[block.entries]
        diagonal = np.arange(block.size)
        matrix[diagonal, diagonal] += self._precisions[block.start : block.stop]
        one, other = block.pairs
        matrix[one, other] -= self.smoothness.cells
        matrix[other, one] -= self.smoothness.cells
        return matrix

    def _onward(self, block: Block, after: Block) -> Float64s:
        matrix = np.zeros((block.size, after.size))
        one, other = block.onward
        matrix[one, other] = -self.smoothness.cells
        return matrix

    @cached_property
    def _precisions(self) -> Float64s:
        """The diagonal of the smoothness, (places,)."""
        layout, precisions = self.layout, np.full(self.layout.local.size, self.smoothness.parents)
        touching = np.bincount(layout.neighbours.ravel(), minlength=precisions.size)[layout.cell_places]
        precisions[layout.cell_places] = self.smoothness.cells * (1 + touching)
        return precisions


@dataclass(frozen=True)
class Solved:
    """The effects that fit best, and what is needed for their covariances.

    across: (places, border), what is left of the border's columns by the local effects' own precision. spread: the
    covariance of the border. local: (places,), border: (border,), the effects.
    """

    system: System
    inverses: Sequence[Float64s]
    gains: Sequence[Float64s]
    across: Float64s
    spread: Float64s
    local: Float64s
    border: Float64s

    @property
    def effects(self) -> Float64s:
        """The lasting ones, (columns,)."""
        layout, solution = self.system.layout, np.zeros(self.system.layout.width)
        solution[layout.local], solution[layout.border] = self.local, self.border[: layout.border.size]
        return solution

    @cached_property
    def mixed(self) -> Float64s:
        """Covariances of local effects with the border, (places, border)."""
        product: Float64s = -self.across @ self.spread
        return product

    @cached_property
    def near(self) -> "NeighbourSums":
        """Covariances of local effects that stand near to one another."""
        layout, blocks = self.system.layout, self.system.layout.blocks
        families, pairs = np.zeros(int(layout.entries[-1])), 0.0
        after = np.zeros((0, 0))
        for number in reversed(range(len(blocks))):
            block, own = blocks[number], self.inverses[number]
            if number + 1 < len(blocks):
                onward = -self.gains[number] @ after
                own = own - onward @ self.gains[number].T
                one, other = block.onward
                start = blocks[number + 1].start
                across = np.sum(self.mixed[block.start + one] * self.across[start + other], axis=1)
                pairs += float(np.sum(onward[one, other] - across))
            whole = own - self.mixed[block.start : block.stop] @ self.across[block.start : block.stop].T
            families[block.entries] = whole.ravel()[block.inside]
            pairs += float(np.sum(whole[block.pairs[0], block.pairs[1]]))
            after = own
        return NeighbourSums(families, pairs)

    def reached(self, local: Float64s) -> Float64s:
        """The covariance of local effects with one another, times columns; (places, n) each."""
        alone = _back(self.system.layout.blocks, self.inverses, self.gains, local)
        onward: Float64s = alone - self.mixed @ (self.across.T @ local)
        return onward

    def times(self, local: Float64s, border: Float64s) -> tuple[Float64s, Float64s]:
        """The covariance times a vector, in its two parts."""
        alone = _back(self.system.layout.blocks, self.inverses, self.gains, local[:, None])[:, 0]
        at_border = self.spread @ (border - self.across.T @ local)
        return alone - self.across @ at_border, at_border


@dataclass(frozen=True, slots=True)
class NeighbourSums:
    """families: flat, covariances inside each family. pairs: those of all pairs of neighbouring cells, added up."""

    families: Float64s
    pairs: float


def learned_smoothness(solved: Solved, effects: Float64s, default: Smoothness) -> Smoothness:
    """One step of expectation-maximisation with a Gamma prior that is worth six effects at the default."""
    layout, near = solved.system.layout, solved.near
    local = effects[layout.local]
    row, column = layout.pair_places
    variances = near.families[row == column]
    touching = 1 + np.bincount(layout.neighbours.ravel(), minlength=local.size)[layout.cell_places]
    one, other = layout.neighbours
    cells = effects[layout.design.cell_columns]
    cell_energy = float(touching @ variances[layout.cell_places]) - 2 * near.pairs
    cell_energy += float(cells @ cells + np.sum((local[one] - local[other]) ** 2))
    parts = layout.part_places.ravel()
    part_energy = float(np.sum(variances[parts] + local[parts] ** 2))
    return Smoothness(
        cells=(cells.size + 6) / (cell_energy + 6 / default.cells),
        hours=_of_hours(solved, np.eye(HOURS, 2 * HOURS), hour_smoothness(), default.hours),
        parents=(parts.size + 6) / (part_energy + 6 / default.parents),
        off=_of_hours(solved, _APART, off_smoothness(), default.off),
    )


_APART = np.concatenate([-np.eye(HOURS), np.eye(HOURS)], axis=1)
"""How days off differ from working days, (24, 48)."""


def _of_hours(solved: Solved, of: Float64s, smooth: Float64s, default: float) -> float:
    """Makes the same step for a combination of hours, (24, 48)."""
    hours = solved.system.layout.hours
    values, spread = of @ solved.border[hours], of @ solved.spread[hours, hours] @ of.T
    energy = float(values @ smooth @ values + np.sum(smooth * spread))
    return (HOURS + 6) / (energy + 6 / default)


def system_of(
    layout: EffectLayout,
    smoothness: Smoothness,
    prior: Float64s,
    prior_value: Float64s,
    parts: Sequence["PartInformation"],
) -> System:
    """Adds up what is known. prior, prior_value: precision of the lasting border (its hours' smoothness comes on top),
    and precision times value."""
    lasting = layout.border.size
    corner, border = np.diag(prior), prior_value.copy()
    corner[layout.hours, layout.hours] += smoothness.of_hours()
    columns, corners, values = [np.zeros((layout.local.size, lasting))], [], [border]
    families, local = np.zeros(int(layout.entries[-1])), np.zeros(layout.local.size)
    own: list[slice | None] = []
    column = lasting
    for part in parts:
        one = part.information
        families, local = families + one.families, local + one.local
        columns[0] += one.mixed
        corner[:lasting, :lasting] += one.corner
        border += one.border
        more, square, value = part.own_columns(layout)
        columns.append(more)
        corners.append(square)
        values.append(value)
        own.append(None if part.own is None else slice(column, column + HOURS))
        column += value.size
    return System(
        layout, smoothness, families, np.concatenate(columns, axis=1), _bordered(corner, corners), local,
        np.concatenate(values), own,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartInformation:
    """A day's information (or that of several days together). own: the prior precision of its own deviation by hour,
    (24, 24); None where it has none of its own."""

    information: Information
    own: Float64s | None = None

    def own_columns(self, layout: EffectLayout) -> tuple[Float64s, Float64s, Float64s]:
        """What it adds to the border: its own hours, and a helper for each wide row, which observes it.

        (places, n), (lasting + n, n) and (n,): columns, corner, right-hand side.
        """
        one, hours = self.information, layout.hours
        wide = list(one.wide.values())
        roots = [np.sqrt(rows.precisions)[:, None] for rows in wide]
        local = [(root * rows.local).T for root, rows in zip(roots, wide, strict=True)]
        border = [(root * rows.border).T for root, rows in zip(roots, wide, strict=True)]
        values = [root[:, 0] * rows.values for root, rows in zip(roots, wide, strict=True)]
        helpers = sum(root.size for root in roots)
        lasting = layout.border.size
        across = np.concatenate([*border, np.zeros((lasting, 0))], axis=1)
        square = np.concatenate([across, -np.eye(helpers)])
        columns = np.concatenate([*local, np.zeros((layout.local.size, 0))], axis=1)
        value = np.concatenate([*values, np.zeros(0)])
        if self.own is None:
            return columns, square, value
        clock = both_kinds()
        deviations = clock.T @ one.corner[hours, hours] @ clock + self.own
        own = np.concatenate([one.corner[:, hours] @ clock, deviations, across[hours].T @ clock])
        square = np.concatenate([square[:lasting], clock.T @ across[hours], square[lasting:]])
        return (
            np.concatenate([one.mixed[:, hours] @ clock, columns], axis=1),
            np.concatenate([own, square], axis=1),
            np.concatenate([one.border[hours] @ clock, value]),
        )


def _bordered(corner: Float64s, more: Sequence[Float64s]) -> Float64s:
    """A symmetric matrix of the lasting corner, and of further columns each given below and beside it."""
    lasting = corner.shape[0]
    size = lasting + sum(block.shape[1] for block in more)
    whole = np.zeros((size, size))
    whole[:lasting, :lasting] = corner
    column = lasting
    for block in more:
        own = slice(column, column + block.shape[1])
        whole[:lasting, own], whole[own, :lasting] = block[:lasting], block[:lasting].T
        whole[own, own] = block[lasting:]
        column = own.stop
    return whole


def _back(blocks: Sequence[Block], inverses: Sequence[Float64s], gains: Sequence[Float64s], of: Float64s) -> Float64s:
    """The local precision's inverse times columns, (places, n)."""
    solution = of.copy()
    for index, gain in enumerate(gains):
        here, after = blocks[index], blocks[index + 1]
        solution[after.start : after.stop] -= gain.T @ solution[here.start : here.stop]
    for number in reversed(range(len(blocks))):
        here = blocks[number]
        own = inverses[number] @ solution[here.start : here.stop]
        if number < len(gains):
            after = blocks[number + 1]
            own -= gains[number] @ solution[after.start : after.stop]
        solution[here.start : here.stop] = own
    return solution


def _positive_inverse(matrix: Float64s) -> Float64s:
    """Inverts a symmetric positive definite matrix, half by half: products are faster than a factorisation."""
    size = matrix.shape[0]
    if size <= _SMALL:
        return _inverse(matrix)
    half = size // 2
    first = _positive_inverse(matrix[:half, :half])
    gain = first @ matrix[:half, half:]
    rest = _positive_inverse(matrix[half:, half:] - matrix[half:, :half] @ gain)
    across = gain @ rest
    return np.block([[first + across @ gain.T, -across], [-across.T, rest]])


def _inverse(matrix: Float64s) -> Float64s:
    inverse: Float64s = np.linalg.inv(matrix).astype(np.float64, copy=False)
    return inverse
