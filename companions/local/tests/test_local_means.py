"""Fused means: unbiased where they claim it, alike for any order of services, with errors that are not too small."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest

from companions.local.tests.worlds import beta_values, dense_log_likelihood, reports_of
from hatstream_local.mechanisms.aggregate import middles
from hatstream_local.mechanisms.estimates import GRID, Method, fixed_weights, fused_mean, per_user, second_moments
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Piecewise, Reports, Service, StochasticRounding

FOUR = [("sr", 0.5), ("laplace", 1.0), ("pm", 0.7), ("sw", 2.0)]
METHODS: list[Method] = ["ua", "fixed", "uwa"]

every_method = pytest.mark.parametrize("method", METHODS)


@every_method
def test_the_order_of_services_changes_no_bit(method: Method) -> None:
    reports = reports_of(beta_values(300), FOUR, missing=0.3)
    expected = per_user(reports, method)
    for order in permutations(range(4)):
        shuffled = Reports([reports.services[i] for i in order], reports.values[list(order)])
        assert np.array_equal(per_user(shuffled, method), expected, equal_nan=True)


@every_method
def test_users_without_reports_are_left_out_and_nobody_is_an_error(method: Method) -> None:
    reports = reports_of(beta_values(50), FOUR)
    padded = Reports(reports.services, np.concatenate([reports.values, np.full((4, 3), np.nan)], axis=1))
    assert fused_mean(padded, method).value == pytest.approx(fused_mean(reports, method).value, rel=1e-14)
    assert fused_mean(padded, method).users == 50
    with pytest.raises(ValueError, match="at least one report"):
        fused_mean(Reports(reports.services, reports.values[:, :0]), method)


def test_fixed_weights_are_inverse_variances_averaged_over_a_uniform_prior() -> None:
    reports = reports_of(np.zeros(1), FOUR)
    averaged = [float(np.mean(service.mechanism.variance(middles(10_000)))) for service in reports.services]
    expected = 1 / np.array(averaged)
    assert fixed_weights(reports) == pytest.approx(expected / expected.sum(), rel=1e-6)


def expectation(value: float, epsilon: float, method: Method) -> float:
    """E[estimate | value] with one SR and one PM report: both atoms, and PM's density at 40,000 middles a piece."""
    sr, pm = StochasticRounding(epsilon), Piecewise(epsilon)
    centre, half = value / pm.keep, pm.width / pm.keep
    cuts = [pm.low, centre - half, centre + half, pm.high]
    edges = np.concatenate([np.linspace(a, b, 40_001) for a, b in pairwise(cuts)])
    reports = (edges[1:] + edges[:-1]) / 2
    mass = np.exp(pm.log_density(reports, np.array(value))) * np.diff(edges)
    total = 0.0
    for atom in (sr.low, sr.high):
        table = np.stack([reports, np.full(reports.size, atom)])
        estimates = per_user(Reports([Service("pm", pm), Service("sr", sr)], table), method)
        total += float(np.exp(sr.log_density(np.array(atom), np.array(value))) * (estimates @ mass))
    return total


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_ua_and_fixed_weights_are_unbiased(epsilon: float) -> None:
    for value in (-0.5, 0.9):
        assert expectation(value, epsilon, "ua") == pytest.approx(value, abs=1e-8)
        assert expectation(value, epsilon, "fixed") == pytest.approx(value, abs=1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize(("epsilon", "bias"), [(0.1, -2.1e-5), (0.5, -7.6e-4), (1.0, -4.0e-3), (3.0, -2.0e-2)])
def test_uwa_is_biased_by_the_known_figures(epsilon: float, bias: float) -> None:
    """Algorithms 12.3: SR and PM at v = 0.9."""
    assert expectation(0.9, epsilon, "uwa") - 0.9 == pytest.approx(bias, rel=0.03)


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 3.0, 7.0])
def test_posterior_moments_are_those_of_the_dense_posterior(epsilon: float) -> None:
    """Seven services with missing reports, two of them Laplace, against densities user by user over the grid."""
    kinds = [(kind, epsilon) for kind in ("sr", "laplace", "pm", "sw", "laplace", "pm", "sr")]
    reports = reports_of(np.linspace(-1, 1, 2_000), kinds, missing=0.3)
    values = middles(GRID)
    log_posterior = dense_log_likelihood(reports, GRID)
    posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    expected = posterior @ values**2 / posterior.sum(axis=1)
    moments = second_moments(reports)
    near = np.abs(moments / expected - 1) < 1e-10
    # A window narrower than the grid may hold no value of it; the nearest one is taken then.
    assert near.all() if epsilon < 4 else near.mean() > 0.5


@pytest.mark.few(2)
@pytest.mark.parametrize("users", [1, pytest.param(5, marks=pytest.mark.slow), 40, 400])
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_two_standard_errors_cover_the_true_mean_of_these_users(users: int, epsilon: float) -> None:
    """Of 400 groups 90 % are asked, of the nominal 95.4 % (94.1 % for one Laplace report alone): five standard
    deviations below. Seed fixed."""
    values = beta_values(users * 400)
    for method in METHODS[:2]:
        covered = 0
        reports = reports_of(values, [(kind, epsilon) for kind in ("laplace", "sw")], missing=0.2)
        for start in range(0, values.size, users):
            part = Reports(reports.services, reports.values[:, start : start + users])
            heard = ~np.isnan(part.values).all(axis=0)
            if not heard.any():
                covered += 1
                continue
            fused = fused_mean(part, method)
            truth = float(values[start : start + users][heard].mean())
            covered += abs(fused.value - truth) <= 2 * fused.standard_error
        assert covered / 400 >= 0.9


def test_leakage_is_the_sum_over_services_of_the_user_who_answered_most() -> None:
    services = [Service("a", LOCAL_MECHANISMS["pm"](0.5)), Service("b", LOCAL_MECHANISMS["sr"](2.0))]
    assert Reports(services, np.array([[0.1, 0.2], [np.nan, 1.0]])).leakage() == 2.5
    assert Reports(services, np.array([[0.1], [np.nan]])).leakage() == 0.5
    assert math.isclose(Reports(services, np.zeros((2, 0))).leakage(), 0)
