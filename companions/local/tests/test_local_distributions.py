"""ULE: the fast likelihood is the dense one, the maximum is one, and EMS arrives where its small steps lead."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companions.local.tests.worlds import beta_values, dense_em, dense_log_likelihood, reports_of
from hatstream_local.mechanisms import aggregate as aggregating
from hatstream_local.mechanisms.aggregate import ReportRows, aggregate
from hatstream_local.mechanisms.estimates import maximum_likelihood, smoothed
from hatstream_local.mechanisms.mechanism import Reports

THREE = [("sr", 0.6), ("pm", 0.6), ("sw", 0.6)]


def dense_mean(log_likelihood: np.ndarray, shares: np.ndarray) -> float:
    """Mean log-likelihood of users, relative to a factor of each user."""
    top = log_likelihood.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(log_likelihood - top) @ shares) + top[:, 0]))


def assert_agrees(reports: Reports, rows: ReportRows) -> None:
    """Log-likelihood up to a constant, gradient and negative Hessian at two distributions."""
    dense = dense_log_likelihood(reports, rows.buckets)
    dense = dense[~np.isnan(reports.values).all(axis=0)]
    likelihood = np.exp(dense - dense.max(axis=1, keepdims=True))
    constants = []
    for seed in (1, 2):
        shares = np.random.default_rng(seed).dirichlet(np.full(rows.buckets, 0.3)) + 1e-6
        shares /= shares.sum()
        evaluation = rows.evaluate(shares)
        scaled = likelihood / (likelihood @ shares)[:, None]
        assert evaluation.gradient == pytest.approx(scaled.mean(axis=0), rel=1e-9)
        assert evaluation.curvature == pytest.approx(scaled.T @ scaled / len(scaled), rel=1e-8)
        constants.append(evaluation.log_likelihood - dense_mean(dense, shares))
    assert constants[0] == pytest.approx(constants[1], abs=1e-10)


@given(
    st.lists(
        st.tuples(st.sampled_from(["sr", "pm", "sw"]), st.sampled_from([1e-3, 0.5, 2.0, 6.0])), min_size=1, max_size=5
    ),
    st.integers(8, 40),
    st.sampled_from([0.0, 0.4]),
    st.integers(1, 10**6),
)
def test_the_fast_likelihood_is_the_dense_one(
    kinds: list[tuple[str, float]], buckets: int, missing: float, seed: int
) -> None:
    """Any number of services, any epsilon whose window is wider than a bucket, missing reports."""
    wide = [(kind, min(epsilon, 2.0) if kind != "sr" else epsilon) for kind, epsilon in kinds]
    reports = reports_of(beta_values(200, seed), wide, missing=missing, seed=seed)
    assert_agrees(reports, aggregate(reports, buckets))


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.1, 0.6, 3.0])
def test_the_maximum_meets_its_conditions_and_no_em_climbs_higher(epsilon: float) -> None:
    reports = reports_of(beta_values(4_000), [(kind, epsilon) for kind, _ in THREE])
    rows = aggregate(reports, 64)
    maximum = maximum_likelihood(rows)
    evaluation = rows.evaluate(maximum.shares)
    assert maximum.converged
    assert maximum.gap <= 1e-9
    assert maximum.shares.sum() == pytest.approx(1)
    assert evaluation.gradient.max() <= 1 + 1e-9
    assert evaluation.gradient[maximum.shares > 1e-9] == pytest.approx(1, abs=1e-6)
    dense = dense_log_likelihood(reports, 64)
    by_em = dense_em(dense, 3_000)
    best, by_em_mean = dense_mean(dense, maximum.shares), dense_mean(dense, by_em)
    assert by_em_mean <= best + 1e-12
    assert best - by_em_mean <= 1e-3
    assert best - by_em_mean <= rows.evaluate(by_em).gap  # the gap bounds what is left to gain


def test_the_order_of_services_changes_no_bit() -> None:
    reports = reports_of(beta_values(2_000), THREE, missing=0.2)
    turned = Reports(list(reports.services)[::-1], reports.values[::-1])
    for method in (maximum_likelihood, smoothed):
        assert np.array_equal(method(aggregate(reports, 32)).shares, method(aggregate(turned, 32)).shares)


@pytest.mark.parametrize("epsilon", [1e-4, 10.0, 50.0])
@pytest.mark.parametrize("method", [maximum_likelihood, smoothed])
def test_extreme_epsilons_converge(epsilon: float, method: object) -> None:
    """At 50 the reports are the values; the fused distribution is theirs."""
    values = beta_values(3_000)
    rows = aggregate(reports_of(values, [(kind, epsilon) for kind, _ in THREE]), 128)
    fused = maximum_likelihood(rows) if method is maximum_likelihood else smoothed(rows)
    assert fused.converged
    assert np.isfinite(fused.shares).all()
    if epsilon == 50:
        true = np.histogram(values, 128, (-1, 1))[0] / values.size
        assert np.abs(fused.shares - true).sum() < (0.15 if method is maximum_likelihood else 0.2)


def test_laplace_reports_and_silent_users_are_left_out() -> None:
    reports = reports_of(beta_values(1_000), [("laplace", 1.0), ("pm", 1.0)], missing=0.3)
    rows = aggregate(reports, 16)
    assert rows.users == int((~np.isnan(reports.values[1])).sum())
    with pytest.raises(ValueError, match="at least one report by sr, pm or sw"):
        aggregate(Reports(reports.services[:1], reports.values[:1]), 16)
    with pytest.raises(ValueError, match="buckets"):
        aggregate(reports, 1)


def test_keys_too_many_for_a_table_are_sorted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = reports_of(beta_values(3_000), THREE, missing=0.2)
    expected = aggregate(reports, 32)
    monkeypatch.setattr(aggregating, "_MOST_DENSE", 1)
    rows = aggregate(reports, 32)
    for name in ("curves", "edges", "levels", "counts"):
        assert np.array_equal(getattr(rows, name), getattr(expected, name))
