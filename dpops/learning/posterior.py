"""Gaussian posterior of sparse local and dense border effects.

Sources: Rue and Held (2005), chapters 2 and 4; Papandreou and Yuille (2010) for posterior samples by perturbation;
Wood and Fasiolo (2017), equation 5, for the Fellner-Schall step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from dpops import fitted
from dpops.learning.effects import Block, EffectLayout, EffectRows, Effects, Item, Strengths
from dpops.learning.releases import HABITS, DayValues, Groups
from dpops.types import Float64s, Int64s

EXACT = 1_500
"""Most effects with exact variances; of more, local ones are sampled."""
SAMPLES = 64
ROUGH_SAMPLES = 24
"""Samples for strengths alone, which pool hundreds of effects."""
_SAME = 1e-9
"""Tolerance of means of normal draws by which columns are multiples of one another."""
LARGEST_STEP = 10.0
"""A strength moves by at most this factor in a round, so that one that cannot be learned stays finite."""


@dataclass(frozen=True)
class LinearData:
    """Linear observations; rows from `wide` on touch most cells."""

    rows: EffectRows
    values: Float64s
    precisions: Float64s
    wide: int


class _CellTerms(NamedTuple):
    """Variance terms of a day's HATs from local effects.

    Attributes:
        varying: the block whose effect changes over slots.
        pulls: of cells by pulling vectors, (cells, vectors).
        samples: of cells, given the border, (cells, columns).
        parts: of each key of the varying block, variances (cells,) and pulls.
    """

    varying: Block
    pulls: Float64s
    samples: Float64s
    parts: dict[int, tuple[Float64s, Float64s]]


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
            [[prior.border + narrow.border_square(), wide_at_border.T], [wide_at_border, -np.eye(len(wide_at_border))]]
        )
        inner = self._pulls.T @ self._solved_pulls
        self._schur: Float64s = np.linalg.inv(corner - self._coefficients.T @ inner @ self._coefficients)
        shift = rows.adjoint(root * data.values)
        self.mean = self.solve(Effects(shift.local, prior.shift + shift.border))
        self.border_covariance: Float64s = self._schur[: self._border, : self._border]
        self._inner_covariance: Float64s = self._coefficients @ self._schur @ self._coefficients.T
        self._memory: dict[int, _CellTerms] = {}
        if len(self._pulls) <= EXACT and not is_rough:
            self._draw_exactly()
        else:
            self._draw(narrow, wide, ROUGH_SAMPLES if is_rough else SAMPLES)

    def _couple(self, narrow: EffectRows, wide: EffectRows) -> None:
        """Factors the coupling of local effects to dense ones."""
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
        """Solves for all effects from local ones without border."""
        pad = np.zeros((len(self._schur) - self._border, *border.shape[1:]))
        pulled = self._coefficients.T @ (self._pulls.T @ local)
        at_border = self._schur @ (np.concatenate([border, pad]) - pulled)
        return Effects(local - self._solved_pulls @ (self._coefficients @ at_border), at_border[: self._border])

    def _draw(self, narrow: EffectRows, wide: EffectRows, columns: int) -> None:
        """Draws posterior samples; `conditional` ones are given the border."""
        noise = np.random.default_rng(1).normal(size=(narrow.local.shape[0] + wide.local.shape[0], columns))
        of_narrow, of_wide = noise[: narrow.local.shape[0]], noise[narrow.local.shape[0] :]
        drawn, shift = self.layout.prior_draws(self.strengths, self.days, columns), narrow.adjoint(of_narrow)
        self.conditional = np.asarray(self._factor.solve(drawn.local + shift.local))
        local = self.conditional + self._solved_pulls[:, self._of_wide] @ (self._wide_coefficients @ of_wide)
        border = drawn.border + shift.border + wide.adjoint(of_wide).border
        self.samples = self._with_border(local, border)

    def _draw_exactly(self) -> None:
        """Computes roots of covariances, scaled as samples are."""
        conditional = self._factor.solve(np.eye(len(self._pulls)))
        self.conditional = _root(conditional)
        pulls = self._solved_pulls
        covariance = conditional + pulls @ self._inner_covariance @ pulls.T
        mixed = -pulls @ (self._coefficients @ self._schur[:, : self._border])
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
        layout, terms = self.layout, self._terms(day)
        of_days = [None] * day + [hours]
        at_border = np.zeros((hours.size, len(self._schur)))
        at_border[:, : layout.size(day + 1, border=True)] = layout.incidence(of_days)[day * HABITS + hours].toarray()
        covariances = at_border @ self._schur
        pulled = -(covariances @ self._coefficients.T).T
        total = np.sum(covariances * at_border, axis=1) + 2 * terms.pulls @ pulled
        varying = terms.varying
        keys = varying.slot_keys(hours)
        for key in np.unique(keys):
            chosen = np.flatnonzero(keys == key)
            if key not in terms.parts:
                places = layout.span(varying, day).start + varying.cell_keys * varying.slots + key
                moved = self._solved_pulls[places]
                drawn = np.mean((terms.samples + self.conditional[places]) ** 2, axis=1)
                both = terms.pulls + moved
                terms.parts[key] = drawn + np.sum((both @ self._inner_covariance) * both, axis=1), moved
            of_cells, moved = terms.parts[key]
            total[:, chosen] += of_cells[:, None] + 2 * moved @ pulled[:, chosen]
        for block in layout.blocks:
            if block.regressor is not None and regressors is not None and block.regressor in regressors:
                factor, place = regressors[block.regressor], layout.span(block, day).start
                column = -self._solved_pulls @ (self._coefficients @ self._schur[:, place])
                shared = sum(other.of_hats(column[layout.span(other, day)], hours) for other in layout.local)
                total += 2 * factor * (shared + covariances[:, place])
                total += factor**2 * self.border_covariance[place, place]
        variances: Float64s = np.maximum(total, 1e-9)
        return variances

    def _terms(self, day: int) -> "_CellTerms":
        """Computes variance terms of a day's slot-constant effects, cached."""
        local = self.layout.local
        key = day if any(block.is_daily for block in local) else 0
        if key not in self._memory:
            (varying,) = (block for block in local if block.slots > 1)
            pulls, samples = (
                np.sum([self._of_cells(table, block, day) for block in local if block is not varying], axis=0)
                for table in (self._solved_pulls, self.conditional)
            )
            self._memory[key] = _CellTerms(varying, pulls, samples, {})
        return self._memory[key]

    def _of_cells(self, table: Float64s, block: Block, day: int) -> Float64s:
        """Looks up cells' rows in a table of effects."""
        return table[self.layout.span(block, day)][block.cell_keys]

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


