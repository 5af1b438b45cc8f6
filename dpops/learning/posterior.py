"""Posterior of a latent Gaussian field: sparse local effects, a dense border, and strengths learned by REML.

Sources: Rue and Held (2005), chapters 2 and 4; Papandreou and Yuille (2010) for posterior samples by perturbation;
Wood and Fasiolo (2017), equation 5, for the Fellner-Schall step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from dpops import fitted
from dpops.learning.effects import Block, EffectLayout, EffectRows, Effects, Strengths
from dpops.learning.releases import HABITS
from dpops.types import Float64s, Int64s

EXACT = 1_500
"""Fewer effects than this have exact variances; of more, local ones come of samples."""
SAMPLES = 64
ROUGH_SAMPLES = 24
"""For strengths alone, which pool hundreds of effects."""
_SAME = 1e-9
"""Columns whose means of normal draws are so near are multiples of one another."""
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


class Posterior:
    """Gaussian posterior of effects.

    Local effects are eliminated by a sparse factor; border effects, and one unknown for each wide row, by the dense
    Schur complement that is left. What couples both is a product: few pulling vectors of local effects, since hours of
    a part of the day pull alike, times their coefficients.

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
        prior, root = layout.prior(strengths, days), np.sqrt(data.precisions)
        rows = data.rows.scaled(root)
        narrow, wide = rows[: data.wide], rows[data.wide :]
        self._border = len(prior.border)
        self._factor = _factored(prior.local + narrow.local.T @ narrow.local)
        self._couple(narrow, wide)
        self._solved_pulls = self._factor.solve(self._pulls)
        wide_at_border = (wide.hourly @ wide.incidence + wide.regressed).toarray()
        corner = np.block(
            [
                [prior.border + narrow.border_square(), wide_at_border.T],
                [wide_at_border, -np.eye(len(wide_at_border))],
            ]
        )
        inner = self._pulls.T @ self._solved_pulls
        self._schur: Float64s = np.linalg.inv(corner - self._coefficients.T @ inner @ self._coefficients)
        shift = rows.adjoint(root * data.values)
        self.mean = self.solve(Effects(shift.local, prior.shift + shift.border))
        self.border_covariance: Float64s = self._schur[: self._border, : self._border]
        if len(self._pulls) <= EXACT and not is_rough:
            self._draw_exactly()
        else:
            self._draw(narrow, wide, ROUGH_SAMPLES if is_rough else SAMPLES)

    def _couple(self, narrow: EffectRows, wide: EffectRows) -> None:
        """Factors what couples local effects with border ones and wide rows into vectors and coefficients."""
        hourly, hours = _directions(narrow.local, narrow.hourly)
        of_wide, rows = _directions(wide.local, sparse.identity(wide.local.shape[0], format="csr"))
        regressed = narrow.local.T @ narrow.regressed
        places = np.flatnonzero(np.diff(regressed.tocsc().indptr))
        self._pulls = np.concatenate([hourly, regressed[:, places].toarray(), of_wide], axis=1)
        coefficients = np.zeros((self._pulls.shape[1], self._border + len(rows.T)))
        first, last = hours.shape[0], hours.shape[0] + places.size
        coefficients[:first, : self._border] = hours @ narrow.incidence
        coefficients[np.arange(first, last), places] = 1
        coefficients[last:, self._border :] = rows
        self._coefficients, self._wide_coefficients, self._of_wide = coefficients, rows, slice(last, None)

    def solve(self, shift: Effects) -> Effects:
        """Multiplies the covariance by vectors, (effects, ..)."""
        return self._with_border(self._factor.solve(shift.local), shift.border)

    def _with_border(self, local: Float64s, border: Float64s) -> Effects:
        """Solves for all effects, given what local ones would be without the border."""
        pad = np.zeros((len(self._schur) - self._border, *border.shape[1:]))
        pulled = self._coefficients.T @ (self._pulls.T @ local)
        at_border = self._schur @ (np.concatenate([border, pad]) - pulled)
        return Effects(local - self._solved_pulls @ (self._coefficients @ at_border), at_border[: self._border])

    def _draw(self, narrow: EffectRows, wide: EffectRows, columns: int) -> None:
        """Draws samples by perturbation."""
        noise = np.random.default_rng(1).normal(size=(narrow.local.shape[0] + wide.local.shape[0], columns))
        of_narrow, of_wide = noise[: narrow.local.shape[0]], noise[narrow.local.shape[0] :]
        drawn, shift = self.layout.prior_draws(self.strengths, self.days, columns), narrow.adjoint(of_narrow)
        local = np.asarray(self._factor.solve(drawn.local + shift.local))
        local += self._solved_pulls[:, self._of_wide] @ (self._wide_coefficients @ of_wide)
        border = drawn.border + shift.border + wide.adjoint(of_wide).border
        self.samples = self._with_border(local, border)

    def _draw_exactly(self) -> None:
        """Computes roots of covariances, scaled as samples are."""
        conditional = self._factor.solve(np.eye(len(self._pulls)))
        pulls = self._solved_pulls
        covariance = conditional + pulls @ (self._coefficients @ self._schur @ self._coefficients.T) @ pulls.T
        mixed = -pulls @ (self._coefficients @ self._schur[:, : self._border])
        root = _root(np.block([[covariance, mixed], [mixed.T, self.border_covariance]]))
        self.samples = Effects(root[: len(mixed)], root[len(mixed) :])

    def variances_of_rows(self, rows: EffectRows) -> Float64s:
        """Computes the variances of rows times effects, (rows,), by samples."""
        variances: Float64s = np.mean(rows.times(self.samples) ** 2, axis=-1)
        return variances

    def variances_of_hats(self, hours: Int64s, day: int, regressors: Mapping[str, Float64s] | None = None) -> Float64s:
        """Computes variances of HATs' sums of effects, (cells, slots), by samples. Arguments as `EffectLayout.hats`."""
        layout, samples = self.layout, Effects(*(part / np.sqrt(part.shape[1]) for part in self.samples))
        places = layout.incidence([None] * day + [hours])[day * HABITS + hours]
        at_border = np.asarray(places @ samples.border[: places.shape[1]])
        (varying,) = (block for block in layout.local if block.slots > 1)
        lasting = [block for block in layout.local if block.slots == 1]
        fixed = sum(layout.part(samples, block, day)[block.cell_keys] for block in lasting)
        of_parts = layout.part(samples, varying, day)
        of_regressors = [
            (regressors[block.regressor], layout.part(samples, block, day)[0])
            for block in layout.blocks
            if block.regressor is not None and regressors is not None and block.regressor in regressors
        ]
        total = np.empty((varying.cell_keys.size, hours.size))
        keys = varying.slot_keys(hours)
        for key in np.unique(keys):
            chosen = np.flatnonzero(keys == key)
            local, border = fixed + of_parts[varying.cell_keys * varying.slots + key], at_border[chosen]
            squares = np.sum(local**2, axis=1)[:, None] + np.sum(border**2, axis=1)
            total[:, chosen] = squares + 2 * local @ border.T
            for factor, effect in of_regressors:
                shared = (local @ effect)[:, None] + border @ effect
                total[:, chosen] += factor[:, chosen] * (2 * shared + factor[:, chosen] * (effect @ effect))
        variances: Float64s = np.maximum(total, 1e-9)
        return variances

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


