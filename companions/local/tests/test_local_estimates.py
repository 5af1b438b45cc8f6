"""Fused means and ULE: unbiased where they claim it, errors that are not too small, a maximum that is one; reports."""

import math
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companions.local.tests.worlds import GOOD, beta_values, dense_em, dense_log_likelihood, reports_of, rules
from hatstream_local.fusion import fuse as fusing
from hatstream_local.fusion.fuse import GroupReports, fuse, join, perturb
from hatstream_local.mechanisms import estimates
from hatstream_local.mechanisms.aggregate import ReportRows, aggregate, middles
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Piecewise, Reports, Service, StochasticRounding
from hatstream_local.specification import Reported, parse_reports
from tests.statistical.checks import seeded

FOUR = [("sr", 0.5), ("laplace", 1.0), ("pm", 0.7), ("sw", 2.0)]
METHODS: list[estimates.Method] = ["ua", "fixed", "uwa"]

every_method = pytest.mark.parametrize("method", METHODS)


@every_method
def test_the_order_of_services_changes_no_bit(method: estimates.Method) -> None:
    reports = reports_of(beta_values(300), FOUR, missing=0.3)
    expected = estimates.per_user(reports, method)
    for order in permutations(range(4)):
        shuffled = Reports([reports.services[i] for i in order], reports.values[list(order)])
        assert np.array_equal(estimates.per_user(shuffled, method), expected, equal_nan=True)


@every_method
def test_users_without_reports_are_left_out_and_nobody_is_an_error(method: estimates.Method) -> None:
    reports = reports_of(beta_values(50), FOUR)
    padded = Reports(reports.services, np.concatenate([reports.values, np.full((4, 3), np.nan)], axis=1))
    assert estimates.fused_mean(padded, method).value == pytest.approx(
        estimates.fused_mean(reports, method).value, rel=1e-14
    )
    assert estimates.fused_mean(padded, method).users == 50
    with pytest.raises(ValueError, match="at least one report"):
        estimates.fused_mean(Reports(reports.services, reports.values[:, :0]), method)


def test_fixed_weights_are_inverse_variances_averaged_over_a_uniform_prior() -> None:
    mechanisms = tuple(service.mechanism for service in reports_of(np.zeros(1), FOUR).services)
    averaged = [float(np.mean(mechanism.variance(middles(10_000)))) for mechanism in mechanisms]
    expected = 1 / np.array(averaged)
    assert estimates.fixed_weights(mechanisms) == pytest.approx(expected / expected.sum(), rel=1e-6)


def expectation(value: float, epsilon: float, method: estimates.Method) -> float:
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
        per_user = estimates.per_user(Reports([Service("pm", pm), Service("sr", sr)], table), method)
        total += float(np.exp(sr.log_density(np.array(atom), np.array(value))) * (per_user @ mass))
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
    values = middles(estimates.GRID)
    log_posterior = dense_log_likelihood(reports, estimates.GRID)
    posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    expected = posterior @ values**2 / posterior.sum(axis=1)
    moments = estimates.second_moments(reports)
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
            fused = estimates.fused_mean(part, method)
            truth = float(values[start : start + users][heard].mean())
            covered += abs(fused.value - truth) <= 2 * fused.standard_error
        assert covered / 400 >= 0.9


def test_leakage_is_the_sum_over_services_of_the_user_who_answered_most() -> None:
    services = [Service("a", LOCAL_MECHANISMS["pm"](0.5)), Service("b", LOCAL_MECHANISMS["sr"](2.0))]
    assert Reports(services, np.array([[0.1, 0.2], [np.nan, 1.0]])).leakage() == 2.5
    assert Reports(services, np.array([[0.1], [np.nan]])).leakage() == 0.5
    assert math.isclose(Reports(services, np.zeros((2, 0))).leakage(), 0)


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
    maximum = estimates.maximum_likelihood(rows)
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


def test_the_order_of_services_changes_no_bit_of_a_distribution() -> None:
    reports = reports_of(beta_values(2_000), THREE, missing=0.2)
    turned = Reports(list(reports.services)[::-1], reports.values[::-1])
    for method in (estimates.maximum_likelihood, estimates.smoothed):
        assert np.array_equal(method(aggregate(reports, 32)).shares, method(aggregate(turned, 32)).shares)


