"""Gaussian posterior of sparse local and dense border effects.

Sources: Rue and Held (2005), chapters 2 and 4; Papandreou and Yuille (2010) for posterior samples by perturbation;
Wood and Fasiolo (2017), equation 5, for the Fellner-Schall step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from dpops import fitted
from dpops.learning.effects import EffectLayout, EffectRows, Effects, Item, Regressors, Stack, Strengths
from dpops.learning.releases import DayValues, Groups
from dpops.types import Float64s, Int64s

EXACT = 1_500
"""Most effects with exact variances; of more, local ones are sampled."""
SAMPLES = 64
ROUGH_SAMPLES = 24
"""Samples of many effects for strengths alone, which pool them."""
_SAME = 1e-9
"""Tolerance of projections by which columns are multiples of one another."""
LARGEST_STEP = 10.0
"""A strength moves by at most this factor in a round, so that one that cannot be learned stays finite."""


class LinearData(NamedTuple):
    """Linear observations of variance 1; rows from `wide` on touch most cells."""

    rows: EffectRows
    values: Float64s
    precisions: Float64s
    wide: int

    @staticmethod
    def of(rows: EffectRows, values: Float64s, precisions: Float64s, wide: int) -> "LinearData":
        """Scales observations of these precisions, their rows in place."""
        rows.scale(np.sqrt(precisions))
        return LinearData(rows, np.sqrt(precisions) * values, precisions, wide)


class Posterior:
    """Gaussian posterior of effects.

    Local effects are eliminated by a sparse factor; border effects, and one unknown for each wide row, by the dense
    Schur complement that is left.

    Attributes:
        mean: posterior mean.
        samples: vectors around it, (effects, columns), whose mean of squares is the variance.
        border_covariance: (border, border), exact.
    """

    def __init__(
        self,
        layout: EffectLayout,
        strengths: Strengths,
        days: Sequence[float],
        data: LinearData,
        *,
        is_rough: bool = False,
    ) -> None:
        self.layout, self.strengths, self.days = layout, strengths, tuple(days)
        narrow, wide = data.rows[: data.wide], data.rows[data.wide :]
        # Block elimination of [[A, C E], [E'C', B]]: A of local effects, sparse; B of border effects and wide rows.
        self._prior = prior = layout.prior(strengths, days)
        self._border = len(prior.means)
        self._factor = _factored(prior.local.T @ prior.local + narrow.local.T @ narrow.local)
        square = narrow.border.T @ narrow.border + (prior.border.T @ prior.border).toarray()
        # Columns C without multiples of one another; E (`_expand`) restores all columns from them.
        first, self._expand = _distinct(_probes(narrow, wide))
        at_border, at_wide = np.split(first, [np.searchsorted(first, self._border)])
        of_wide = wide.local[at_wide - self._border].T.toarray()
        self._coupling = np.hstack([narrow.local.T @ narrow.border[:, at_border], of_wide])
        self._solved = np.ascontiguousarray(self._factor.solve(self._coupling))
        inner = self._expand.T @ (self._coupling.T @ self._solved) @ self._expand
        # A wide row's residual is an unknown of precision -1, so that its outer product does not fill A.
        corner = np.block([[square, wide.border.T], [wide.border, -np.eye(len(wide.border))]])
        self._schur: Float64s = np.linalg.inv(corner - inner)
        shift = data.rows.adjoint(data.values)
        self.mean = self.solve(shift._replace(border=shift.border + prior.border.T @ (prior.border @ prior.means)))
        self.border_covariance: Float64s = self._schur[: self._border, : self._border]
        is_small = len(self._coupling) <= EXACT
        if is_small and not is_rough:
            of_local = self._draw_exactly()
        else:
            of_local = self._draw(narrow, wide, SAMPLES if is_small or not is_rough else ROUGH_SAMPLES)
        of_border = prior.border.multiply(prior.border @ self.border_covariance).sum(axis=1)
        # By block, posterior over prior variance summed: effects that data do not inform.
        self._uninformed = np.bincount(prior.blocks, np.concatenate([of_local, np.ravel(of_border)]))

    def solve(self, shift: Effects) -> Effects:
        """Multiplies the covariance by vectors, (effects, ..)."""
        return self._with_border(self._factor.solve(shift.local), shift.border)

    def _with_border(self, local: Float64s, border: Float64s) -> Effects:
        """Solves for all effects; local: as solved without border, (local, ..), border: right-hand side."""
        pad = np.zeros((len(self._schur) - self._border, *border.shape[1:]))
        eliminated = self._expand.T @ (self._coupling.T @ local)
        at_border = self._schur @ (np.concatenate([border, pad]) - eliminated)
        return Effects(local - self._solved @ (self._expand @ at_border), at_border[: self._border])

    def _draw(self, narrow: EffectRows, wide: EffectRows, columns: int) -> Float64s:
        """Draws posterior samples, as `_draw_exactly`; `conditional` are given the border.

        Perturbation: random signs for each row of the prior and of data, whose adjoint has the precision as covariance,
        are solved for. Variances of the prior's rows by Hutchinson's (1990) estimator: exact where data tell nothing.
        """
        rng, prior = np.random.default_rng(1), self._prior
        local, border, of_narrow, of_wide = (
            1.0 - 2 * rng.integers(0, 2, (rows.shape[0], columns), np.int8)
            for rows in (prior.local, prior.border, narrow.local, wide.local)
        )
        shift = narrow.adjoint(of_narrow)
        del of_narrow  # a large city's memory
        self.conditional = np.ascontiguousarray(self._factor.solve(prior.local.T @ local + shift.local))
        at_local = self.conditional + self._solved @ (self._expand[:, self._border :] @ of_wide)
        at_border = prior.border.T @ border + shift.border + wide.adjoint(of_wide).border
        self.samples = self._with_border(at_local, at_border)
        return np.asarray(np.mean(local * (prior.local @ self.samples.local), axis=1))

    def _draw_exactly(self) -> Float64s:
        """Computes scaled roots of covariances (block inverse); returns variances of the prior's rows."""
        conditional = self._factor.solve(np.eye(len(self._coupling)))
        self.conditional = _root(conditional)
        shared = self._expand @ self._schur
        covariance = conditional + self._solved @ (shared @ self._expand.T) @ self._solved.T
        mixed = -self._solved @ shared[:, : self._border]
        root = _root(np.block([[covariance, mixed], [mixed.T, self.border_covariance]]))
        self.samples = Effects(root[: len(mixed)], root[len(mixed) :])
        return np.asarray(np.mean((self._prior.local @ self.samples.local) ** 2, axis=1))

    def variances_of_rows(self, rows: EffectRows) -> Float64s:
        """Computes variances of rows of effects; many by samples."""
        if len(rows.border) <= SAMPLES:
            return np.asarray(np.diagonal(rows.times(self.solve(rows.adjoint(np.eye(len(rows.border)))))))
        return np.asarray(np.mean(rows.times(self.samples) ** 2, axis=-1))

    def variances_of_hats(self, hours: Int64s, day: int | Int64s, regressors: Regressors | None = None) -> Float64s:
        """Computes variances of HATs' sums of effects, (cells, slots).

        A row r of local and b of border effects has the variance r A^-1 r' (sampled in large cities), plus that of the
        border in (b - r A^-1 C) S (..)', S the inverse Schur complement. Slots of the same local effects (`starts`) are
        computed at once; a regressor adds one more border effect to b. day: of all slots or of each.
        """
        layout, total, days = self.layout, np.empty((self.layout.cells, hours.size)), np.broadcast_to(day, hours.shape)
        at_border = layout.slot_rows(hours, days, len(self._schur))
        covariances, shared = at_border @ self._schur, self._expand @ self._schur
        inner, mixed = shared @ self._expand.T, shared @ at_border.T
        regressors = layout.known(hours) | dict(regressors or {})
        offsets = np.stack([layout.start(block, days) + block.slot_keys[hours] for block in layout.local])
        for starts in np.unique(offsets, axis=1).T:
            slots = np.flatnonzero((offsets == starts[:, None]).all(axis=0))
            rows = [start + block.cell_keys * block.slots for block, start in zip(layout.local, starts, strict=True)]
            samples, solved = (sum(table[row] for row in rows) for table in (self.conditional, self._solved))
            of_cells = np.mean(samples**2, axis=1) + np.einsum("ij,ij->i", solved @ inner, solved)
            total[:, slots] = of_cells[:, None] - 2 * solved @ mixed[:, slots]
            for block in layout.blocks:
                if block.regressor in regressors:
                    factor = regressors[block.regressor][:, slots]
                    entry = layout.index_of(block.name, int(days[slots[0]]))
                    total[:, slots] += 2 * factor * (covariances[slots, entry] - solved @ shared[:, [entry]])
                    total[:, slots] += factor**2 * self._schur[entry, entry]
        return np.asarray(np.maximum(total + np.sum(covariances * at_border, axis=1), 1e-9))

    def next_strengths(self, effects: Effects | None = None) -> dict[str, Float64s]:
        """Computes learned strengths: effective degrees of freedom over energy, a Fellner-Schall step.

        PRIOR_WORTH effects of the prior's precision are added to both. effects: where energies are taken; the posterior
        mean by default.
        """
        steps, rows = dict(self.strengths), self._prior.rows_times(self.mean if effects is None else effects)
        energies = np.bincount(self._prior.blocks, rows**2)  # times strengths
        for block, uninformed, energy in zip(self.layout.blocks, self._uninformed, energies, strict=True):
            if block.is_learned:
                strength = float(np.mean(self.strengths[block.name]))
                # Effects that data inform: all, less the prior's part of the posterior variance.
                freedom = max(block.size * (len(self.days) if block.is_daily else 1) - uninformed, 1e-3)
                step = (freedom + fitted.PRIOR_WORTH) / (energy / strength + fitted.PRIOR_WORTH / block.precision)
                steps[block.name] = np.array([np.clip(step, strength / LARGEST_STEP, strength * LARGEST_STEP)])
        return steps


