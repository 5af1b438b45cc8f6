"""Normal equations of smooth effects: sparse, with a dense border."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpops.learning.design import HOURS, Smoothness, both_kinds, hour_smoothness, off_smoothness
from dpops.learning.factors import Factors, factors, inverse_of
from dpops.learning.information import Information
from dpops.learning.layout import EffectLayout
from dpops.types import Float64s


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
        own = factors(self.layout.elimination, self._numbers)
        reach = own.solved(np.column_stack([self.columns, self.local]))
        across, alone = reach[:, :-1], reach[:, -1]
        spread = inverse_of(self.corner - self.columns.T @ across)
        border = spread @ (self.border - self.columns.T @ alone)
        return Solved(self, own, across, spread, alone - across @ border, border)

    @property
    def _numbers(self) -> Float64s:
        """Those of the local effects' matrix, as the layout's elimination wants them."""
        layout, families = self.layout, self.families.copy()
        families[layout.diagonal] += self._precisions
        families[layout.inside] -= self.smoothness.cells
        return np.concatenate([families, np.full(layout.apart.size, -self.smoothness.cells)])

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

    factors: of the local effects' own precision. across: (places, border), what that leaves of the border's columns.
    spread: the covariance of the border. local: (places,), border: (border,), the effects.
    """

    system: System
    factors: Factors
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
    def _alone(self) -> Float64s:
        """Covariances of local effects where their precision has numbers, were the border known."""
        return self.factors.selected(self.system.layout.entries[-1] + self.system.layout.apart.size)

    @cached_property
    def variances(self) -> Float64s:
        """Of local effects, (places,)."""
        through_border = np.einsum("ij,ij->i", self.mixed, self.across)
        variances: Float64s = self._alone[self.system.layout.diagonal] - through_border
        return variances

    @property
    def pairs(self) -> float:
        """Covariances of all pairs of neighbouring cells, added up."""
        layout, alone = self.system.layout, self._alone
        one, other = layout.neighbours
        summed = np.sum(alone[layout.inside]) + np.sum(alone[layout.entries[-1] :])
        return float(summed / 2 - np.einsum("ij,ij->", self.mixed[one], self.across[other]))

    @cached_property
    def families(self) -> Float64s:
        """Covariances inside each family, flat."""
        layout = self.system.layout
        families, sizes = self._alone[: layout.entries[-1]].copy(), np.diff(layout.starts)
        for size in np.unique(sizes):
            alike = np.flatnonzero(sizes == size)
            places = layout.starts[alike][:, None] + np.arange(size)
            entries = layout.entries[alike][:, None] + np.arange(size**2)
            families[entries] -= (self.mixed[places] @ self.across[places].transpose(0, 2, 1)).reshape(entries.shape)
        return families

    def reached(self, local: Float64s) -> Float64s:
        """The covariance of local effects with one another, times columns; (places, n) each."""
        onward: Float64s = self.factors.solved(local) - self.mixed @ (self.across.T @ local)
        return onward

    def times(self, local: Float64s, border: Float64s) -> tuple[Float64s, Float64s]:
        """The covariance times a vector, in its two parts."""
        alone = self.factors.solved(local[:, None])[:, 0]
        at_border = self.spread @ (border - self.across.T @ local)
        return alone - self.across @ at_border, at_border


def learned_smoothness(solved: Solved, effects: Float64s, default: Smoothness) -> Smoothness:
    """One step of expectation-maximisation with a Gamma prior that is worth six effects at the default."""
    layout, local = solved.system.layout, effects[solved.system.layout.local]
    variances = solved.variances
    touching = 1 + np.bincount(layout.neighbours.ravel(), minlength=local.size)[layout.cell_places]
    one, other = layout.neighbours
    cells = effects[layout.design.cell_columns]
    cell_energy = float(touching @ variances[layout.cell_places]) - 2 * solved.pairs
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
