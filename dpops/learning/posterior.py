"""Posterior of a latent Gaussian field: sparse local effects, a dense border, and strengths learned by REML.

Sources: Rue and Held (2005), chapters 2 and 4; Papandreou and Yuille (2010) for posterior samples by perturbation;
Wood and Fasiolo (2017), equation 5, for the Fellner-Schall step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from dpops import fitted
from dpops.learning.effects import Block, EffectLayout, EffectRows, Effects, Strengths
from dpops.types import Float64s, Int64s

EXACT = 1_500
"""Fewer effects than this have exact variances; of more, local ones come of samples."""
SAMPLES = 64
ROUGH_SAMPLES = 24
"""For strengths alone, which pool hundreds of effects."""
LARGEST_STEP = 10.0
"""A strength moves by at most this factor in a round, so that one that cannot be learned stays finite."""


@dataclass(frozen=True)
class LinearData:
    """Linear observations of effects.

    Attributes:
        rows: of effects; those from `wide` on touch most cells.
        values, precisions: (rows,).
    """

    rows: EffectRows
    values: Float64s
    precisions: Float64s
    wide: int


class _CellTerms(NamedTuple):
    """What a day's local effects add to variances of its HATs.

    Attributes:
        varying: the block whose effect changes over slots.
        pulls: of cells by border effects, (cells, border and wide rows).
        pulled: the same times the Schur inverse.
        samples: of cells, given the border, (cells, columns).
        parts: of each key of the varying block, variances (cells,) and products with the Schur inverse.
    """

    varying: Block
    pulls: Float64s
    pulled: Float64s
    samples: Float64s
    parts: dict[int, tuple[Float64s, Float64s]]


class Posterior:
    """Gaussian posterior of effects.

    Local effects are eliminated by a sparse factor; border effects, and one unknown for each wide row, by the dense
    Schur complement that is left.

    Attributes:
        mean: posterior mean.
        samples: vectors around it, (effects, columns), whose mean of squares is the variance.
        border_covariance: (border, border). mixed_covariance: (local, border). Both exact.
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
        prior, root = layout.prior(strengths, days), np.sqrt(data.precisions)
        local, border = (_scaled(part, root) for part in data.rows)
        narrow, wide = local[: data.wide], local[data.wide :]
        at_border, wide_at_border = border[: data.wide], border[data.wide :].toarray()
        self._border = len(prior.border)
        self._factor = _factored(prior.local + narrow.T @ narrow)
        self._edge = np.concatenate([(narrow.T @ at_border).toarray(), wide.toarray().T], axis=1)
        self._solved_edge = self._factor.solve(self._edge)
        prior_border = prior.border + (at_border.T @ at_border).toarray()
        corner = np.block([[prior_border, wide_at_border.T], [wide_at_border, -np.eye(len(wide_at_border))]])
        self._schur: Float64s = np.linalg.inv(corner - self._edge.T @ self._solved_edge)
        weighted = root * data.values
        self.mean = self.solve(Effects(local.T @ weighted, prior.shift + border.T @ weighted))
        self.border_covariance: Float64s = self._schur[: self._border, : self._border]
        self.mixed_covariance: Float64s = -self._solved_edge @ self._schur[:, : self._border]
        self._memory: dict[int, _CellTerms] = {}
        self._drawn: Float64s | None = None
        if len(self._edge) <= EXACT and not is_rough:
            self.samples = self._exact_root()
        else:
            columns = ROUGH_SAMPLES if is_rough else SAMPLES
            noise = np.random.default_rng(1).normal(size=(data.values.size, columns))
            drawn = layout.prior_draws(strengths, days, columns)
            self._drawn = drawn.local + narrow.T @ noise[: data.wide]
            self.samples = self.solve(Effects(drawn.local + local.T @ noise, drawn.border + border.T @ noise))

    def solve(self, shift: Effects) -> Effects:
        """Multiplies the covariance by vectors, (effects, ..)."""
        local = self._factor.solve(shift.local)
        pad = np.zeros((len(self._schur) - self._border, *shift.border.shape[1:]))
        at_border = self._schur @ (np.concatenate([shift.border, pad]) - self._edge.T @ local)
        return Effects(local - self._solved_edge @ at_border, at_border[: self._border])

    @cached_property
    def conditional(self) -> Float64s:
        """Samples of local effects, given those of the border."""
        if self._drawn is None:
            return _root(self._factor.solve(np.eye(len(self._edge))))
        return np.asarray(self._factor.solve(self._drawn))

    def _exact_root(self) -> Effects:
        """Computes a root of the covariance, scaled as samples are."""
        covariance = self._factor.solve(np.eye(len(self._edge))) + self._solved_edge @ self._schur @ self._solved_edge.T
        mixed = self.mixed_covariance
        root = _root(np.block([[covariance, mixed], [mixed.T, self.border_covariance]]))
        return Effects(root[: len(mixed)], root[len(mixed) :])

    def variances_of_rows(self, rows: EffectRows) -> Float64s:
        """Computes the variances of rows times effects, (rows,), by samples."""
        values = rows.local @ self.samples.local + rows.border @ self.samples.border
        variances: Float64s = np.mean(np.asarray(values) ** 2, axis=-1)
        return variances

    def variances_of_hats(self, hours: Int64s, day: int, regressors: Mapping[str, Float64s] | None = None) -> Float64s:
        """Computes variances of HATs' sums of effects, (cells, slots).

        Exact but for what local effects vary by where the border is given: that part comes of samples. day,
        regressors: as in `EffectLayout.hats`.
        """
        layout, terms = self.layout, self._terms(day)
        local = [block for block in layout.blocks if not block.is_border]
        at_border = np.zeros((hours.size, len(self._schur)))
        for block in layout.blocks:
            keys = block.slot_keys(hours)
            if block.is_border and block.regressor is None:
                present = np.flatnonzero(keys >= 0)
                at_border[present, layout.span(block, day).start + keys[present]] = 1
        total = np.sum((at_border @ self._schur) * at_border, axis=1) + 2 * terms.pulled @ at_border.T
        varying = terms.varying
        keys = varying.slot_keys(hours)
        for key in np.unique(keys):
            chosen = np.flatnonzero(keys == key)
            if key not in terms.parts:
                terms.parts[key] = self._part(
                    terms, layout.span(varying, day).start + varying.cell_keys * varying.slots + key
                )
            of_cells, pulled = terms.parts[key]
            total[:, chosen] += of_cells[:, None] + 2 * pulled @ at_border[chosen].T
        for block in layout.blocks:
            if block.regressor is not None and regressors is not None and block.regressor in regressors:
                factor, place = regressors[block.regressor], layout.span(block, day).start
                column = self.mixed_covariance[:, place]
                shared = np.sum([other.of_hats(column[layout.span(other, day)], hours) for other in local], axis=0)
                total += 2 * factor * (shared + at_border[:, : self._border] @ self.border_covariance[:, place])
                total += factor**2 * self.border_covariance[place, place]
        variances: Float64s = np.maximum(total, 1e-9)
        return variances

    def _terms(self, day: int) -> "_CellTerms":
        """Computes what local effects that do not change over slots add to variances; once for days that share it."""
        local = [block for block in self.layout.blocks if not block.is_border]
        key = day if any(block.is_daily for block in local) else 0
        if key not in self._memory:
            (varying,) = (block for block in local if block.slots > 1)
            pulls, samples = (
                np.sum([self._of_cells(table, block, day) for block in local if block is not varying], axis=0)
                for table in (-self._solved_edge, self.conditional)
            )
            self._memory[key] = _CellTerms(varying, pulls, pulls @ self._schur, samples, {})
        return self._memory[key]

    def _part(self, terms: "_CellTerms", places: Int64s) -> tuple[Float64s, Float64s]:
        """Computes variances of cells' local effects in some slots, and their products with the Schur inverse."""
        moved = -self._solved_edge[places]
        pulled = moved @ self._schur
        drawn = np.mean((terms.samples + self.conditional[places]) ** 2, axis=1)
        shared = np.sum((terms.pulled + 2 * pulled) * terms.pulls + pulled * moved, axis=1)
        return drawn + shared, pulled

    def _of_cells(self, table: Float64s, block: Block, day: int) -> Float64s:
        """Gives each cell its row of a table of local effects, (cells, columns)."""
        return table[self.layout.span(block, day)][block.cell_keys]

    def stronger(self, effects: Effects | None = None) -> dict[str, Float64s]:
        """Takes a Fellner-Schall step of each learned strength, whose fixed point is that of REML.

        effects: where energies are taken; the posterior mean by default.
        """
        steps = dict(self.strengths)
        for block in self.layout.blocks:
            if block.is_learned:
                steps[block.name] = self._step(block, self.mean if effects is None else effects)
        return steps

    def _step(self, block: Block, effects: Effects) -> Float64s:
        days = self.days if block.is_daily else (1,)
        trace = energy = 0.0
        for day, count in enumerate(days):
            values = self.layout.part(effects, block, day)
            energy += count * float(values @ (block.structure @ values))
            if block.is_border:
                span = self.layout.span(block, day)
                trace += count * float(np.sum(block.structure.multiply(self.border_covariance[span, span])))
            else:
                samples = self.layout.part(self.samples, block, day)
                trace += count * float(np.mean(np.sum(samples * (block.structure @ samples), axis=0)))
        strength = float(np.mean(self.strengths[block.name]))
        freedom = max(block.size * len(days) - strength * trace, 1e-3)
        step = (freedom + fitted.PRIOR_WORTH) / (energy + fitted.PRIOR_WORTH / block.precision)
        return np.array([np.clip(step, strength / LARGEST_STEP, strength * LARGEST_STEP)])


def _scaled(rows: sparse.csr_matrix, factors: Float64s) -> sparse.csr_matrix:
    """Multiplies each row by its factor."""
    values = rows.data * np.repeat(factors, np.diff(rows.indptr))
    return sparse.csr_matrix((values, rows.indices, rows.indptr), rows.shape)


def _root(covariance: Float64s) -> Float64s:
    """Computes a root of a covariance, whose mean of squares is the variance."""
    stable = (covariance + covariance.T) / 2 + 1e-12 * np.diag(np.diag(covariance))
    return np.asarray(np.sqrt(len(covariance)) * np.linalg.cholesky(stable))


def _factored(precision: sparse.spmatrix) -> SuperLU:
    """Factors a symmetric positive definite sparse matrix, in an order of minimal degree."""
    options = {"SymmetricMode": True}
    return splu(precision.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
