"""Gaussian posterior of sparse local and dense border effects.

Sources: Rue and Held (2005), chapters 2 and 4; Papandreou and Yuille (2010) for posterior samples by perturbation;
Wood and Fasiolo (2017), equation 5, for the Fellner-Schall step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import splu

from dpops import fitted
from dpops.learning.effects import EffectLayout, EffectRows, Effects, Item, Regressors, Stack, Strengths
from dpops.learning.releases import DayValues
from dpops.levels.stages import Groups
from dpops.types import Float64s, Int64s

EXACT = 1_500  # most effects with exact variances; of more, local ones are sampled
SAMPLES, ROUGH_SAMPLES = 64, 24  # of many effects' posterior: for variances; for strengths alone, which pool a block
BATCH = 8  # samples drawn at once, which bounds a large city's memory
_SAME = 1e-9  # tolerance of ratios by which columns are multiples of one another
LARGEST_STEP = 10.0  # most that a strength's factor is in a round, so that one that cannot be learned stays finite


class LinearData(NamedTuple):
    """Linear observations scaled to variance 1 by the roots of `precisions`, (rows,).

    values: (rows,). wide: first of the rows that touch most cells.
    """

    rows: EffectRows
    values: Float64s
    precisions: Float64s
    wide: int

    @staticmethod
    def of(rows: EffectRows, values: Float64s, precisions: Float64s, wide: int) -> "LinearData":
        """Scales observations to variance 1, their rows in place."""
        roots = np.sqrt(precisions)
        rows.local.data *= np.repeat(roots, np.diff(rows.local.indptr))
        rows.border[:] *= roots[:, None]
        return LinearData(rows, roots * values, precisions, wide)


class Posterior:
    """Gaussian posterior of effects, given linear data.

    Local effects are eliminated by a sparse factor. Border effects, and one unknown for each wide row, are then solved
    for by the inverse of the dense Schur complement. Wide rows touch most cells, so they would fill the sparse matrix.
    The precision is [[A, C E], [E'C', B]]: A of local effects, sparse; B of border effects and wide rows. No column
    of C (`_coupling`) is a multiple of another; E (`_expand`) restores all columns from them. `_factor` solves by A,
    `_solved` is A^-1 C, and `_schur` is S, the inverse of B - E'C' A^-1 C E.

    Attributes:
        mean: posterior mean.
        samples: deviations from it, (effects, samples), whose mean of squares is the variance.
        conditional: such deviations of local effects, given those of the border.
        border_covariance: (border, border), exact.
    """

    def __init__(
        self, layout: EffectLayout, strengths: Strengths, days: Sequence[float], data: LinearData, *, is_rough: bool
    ) -> None:
        self.layout, self.strengths, self.days = layout, strengths, tuple(days)  # `DayValues.count` by day
        narrow, wide = data.rows[: data.wide], data.rows[data.wide :]
        # The precision matrix is [[A, C E], [E'C', B]]: A of local effects, sparse; B of border effects and wide rows.
        self._prior = prior = layout.prior(strengths, days)
        self._border = len(prior.means)  # number of border effects
        local = prior.local.T @ prior.local + narrow.local.T @ narrow.local  # A, definite: no pivots are needed
        self._factor = splu(local.tocsc(), "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        of_border = narrow.border.T @ narrow.border + (prior.border.T @ prior.border).toarray()
        distinct, self._expand = _distinct_columns(narrow, wide)  # indices of columns: of the border, then wide rows
        at_border, at_wide = np.split(distinct, [np.searchsorted(distinct, self._border)])
        from_wide = wide.local[at_wide - self._border].T.toarray()
        self._coupling = np.hstack([narrow.local.T @ narrow.border[:, at_border], from_wide])
        self._solved = np.ascontiguousarray(self._factor.solve(self._coupling))  # A^-1 C
        eliminated = self._expand.T @ (self._coupling.T @ self._solved) @ self._expand
        # A wide row w adds w'w to the precision, by an unknown w x of precision -1: w stays in C and B, out of A.
        corner = np.block([[of_border, wide.border.T], [wide.border, -np.eye(len(wide.border))]])
        self._schur: Float64s = np.linalg.inv(corner - eliminated)  # S, the inverse Schur complement
        shift = data.rows.adjoint(data.values)  # prior means are 0 but at the border
        self.mean = self.solve(shift._replace(border=shift.border + prior.border.T @ (prior.border @ prior.means)))
        self.border_covariance: Float64s = self._schur[: self._border, : self._border]
        is_small = len(self._coupling) <= EXACT  # exact variances are affordable
        if is_small and not is_rough:  # a rough one, for strengths alone, has few samples
            local_variances = self._draw_exactly()
        else:
            local_variances = self._draw(narrow, wide, SAMPLES if is_small or not is_rough else ROUGH_SAMPLES)
        border_variances = prior.border.multiply(prior.border @ self.border_covariance).sum(axis=1)
        # Rows of the prior have prior variance 1, so by block posterior variances count effects data do not inform.
        self._uninformed = np.bincount(prior.blocks, np.concatenate([local_variances, np.ravel(border_variances)]))

    def solve(self, shift: Effects) -> Effects:
        """Multiplies the covariance by vectors, (effects, ..)."""
        return self._back_substituted(self._factor.solve(shift.local), shift.border)

    def _back_substituted(self, local: Float64s, border: Float64s) -> Effects:
        """Completes a solution by block elimination; C, E, S: `_coupling`, `_expand`, `_schur`.

        local: l = A^-1 times its right-hand side. border: its right-hand side b, 0 for wide rows. The solution is
        x = S (b - E'C'l) at the border, and l - A^-1 C E x, with A^-1 C in `_solved`.
        """
        pad = np.zeros((len(self._schur) - self._border, *border.shape[1:]))  # of wide rows
        eliminated = self._expand.T @ (self._coupling.T @ local)
        at_border = self._schur @ (np.concatenate([border, pad]) - eliminated)
        return Effects(local - self._solved @ (self._expand @ at_border), at_border[: self._border])

    def _draw(self, narrow: EffectRows, wide: EffectRows, columns: int) -> Float64s:
        """Draws so many `samples` and `conditional`; returns posterior variances of the prior's local rows.

        Perturbation: the adjoint of random signs, one for each row of the prior and of data, has the precision as
        covariance; times the covariance it is a sample. Hutchinson's (1990) estimator multiplies the prior's rows of
        samples by the rows' signs: without data they agree, and the variance is exact. narrow, wide: rows of data.
        """
        rng, prior = np.random.default_rng(1), self._prior  # a fixed seed: estimates repeat exactly
        signs = [  # bits, (rows, columns)
            rng.integers(0, 2, (rows.shape[0], columns), np.int8)
            for rows in (prior.local, prior.border, narrow.local, wide.local)
        ]
        variances = np.zeros(prior.local.shape[0])
        self.conditional = np.empty((len(self._coupling), columns))
        self.samples = Effects(np.empty_like(self.conditional), np.empty((self._border, columns)))
        for batch in (slice(start, start + BATCH) for start in range(0, columns, BATCH)):
            local, border, of_narrow, of_wide = (1.0 - 2 * drawn[:, batch] for drawn in signs)  # +1 or -1
            shift = narrow.adjoint(of_narrow)
            conditional = self._factor.solve(prior.local.T @ local + shift.local)
            # Local parts of wide rows are C times E's columns after the border's, and `_solved` is A^-1 C.
            at_local = conditional + self._solved @ (self._expand[:, self._border :] @ of_wide)
            at_border = prior.border.T @ border + shift.border + wide.adjoint(of_wide).border
            samples = self._back_substituted(at_local, at_border)
            variances += np.sum(local * (prior.local @ samples.local), axis=1) / columns
            self.conditional[:, batch] = conditional
            self.samples.local[:, batch], self.samples.border[:, batch] = samples
        return variances

    def _draw_exactly(self) -> Float64s:
        """Computes roots of covariances as `samples` and `conditional`.

        With A, C, E, S as in `_back_substituted` the covariance is A^-1 + A^-1 C E S E' C' A^-1 of local effects, S of
        border effects, and -A^-1 C E S between them. Returns posterior variances of the prior's local rows.
        """
        conditional = self._factor.solve(np.eye(len(self._coupling)))  # A^-1
        self.conditional = _root(conditional)
        shared = self._expand @ self._schur
        covariance = conditional + self._solved @ (shared @ self._expand.T) @ self._solved.T
        cross = -self._solved @ shared[:, : self._border]
        root = _root(np.block([[covariance, cross], [cross.T, self.border_covariance]]))
        self.samples = Effects(root[: len(cross)], root[len(cross) :])
        return np.asarray(np.mean((self._prior.local @ self.samples.local) ** 2, axis=1))

    def variances_of_rows(self, rows: EffectRows) -> Float64s:
        """Computes variances of rows of effects, (rows,); by samples if they are cheaper."""
        if len(rows.border) <= SAMPLES:
            return np.asarray(np.diagonal(rows.times(self.solve(rows.adjoint(np.eye(len(rows.border)))))))
        return np.asarray(np.mean(rows.times(self.samples) ** 2, axis=-1))

    def variances_of_hats(self, hours: Int64s, day: int | Int64s, regressors: Regressors | None = None) -> Float64s:
        """Computes variances of HATs' sums of effects, (cells, slots).

        A HAT sums local effects by r and border effects by b. Its variance is r A^-1 r', of `conditional`, plus that of
        the border, d S d' with d = b - r A^-1 C E (symbols: see the class), multiplied out below. Slots with
        the same local effects (`starts`) are computed at once. day: of all slots, or of each.
        """
        layout, total, days = self.layout, np.empty((self.layout.cells, hours.size)), np.broadcast_to(day, hours.shape)
        at_border = layout.slot_rows(hours, days, len(self._schur))  # b without regressors, (slots, border)
        covariances, shared = at_border @ self._schur, self._expand @ self._schur  # b S, E S
        inner, mixed = shared @ self._expand.T, shared @ at_border.T  # E S E', E S b'
        regressors = layout.known(hours) | dict(regressors or {})
        # First local effect of each block in a slot: a cell's is `cell_keys * slots` further on.
        offsets = np.stack([layout.start(block, days) + block.slot_keys[hours] for block in layout.local])
        for starts in np.unique(offsets, axis=1).T:
            slots = np.flatnonzero((offsets == starts[:, None]).all(axis=0))
            rows = [start + block.cell_keys * block.slots for block, start in zip(layout.local, starts, strict=True)]
            samples, solved = (sum(table[row] for row in rows) for table in (self.conditional, self._solved))
            of_cells = np.mean(samples**2, axis=1) + np.einsum("ij,ij->i", solved @ inner, solved)
            total[:, slots] = of_cells[:, None] - 2 * solved @ mixed[:, slots]
            for block in layout.blocks:
                if block.regressor in regressors:  # one lasting block at most: b has the factor at its only effect
                    factor = regressors[block.regressor][:, slots]
                    entry = layout.index_of(block.name)
                    total[:, slots] += 2 * factor * (covariances[slots, entry] - solved @ shared[:, [entry]])
                    total[:, slots] += factor**2 * self._schur[entry, entry]
        return np.asarray(np.maximum(total + np.sum(covariances * at_border, axis=1), 1e-9))  # rounding: above 0

    def next_strengths(self, effects: Effects | None = None) -> dict[str, Float64s]:
        """Learns strengths: effective degrees of freedom over energy, a Fellner-Schall step.

        The energy is the sum of squares of a block's effects over their prior variances at strength 1. PRIOR_WORTH
        effects of strength `block.precision`, the prior's, are added to both. effects: whose energy; else the mean's.
        """
        strengths = dict(self.strengths)
        normalized = self._prior.rows_times(self.mean if effects is None else effects)  # of prior variance 1, by row
        scaled_energies = np.bincount(self._prior.blocks, normalized**2)  # by block: strength times energy
        # uninformed: how many of a block's effects data do not inform, a sum of ratios of posterior to prior variance.
        for block, uninformed, scaled_energy in zip(self.layout.blocks, self._uninformed, scaled_energies, strict=True):
            if block.is_learned:
                strength = float(np.mean(self.strengths[block.name]))  # an array of one number, of all days
                energy = scaled_energy / strength
                effect_count = block.size * (len(self.days) if block.is_daily else 1)
                freedom = max(effect_count - uninformed, 1e-3)  # effects that data inform; samples may make it negative
                target = (freedom + fitted.PRIOR_WORTH) / (energy + fitted.PRIOR_WORTH / block.precision)
                strengths[block.name] = np.array([np.clip(target, strength / LARGEST_STEP, strength * LARGEST_STEP)])
        return strengths


def _distinct_columns(narrow: EffectRows, wide: EffectRows) -> tuple[Int64s, Float64s]:
    """Finds distinct columns, by index, and all as multiples of them, (distinct, columns).

    Columns couple local effects with border effects, by the narrow rows, and with wide rows. They are multiples of one
    another if ratios of 3 random projections are equal.
    """
    noise = np.random.default_rng(2).normal(size=(narrow.local.shape[1], 3))
    probes = np.hstack([(narrow.local @ noise).T @ narrow.border, (wide.local @ noise).T])
    sizes = probes[0] + 1e-300  # never divided by 0
    _, first, kinds = np.unique(np.round(probes[1:] / sizes / _SAME), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)  # np.unique sorts kinds by value; by first column those of the border stay in front
    coefficients = (order[:, None] == kinds.ravel()) * (sizes / sizes[first][kinds.ravel()])
    return first[order], coefficients


def _root(covariance: Float64s) -> Float64s:
    """Computes a covariance's Cholesky root, scaled: squares in a row average to the variance."""
    stable = (covariance + covariance.T) / 2 + 1e-12 * np.diag(np.diag(covariance))  # definite in spite of rounding
    return np.asarray(np.sqrt(len(covariance)) * np.linalg.cholesky(stable))