@pytest.mark.parametrize("epsilon", [1e-4, 10.0, 50.0])
@pytest.mark.parametrize("method", [estimates.maximum_likelihood, estimates.smoothed])
def test_extreme_epsilons_converge(epsilon: float, method: object) -> None:
    """At 50 the reports are the values; the fused distribution is theirs."""
    values = beta_values(3_000)
    rows = aggregate(reports_of(values, [(kind, epsilon) for kind, _ in THREE]), 128)
    fused = estimates.maximum_likelihood(rows) if method is estimates.maximum_likelihood else estimates.smoothed(rows)
    assert fused.converged
    assert np.isfinite(fused.shares).all()
    if epsilon == 50:
        true = np.histogram(values, 128, (-1, 1))[0] / values.size
        assert np.abs(fused.shares - true).sum() < (0.15 if method is estimates.maximum_likelihood else 0.2)


def test_laplace_reports_and_silent_users_are_left_out() -> None:
    reports = reports_of(beta_values(1_000), [("laplace", 1.0), ("pm", 1.0)], missing=0.3)
    rows = aggregate(reports, 16)
    assert rows.users == int((~np.isnan(reports.values[1])).sum())
    with pytest.raises(ValueError, match="at least one report by sr, pm or sw"):
        aggregate(Reports(reports.services[:1], reports.values[:1]), 16)
    with pytest.raises(ValueError, match="buckets"):
        aggregate(reports, 1)


# --- Reports: each row is accepted or refused for one reason, and joined per user whatever their order. ---------------


SERVICES = [Service("maps", LOCAL_MECHANISMS["pm"](0.5)), Service("weather", LOCAL_MECHANISMS["sr"](2.0))]
RULES = rules(SERVICES)


def table(*rows: dict[str, object]) -> pa.RecordBatch:
    columns = {name: pa.array([row[name] for row in rows]) for name in GOOD}
    return pa.RecordBatch.from_pydict(columns)


def test_a_good_row_is_placed_in_its_local_hour() -> None:
    parsed, refused = parse_reports(table(GOOD), RULES)
    assert refused == {}
    assert parsed.slot_s.tolist() == [1772380800]  # 10:00 in Chicago
    assert parsed.cell.tolist() == [int(str(GOOD["cell"]), 16)]
    assert parsed.service.tolist() == [0]
    assert parsed.report.tolist() == [0.25]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"user": None}, "missing-user"),
        ({"user": ""}, "missing-user"),
        ({"user": "x" * 300}, "bad-user"),
        ({"service": "spam"}, "unknown-service"),
        ({"service": None}, "unknown-service"),
        ({"mechanism": "sr"}, "other-mechanism"),
        ({"mechanism": "exponential"}, "other-mechanism"),
        ({"epsilon": 0.6}, "other-epsilon"),
        ({"epsilon": None}, "other-epsilon"),
        ({"time": None}, "missing-time"),
        ({"time": "yesterday"}, "bad-time"),
        ({"time": "1999-01-01T00:00:00Z"}, "implausible-time"),
        ({"cell": "nowhere"}, "bad-cell"),
        ({"cell": None}, "bad-cell"),
        ({"report": None}, "missing-report"),
        ({"report": float("nan")}, "bad-report"),
        ({"report": 8.2}, "outside-range"),
        ({"service": "weather", "mechanism": "sr", "epsilon": 2.0, "report": 0.3}, "outside-range"),
    ],
)
def test_each_bad_row_is_refused_for_its_reason_and_spares_the_others(change: dict[str, object], reason: str) -> None:
    parsed, refused = parse_reports(table(GOOD, {**GOOD, **change}, GOOD), RULES)
    assert refused == {reason: 1}
    assert parsed.user.size == 2


def reported(*rows: tuple[int, int, int, float, int]) -> Reported:
    """Rows of (user, slot, service, report, time)."""
    user, slot, service, report, time = (np.array(column) for column in zip(*rows, strict=True))
    return Reported(user, slot, np.zeros_like(user), service, time, report.astype(float))


