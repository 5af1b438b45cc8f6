"""Gaussian posterior of sparse local and dense border effects.

Sources: Rue and Held (2005), chapters 2 and 4; Papandreou and Yuille (2010) for posterior samples by perturbation;
Wood and Fasiolo (2017), equation 5, for the Fellner-Schall step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from dpops import fitted
from dpops.learning.effects import Block, EffectLayout, EffectRows, Effects, Item, Stack, Strengths
from dpops.learning.releases import DayValues, Groups
from dpops.types import Float64s, Int64s

EXACT = 1_500
"""Most effects with exact variances; of more, local ones are sampled."""
SAMPLES = 64
ROUGH_SAMPLES = 24
"""Samples for strengths alone, which pool hundreds of effects."""
_SAME = 1e-9
"""Tolerance of projections by which columns are multiples of one another."""
LARGEST_STEP = 10.0
"""A strength moves by at most this factor in a round, so that one that cannot be learned stays finite."""


@dataclass(frozen=True)
class LinearData:
    """Linear observations; rows from `wide` on touch most cells."""

    rows: EffectRows
    values: Float64s
    precisions: Float64s
    wide: int


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
        prior, root = layout.prior(strengths, days), np.sqrt(data.precisions)
        rows = data.rows.scaled(root)
        narrow, wide = rows[: data.wide], rows[data.wide :]
        self._border = len(prior.border)
        self._factor = _factored(prior.local + narrow.local.T @ narrow.local)
        at_border = narrow.border.toarray()  # few columns: the product of dense ones is faster, if larger for a while
        square = prior.border + at_border.T @ at_border
        del at_border
        self._coupling, self._expand = _distinct(
            sparse.hstack([narrow.local.T @ narrow.border, wide.local.T]).toarray()
        )
        self._solved = self._factor.solve(self._coupling)
        inner = self._expand.T @ (self._coupling.T @ self._solved) @ self._expand
        of_wide = wide.border.toarray()
        corner = np.block([[square, of_wide.T], [of_wide, -np.eye(len(of_wide))]])
        self._schur: Float64s = np.linalg.inv(corner - inner)
        shift = rows.adjoint(root * data.values)
        self.mean = self.solve(Effects(shift.local, prior.shift + shift.border))
        self.border_covariance: Float64s = self._schur[: self._border, : self._border]
        if len(self._coupling) <= EXACT and not is_rough:
            self._draw_exactly()
        else:
            self._draw(narrow, wide, ROUGH_SAMPLES if is_rough else SAMPLES)

    def solve(self, shift: Effects) -> Effects:
        """Multiplies the covariance by vectors, (effects, ..)."""
        return self._with_border(self._factor.solve(shift.local), shift.border)

    def _with_border(self, local: Float64s, border: Float64s) -> Effects:
        """Solves for all effects from local ones without border."""
        pad = np.zeros((len(self._schur) - self._border, *border.shape[1:]))
        pulled = self._expand.T @ (self._coupling.T @ local)
        at_border = self._schur @ (np.concatenate([border, pad]) - pulled)
        return Effects(local - self._solved @ (self._expand @ at_border), at_border[: self._border])

    def _draw(self, narrow: EffectRows, wide: EffectRows, columns: int) -> None:
        """Draws posterior samples; `conditional` ones are given the border."""
        noise = np.random.default_rng(1).normal(size=(narrow.local.shape[0] + wide.local.shape[0], columns))
        of_narrow, of_wide = noise[: narrow.local.shape[0]], noise[narrow.local.shape[0] :]
        drawn, shift = self.layout.prior_draws(self.strengths, self.days, columns), narrow.adjoint(of_narrow)
        self.conditional = np.asarray(self._factor.solve(drawn.local + shift.local))
        local = self.conditional + self._solved @ (self._expand[:, self._border :] @ of_wide)
        border = drawn.border + shift.border + wide.adjoint(of_wide).border
        self.samples = self._with_border(local, border)

    def _draw_exactly(self) -> None:
        """Computes roots of covariances, scaled as samples are."""
        conditional = self._factor.solve(np.eye(len(self._coupling)))
        self.conditional = _root(conditional)
        shared = self._expand @ self._schur
        covariance = conditional + self._solved @ (shared @ self._expand.T) @ self._solved.T
        mixed = -self._solved @ shared[:, : self._border]
        root = _root(np.block([[covariance, mixed], [mixed.T, self.border_covariance]]))
        self.samples = Effects(root[: len(mixed)], root[len(mixed) :])

    def variances_of_rows(self, rows: EffectRows) -> Float64s:
        """Computes the variances of rows of effects, by samples."""
        variances: Float64s = np.mean(rows.times(self.samples) ** 2, axis=-1)
        return variances

    def variances_of_hats(self, hours: Int64s, day: int, regressors: Mapping[str, Float64s] | None = None) -> Float64s:
        """Computes variances of HATs' sums of effects, (cells, slots).

        Exact, but local effects' variances given the border are sampled. day, regressors: as in `EffectLayout.hats`.
        """
        layout, total = self.layout, np.empty((self.layout.cells, hours.size))
        at_border = layout.slot_rows(hours, day, len(self._schur))
        covariances, shared = at_border @ self._schur, self._expand @ self._schur
        inner, mixed = shared @ self._expand.T, shared @ at_border.T
        slot_keys = np.stack([block.slot_keys[hours] for block in layout.local])
        for keys in np.unique(slot_keys, axis=1).T:
            slots = np.flatnonzero((slot_keys == keys[:, None]).all(axis=0))
            rows = [
                layout.span(block, day).start + block.cell_keys * block.slots + key
                for block, key in zip(layout.local, keys, strict=True)
            ]
            drawn, solved = (sum(table[row] for row in rows) for table in (self.conditional, self._solved))
            of_cells = np.mean(drawn**2, axis=1) + np.sum((solved @ inner) * solved, axis=1)
            total[:, slots] = of_cells[:, None] - 2 * solved @ mixed[:, slots]
            for block in layout.blocks:
                if block.regressor is not None and regressors is not None and block.regressor in regressors:
                    factor, place = regressors[block.regressor][:, slots], layout.span(block, day).start
                    total[:, slots] += 2 * factor * (covariances[slots, place] - solved @ shared[:, [place]])
                    total[:, slots] += factor**2 * self._schur[place, place]
        variances: Float64s = np.maximum(total + np.sum(covariances * at_border, axis=1), 1e-9)
        return variances

    def next_strengths(self, effects: Effects | None = None) -> dict[str, Float64s]:
        """Takes a Fellner-Schall step of each learned strength.

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


def _distinct(columns: Float64s) -> tuple[Float64s, Float64s]:
    """Factors columns, many of them proportional, into distinct ones times coefficients."""
    norms = np.linalg.norm(columns, axis=0) + 1e-300
    probes = np.random.default_rng(2).normal(size=(2, len(columns))) @ columns / norms
    _, first, kinds = np.unique(np.round(probes / _SAME), axis=1, return_index=True, return_inverse=True)
    coefficients = (np.arange(first.size)[:, None] == kinds.ravel()) * (norms / norms[first][kinds.ravel()])
    return columns[:, first], coefficients


def _root(covariance: Float64s) -> Float64s:
    """Computes a covariance's root: squares average to the variance."""
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
        """Orders sums, wide last, and lays sparse rows; `wide_items`: observed besides sums."""
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