@dataclass(frozen=True)
class NoisySums:
    """Noisy sums over a day's groups: weights, or weights times (speed - centre).

    day: index in the days of the fields. values, variances of noise: (groups,). centre: km/h, (cells, slots).
    """

    day: int
    groups: Groups
    values: Float64s
    variances: Float64s
    centre: Float64s


class LatentField:
    """Latent Gaussian field on some days: sums of effects by HAT.

    Attributes:
        strengths: precision of each block's effects, learned.
        posterior: of effects, of the last round.
        stack: rows of the observations; those from `wide` on touch most cells.
    """

    def __init__(self, layout: EffectLayout, days: Sequence[DayValues], strengths: Strengths | None) -> None:
        self.layout, self.days = layout, tuple(days)
        prior = {block.name: np.array([block.precision]) for block in layout.blocks}
        self.strengths = prior if strengths is None else dict(strengths)

    def stack_rows(
        self, sums: Sequence[NoisySums], regressors: tuple[str, ...] = (), wide_items: Sequence[Item] = ()
    ) -> list[NoisySums]:
        """Prepares `stack`; returns sums in its order, wide last. wide_items: rows after sums'."""
        ordered = sorted(sums, key=lambda item: item.groups.is_wide)
        items = [Item(item.groups, self.days[item.day].hours, item.day, regressors) for item in ordered]
        self.stack = Stack(self.layout, [*items, *wide_items], len(self.days))
        self.wide = int(self.stack.starts[sum(not item.groups.is_wide for item in ordered)])  # first row of a wide item
        return ordered

    def solve(self, data: LinearData, *, is_rough: bool) -> None:
        """Computes the posterior from data. is_rough: with few samples, for strengths alone."""
        self.__dict__.pop("posterior", None)  # two at once exceed a large city's memory
        counts = [day.count for day in self.days]
        self.posterior = Posterior(self.layout, self.strengths, counts, data, is_rough=is_rough)

    def rows(
        self, groups: Groups, hours: Int64s, day: int, hats: Float64s, regressors: Regressors | None = None
    ) -> EffectRows:
        """Builds a day's rows of groups' sums; hats: HATs' weights, (cells, slots)."""
        item = Item(groups, hours, day, tuple(regressors or ()))  # day: index in `days`; regressors by name
        stack = Stack(self.layout, [item], len(self.days))  # columns: effects of all days; without weights so far
        return stack([hats], [regressors or {}])

    def group_variances(
        self, groups: Groups, hours: Int64s, day: int, hats: Float64s, regressors: Regressors | None = None
    ) -> Float64s:
        """Computes posterior variances of the sums of `rows`, (cell groups, slot groups)."""
        variances = self.posterior.variances_of_rows(self.rows(groups, hours, day, hats, regressors))
        return variances.reshape(groups.shape)