def test_reports_are_joined_per_user_in_any_order_and_doubles_are_told_apart() -> None:
    parts = [
        reported((1, 0, 0, 0.1, 5), (2, 0, 0, 0.2, 5)),
        reported((1, 0, 1, 1.0, 6), (1, 0, 0, 0.1, 5)),  # the second is a copy
        reported((1, 0, 0, 0.9, 7), (1, 3600, 0, 0.3, 8)),  # the first is a second report, and leaks
    ]
    expected = join(parts, SERVICES)
    assert (expected.repeated, expected.second, expected.users) == (1, 1, 2)
    assert expected.leakage == 0.5 + 2.0 + 0.5 + 0.5
    user, reports = dict(expected.groups)[0, 0]
    assert user.tolist() == [1, 2]
    assert np.array_equal(reports, [[0.1, 0.2], [1.0, np.nan]], equal_nan=True)
    for order in permutations(parts):
        assert repr(join(order, SERVICES)) == repr(expected)


def test_a_group_tells_the_fused_mean_and_beside_it_each_service() -> None:
    values = np.linspace(-0.8, 0.2, 500)
    noise = seeded(1)
    reports = np.stack([service.mechanism.sample(values, noise) for service in SERVICES])
    parts = [GroupReports(np.arange(500)[rows], reports[:, rows]) for rows in (slice(200), slice(200, 500))]
    rows = fuse(parts, RULES)
    assert fuse(parts[::-1], RULES) == rows
    means = {row["service"]: row for row in rows if row["statistic"] == "mean"}
    fused = estimates.fused_mean(Reports(SERVICES, reports), "fixed")
    assert set(means) == {"all", "maps", "weather"}
    assert means["all"]["value"] == pytest.approx((fused.value + 1) / 2 * 65)
    assert means["all"]["lower95"] < means["all"]["value"] < means["all"]["upper95"]
    assert means["all"]["epsilon_user"] == 2.5
    assert means["maps"]["epsilon_user"] == 0.5
    shares = [row for row in rows if row["statistic"] == "share"]
    assert sum(row["value"] for row in shares) == pytest.approx(1, abs=1e-6)
    assert (shares[0]["from_kmh"], shares[-1]["to_kmh"]) == (0, 65)


def test_perturbing_makes_one_report_for_each_service_vehicle_slot_and_cell() -> None:
    vehicle, slot, values = np.array([7, 7, 7, 9]), np.array([0, 0, 3_600_000_000, 0]), np.array([-1.0, 1.0, 1.0, 0.0])
    services = [Service("exact", LOCAL_MECHANISMS["pm"](50.0)), Service("other", LOCAL_MECHANISMS["sr"](1.0))]
    rows = perturb(vehicle, slot, np.zeros(4, np.int64), values, services, seeded(3))
    report_of = {(row["user"], row["time"]): row["report"] for row in rows if row["service"] == "exact"}
    assert len(rows) == 6
    assert report_of == {
        (f"{7:016x}", "1970-01-01T00:00:00Z"): pytest.approx(0, abs=1e-5),
        (f"{7:016x}", "1970-01-01T01:00:00Z"): pytest.approx(1, abs=1e-5),
        (f"{9:016x}", "1970-01-01T00:00:00Z"): pytest.approx(0, abs=1e-5),
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["ml", "ems"])
def test_what_small_groups_tell_is_remembered_and_is_what_each_tells_alone(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    rules_of_method = replace(RULES, distribution=method)
    reports = [(value, sign) for value in np.linspace(-1.2, 1.2, 40).tolist() for sign in (-1.0, 1.0)]
    groups = [GroupReports(np.array([1]), np.array([[a], [b]])) for a, b in [*reports, *reports]]
    together = [fuse([group], rules_of_method) for group in groups]
    assert 0 < len(fusing._DISTRIBUTION_CACHE) < len(reports)
    for group, rows in zip(groups, together, strict=True):
        monkeypatch.setattr(fusing, "_DISTRIBUTION_CACHE", {})
        assert fuse([group], rules_of_method) == rows
