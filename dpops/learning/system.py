"""Normal equations of smooth effects: sparse, with a dense border."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpops.learning.design import HOURS, Smoothness, hour_smoothness, off_smoothness
from dpops.learning.factors import Factored, factored, inverse_of
from dpops.learning.layout import EffectLayout
from dpops.types import Float64s


class OwnHours(NamedTuple):
    """Where a part's own deviation by hour stands in the border, and of how many days the part is."""

    span: slice
    days: float


@dataclass(frozen=True)
class System:
    """All that is observed, and believed beside smoothness, as normal equations.

    families: flat, of all families' own effects. columns: (places, border): how local effects meet the border, in which
    the lasting columns of the layout come first, then parts' own hours. corner: (border, border), local, border:
    right-hand sides. own: of each part that was added up, or None.
    """

    layout: EffectLayout
    families: Float64s
    columns: Float64s
    corner: Float64s
    local: Float64s
    border: Float64s
    own: Sequence[OwnHours | None]

    @property
    def spans(self) -> list[slice]:
        """Where the own hours of parts that have some stand in the border."""
        return [own.span for own in self.own if own is not None]

    def solved(self, smoothness: Smoothness) -> "Solved":
        parted = factored(self.layout.elimination, self._numbers(smoothness))
        reach = parted.solved(self._right)
        across, alone = reach[:, :-1], reach[:, -1]
        spread = inverse_of(self._corner(smoothness) - self.columns.T @ across)
        border = spread @ (self.border - self.columns.T @ alone)
        return Solved(self, smoothness, parted, across, spread, alone - across @ border, border)

    @cached_property
    def _right(self) -> Float64s:
        return np.column_stack([self.columns, self.local])

    def _corner(self, smoothness: Smoothness) -> Float64s:
        corner, hours = self.corner.copy(), self.layout.hours
        corner[hours, hours] += smoothness.of_hours()
        for own in self.own:
            if own is not None:
                corner[own.span, own.span] += own.days * smoothness.days * hour_smoothness()
        return corner

    def _numbers(self, smoothness: Smoothness) -> Float64s:
        """Lists the numbers of the local effects' matrix, as the layout's elimination wants them."""
        layout, families = self.layout, self.families.copy()
        precisions = np.full(layout.local.size, smoothness.parents)
        precisions[layout.cell_places] = smoothness.cells * (1 + layout.touching)
        families[layout.diagonal] += precisions
        families[layout.inside] -= smoothness.cells
        return np.concatenate([families, np.full(layout.apart.size, -smoothness.cells)])


@dataclass(frozen=True)
class Solved:
    """The effects that fit best, and what is needed for their covariances.

    factors: of the local effects' own precision. across: (places, border), what that leaves of the border's columns.
    spread: the covariance of the border. local: (places,), border: (border,), the effects.
    """

    system: System
    smoothness: Smoothness
    factors: Factored
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
        """Variances of local effects, (places,)."""
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
        """Multiplies the covariance of local effects with one another by columns; (places, n) each."""
        onward: Float64s = self.factors.solved(local) - self.mixed @ (self.across.T @ local)
        return onward

    def times(self, local: Float64s, border: Float64s) -> tuple[Float64s, Float64s]:
        """Multiplies the covariance by a vector, in its two parts."""
        alone = self.factors.solved(local[:, None])[:, 0]
        at_border = self.spread @ (border - self.across.T @ local)
        return alone - self.across @ at_border, at_border


def learned_smoothness(solved: Solved, effects: Float64s, default: Smoothness) -> Smoothness:
    """Takes one step of expectation-maximisation, with a Gamma prior that is worth six effects at the default."""
    layout, local = solved.system.layout, effects[solved.system.layout.local]
    variances = solved.variances
    one, other = layout.neighbours
    cells = effects[layout.design.cell_columns]
    cell_energy = float((1 + layout.touching) @ variances[layout.cell_places]) - 2 * solved.pairs
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