def _directions(first: sparse.csr_matrix, second: sparse.csr_matrix) -> tuple[Float64s, Float64s]:
    """Factors first' second, local effects by border ones: proportional columns share a vector."""
    sums = second.T @ np.asarray(first.sum(axis=1)).ravel()
    used = np.flatnonzero(sums > 0)
    probes = np.random.default_rng(2).normal(size=(first.shape[1], 2))
    means = (second.T @ (first @ probes))[used] / sums[used, None]
    _, of_vector = np.unique(np.round(means / _SAME), axis=0, return_inverse=True)
    of_vector = of_vector.ravel()
    count = int(of_vector.max(initial=-1)) + 1
    members = sparse.csr_matrix((np.ones(used.size), (used, of_vector)), (second.shape[1], count))
    coefficients = np.zeros((count, second.shape[1]))
    coefficients[of_vector, used] = sums[used] / np.bincount(of_vector, sums[used], count)[of_vector]
    return np.asarray((first.T @ (second @ members)).toarray()), coefficients


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
        self, sums: Sequence[NoisySums], regressors: tuple[str, ...] = (), further: Sequence[Item] = ()
    ) -> list[NoisySums]:
        """Orders sums, wide ones last, and prepares sparse rows."""
        ordered = sorted(sums, key=lambda item: item.groups.is_wide)
        items = [Item(item.groups, self.days[item.day].hours, item.day, regressors) for item in ordered]
        self.stack = self.layout.stack([*items, *further], len(self.days))
        self.wide = int(self.stack.starts[sum(not item.groups.is_wide for item in ordered)])
        return ordered

    def solve(self, data: LinearData, *, is_rough: bool) -> None:
        """Computes the posterior. is_rough: with few samples, for strengths alone."""
        self.__dict__.pop("posterior", None)  # two at once exceed a large city's memory
        counts = [day.count for day in self.days]
        self.posterior = Posterior(self.layout, self.strengths, counts, data, is_rough=is_rough)
