"""The posterior against dense brute force, strengths against REML, and both on fields drawn from the model."""

import numpy as np
import pytest

from dpops import fitted
from dpops.learning import Groups
from dpops.learning import posterior as module
from dpops.learning.effects import EffectLayout, EffectRows, Effects, Item, Stack
from dpops.learning.posterior import LinearData, Posterior
from dpops.learning.state import speed_layout, weight_layout
from dpops.types import Float64s
from tests.dpops.learning.city import HOURS, design

DAYS = (1.0, 3.0)
PLAIN = Groups(cells=np.arange(16), slots=0 * HOURS), Groups(cells=np.zeros(16, np.int64), slots=HOURS)


def strengths_of(layout: EffectLayout, **others: float) -> dict[str, Float64s]:
    return {block.name: np.array([others.get(block.name, block.precision)]) for block in layout.blocks}


def dense_prior(layout: EffectLayout, strengths: dict[str, Float64s]) -> Float64s:
    prior = layout.prior(strengths, DAYS)
    local, border = ((root.T @ root).toarray() for root in (prior.local, prior.border))
    return np.block([[local, np.zeros((len(local), len(border)))], [np.zeros((len(border), len(local))), border]])


def border_shift(layout: EffectLayout, strengths: dict[str, Float64s]) -> Float64s:
    prior = layout.prior(strengths, DAYS)
    return np.asarray(prior.border.T @ (prior.border @ prior.means))


def dense_rows(rows: EffectRows) -> Float64s:
    return np.concatenate([rows.local.toarray(), rows.border], axis=1)


def observed(layout: EffectLayout, rng: np.random.Generator, noise: float = 1.0) -> tuple[LinearData, Float64s]:
    """Sums over cells' days and the city's hours of both days, and their rows as one dense matrix."""
    items = [Item(groups, HOURS, day) for groups in PLAIN for day in range(2)]
    hats = [rng.random((16, 24)) for _ in items]
    rows = Stack(layout, items, len(DAYS))(hats)
    count = rows.local.shape[0]
    dense = dense_rows(rows)
    data = LinearData.of(rows, 5 * rng.normal(size=count), rng.uniform(0.5, 2, count) / noise**2, 2 * 16)
    return data, dense


@pytest.mark.parametrize("of", [speed_layout, weight_layout])
def test_the_posterior_is_that_of_dense_brute_force(of: object) -> None:
    layout = of(design(4))
    strengths = strengths_of(layout)
    data, dense = observed(layout, np.random.default_rng(1))
    result = Posterior(layout, strengths, DAYS, data, is_rough=False)
    precision = dense_prior(layout, strengths) + dense.T @ (data.precisions[:, None] * dense)
    covariance = np.linalg.inv(precision)
    shift = dense.T @ (np.sqrt(data.precisions) * data.values)
    local = len(result.mean.local)
    shift[local:] += border_shift(layout, strengths)
    assert np.allclose(np.concatenate(result.mean), covariance @ shift, atol=1e-7)
    assert np.allclose(result.border_covariance, covariance[local:, local:], atol=1e-7)
    variances = data.precisions * np.sum((dense @ covariance) * dense, axis=1)
    assert np.allclose(result.variances_of_rows(data.rows), variances, rtol=1e-6)
    single = Groups(cells=np.arange(16), slots=HOURS)
    hats = Stack(layout, [Item(single, HOURS, 1)], 2)([np.ones((16, 24))])
    rows = dense_rows(hats)
    expected = np.sum((rows @ covariance) * rows, axis=1).reshape(16, 24)
    assert np.allclose(result.variances_of_hats(HOURS, 1), expected, rtol=1e-6)


def test_samples_give_the_variances_of_many_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, rng = speed_layout(design(4)), np.random.default_rng(2)
    data, _ = observed(layout, rng)
    exact = Posterior(layout, strengths_of(layout), DAYS, data, is_rough=False).variances_of_hats(HOURS, 0)
    monkeypatch.setattr(module, "EXACT", 0)
    monkeypatch.setattr(module, "SAMPLES", 2_000)
    sampled = Posterior(layout, strengths_of(layout), DAYS, data, is_rough=False).variances_of_hats(HOURS, 0)
    assert np.allclose(sampled, exact, rtol=0.15)


def drawn(layout: EffectLayout, strengths: dict[str, Float64s], rng: np.random.Generator) -> Effects:
    """Effects drawn from the prior."""
    precision = dense_prior(layout, strengths)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    values = root @ rng.normal(size=len(precision))
    local = layout.size(len(DAYS), border=False)
    return Effects(values[:local], values[local:])


def test_strengths_of_simulated_fields_are_found_and_are_reml(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a prior worth nothing, the fixed point has no slope of the restricted likelihood."""
    monkeypatch.setattr(fitted, "PRIOR_WORTH", 1e-9)
    layout, rng = speed_layout(design(4)), np.random.default_rng(3)
    truth = strengths_of(layout, cell=0.05)
    data, dense = observed(layout, rng, noise=0.3)
    effects = drawn(layout, truth, rng)
    values = dense @ np.concatenate(effects) + 0.3 * rng.normal(size=data.values.size)
    data = data._replace(values=np.sqrt(data.precisions) * values)
    strengths = strengths_of(layout)
    for _ in range(60):
        strengths = Posterior(layout, strengths, DAYS, data, is_rough=False).next_strengths() | {
            name: value for name, value in strengths.items() if name != "cell"
        }
    assert 0.2 < strengths["cell"][0] / truth["cell"][0] < 5

    def restricted(cell: float) -> float:
        prior = dense_prior(layout, strengths | {"cell": np.array([cell])})
        covariance = np.diag(1 / data.precisions) + dense @ np.linalg.inv(prior) @ dense.T
        mean = np.linalg.solve(prior, np.concatenate([np.zeros(len(effects.local)), border_shift(layout, strengths)]))
        residual = values - dense @ mean
        return -0.5 * float(np.linalg.slogdet(covariance)[1] + residual @ np.linalg.solve(covariance, residual))

    best = strengths["cell"][0]
    assert restricted(best) > max(restricted(best * 1.3), restricted(best / 1.3))


def test_intervals_hold_fields_that_are_drawn_from_the_model() -> None:
    layout, rng, scores = speed_layout(design(4)), np.random.default_rng(5), []
    strengths = strengths_of(layout)
    for _ in range(20):
        data, dense = observed(layout, rng)
        effects = drawn(layout, strengths, rng)
        shift = border_shift(layout, strengths)
        values = dense @ np.concatenate(effects) + rng.normal(size=data.values.size) / np.sqrt(data.precisions)
        data = data._replace(values=np.sqrt(data.precisions) * values)
        result = Posterior(layout, strengths, DAYS, data, is_rough=False)
        prior_mean = Effects(0 * effects.local, layout.prior(strengths, DAYS).means)
        centred = result.solve(Effects(0 * effects.local, shift))
        field = layout.hats(Effects(*(a - b for a, b in zip(result.mean, centred, strict=True))), HOURS, 0)
        assert prior_mean.border.size == effects.border.size
        scores.append((field - layout.hats(effects, HOURS, 0)) / np.sqrt(result.variances_of_hats(HOURS, 0)))
    assert 0.92 < np.mean(np.abs(scores) < 1.96) < 0.98