def _probes(narrow: EffectRows, wide: EffectRows) -> Float64s:
    """Multiplies couplings by noise, (3, border and wide): multiples stay multiples."""
    noise = np.random.default_rng(2).normal(size=(narrow.local.shape[1], 3))
    return np.hstack([(narrow.local @ noise).T @ narrow.border, (wide.local @ noise).T])


def _distinct(probes: Float64s) -> tuple[Int64s, Float64s]:
    """Finds columns of which all are multiples, by probes, and the multiples, (distinct, columns)."""
    sizes = probes[0] + 1e-300  # ratios of a column's other probes to its first are equal for its multiples
    _, first, kinds = np.unique(np.round(probes[1:] / sizes / _SAME), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)  # np.unique sorts kinds by value; by first column those of the border stay in front
    coefficients = (order[:, None] == kinds.ravel()) * (sizes / sizes[first][kinds.ravel()])
    return first[order], coefficients


def _root(covariance: Float64s) -> Float64s:
    """Computes a covariance's Cholesky root, scaled: squares average to the variance."""
    stable = (covariance + covariance.T) / 2 + 1e-12 * np.diag(np.diag(covariance))
    return np.asarray(np.sqrt(len(covariance)) * np.linalg.cholesky(stable))


def _factored(precision: sparse.spmatrix) -> SuperLU:
    """Factors a sparse positive definite matrix, minimum degree order."""
    options = {"SymmetricMode": True}
    return splu(precision.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


@dataclass(frozen=True)
class NoisySums:
    """Noisy sums of one day's groups: weights, or weighted speeds around `centre`.

    values, variances: (groups,). centre: km/h, (cells, slots).
    """

    day: int
    groups: Groups
    values: Float64s
    variances: Float64s
    centre: Float64s


class LatentField:
    """Latent Gaussian field on some days.

    Attributes:
        strengths: precision of each block.
        posterior: of the last round.
    """

    def __init__(self, layout: EffectLayout, days: Sequence[DayValues], strengths: Strengths | None) -> None:
        self.layout, self.days = layout, tuple(days)
        prior = {block.name: np.array([block.precision]) for block in layout.blocks}
        self.strengths = prior if strengths is None else dict(strengths)

    def lay(
        self, sums: Sequence[NoisySums], regressors: tuple[str, ...] = (), wide_items: Sequence[Item] = ()
    ) -> list[NoisySums]:
        """Orders sums, wide last, and prepares their rows; `wide_items`: observed besides sums."""
        ordered = sorted(sums, key=lambda item: item.groups.is_wide)
        items = [Item(item.groups, self.days[item.day].hours, item.day, regressors) for item in ordered]
        self.stack = Stack(self.layout, [*items, *wide_items], len(self.days))
        self.wide = int(self.stack.starts[sum(not item.groups.is_wide for item in ordered)])
        return ordered

    def solve(self, data: LinearData, *, is_rough: bool) -> None:
        """Computes the posterior. is_rough: with few samples, for strengths alone."""
        self.__dict__.pop("posterior", None)  # two at once exceed a large city's memory
        counts = [day.count for day in self.days]
        self.posterior = Posterior(self.layout, self.strengths, counts, data, is_rough=is_rough)