def _directions(left: sparse.csr_matrix, right: sparse.csr_matrix) -> tuple[Float64s, Float64s]:
    """Writes the positive columns of left' right as few vectors times coefficients: multiples share a vector."""
    sums = right.T @ np.asarray(left.sum(axis=1)).ravel()
    used = np.flatnonzero(sums > 0)
    probes = np.random.default_rng(2).normal(size=(left.shape[1], 2))
    means = (right.T @ (left @ probes))[used] / sums[used, None]
    _, of_vector = np.unique(np.round(means / _SAME), axis=0, return_inverse=True)
    of_vector = of_vector.ravel()
    count = int(of_vector.max(initial=-1)) + 1
    members = sparse.csr_matrix((np.ones(used.size), (used, of_vector)), (right.shape[1], count))
    coefficients = np.zeros((count, right.shape[1]))
    coefficients[of_vector, used] = sums[used] / np.bincount(of_vector, sums[used], count)[of_vector]
    return np.asarray((left.T @ (right @ members)).toarray()), coefficients


def _root(covariance: Float64s) -> Float64s:
    """Computes a root of a covariance, whose mean of squares is the variance."""
    stable = (covariance + covariance.T) / 2 + 1e-12 * np.diag(np.diag(covariance))
    return np.asarray(np.sqrt(len(covariance)) * np.linalg.cholesky(stable))


def _factored(precision: sparse.spmatrix) -> SuperLU:
    """Factors a symmetric positive definite sparse matrix, in an order of minimal degree."""
    options = {"SymmetricMode": True}
    return splu(precision.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
