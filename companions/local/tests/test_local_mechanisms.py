"""Each local mechanism: its density, moments and epsilon from 1e-4 to 50, and its sampler on the finite grid."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import chdtrc

from hatstream_local.mechanisms import mechanism as local
from tests.statistical.audit import bound_of_samples
from tests.statistical.checks import seeded

NAMES = sorted(local.LOCAL_MECHANISMS)
EPSILONS = [1e-4, 1e-3, 0.1, 0.6, 1.0, 3.0, 10.0, 25.0, 50.0]
VALUES = np.array([-1.0, -0.3, 0.0, 0.7, 1.0])

every_mechanism = pytest.mark.parametrize("name", NAMES)
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


def outcomes(mechanism: local.LocalMechanism, value: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reports and their probabilities: the atoms of SR, else the middles of pieces on which the density is smooth."""
    if isinstance(mechanism, local.StochasticRounding):
        reports = np.array([mechanism.low, mechanism.high])
        return reports, np.exp(mechanism.log_density(reports, np.array(value)))
    if isinstance(mechanism, local.Window):
        centre, half = value / mechanism.keep, mechanism.width / mechanism.keep
        cuts = mechanism.raw_middle + mechanism.raw_slope * np.array([centre - half, centre + half])
        cuts = np.array([mechanism.low, *cuts, mechanism.high])
        edges = np.concatenate([np.linspace(a, b, 2001) for a, b in pairwise(cuts)])
    else:
        tail = np.geomspace(1e-6, 120 / mechanism.epsilon, 40_000)
        edges = value + np.concatenate([-tail[::-1], tail])
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    return middle, np.exp(mechanism.log_density(middle, np.array(value))) * width


@every_mechanism
@pytest.mark.parametrize("epsilon", [0.1, 0.6, 1.0, 3.0])
def test_density_integrates_to_one_and_gives_the_stated_moments(name: str, epsilon: float) -> None:
    mechanism = local.LOCAL_MECHANISMS[name](epsilon)
    for value in VALUES:
        reports, mass = outcomes(mechanism, float(value))
        point = np.array(value)
        assert mass.sum() == pytest.approx(1, abs=1e-5)
        unbiased = mechanism.unbiased(reports)
        assert float(unbiased @ mass) == pytest.approx(value, abs=1e-4 / epsilon)
        assert float((unbiased - value) ** 2 @ mass) == pytest.approx(float(mechanism.variance(point)), rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_published_formulas(epsilon: float) -> None:
    """The closed forms of the papers, which differ in shape from the ones in use."""
    h, e = math.exp(epsilon / 2), math.exp(epsilon)
    v = VALUES
    pm, sw, sr = local.Piecewise(epsilon), local.SquareWave(epsilon), local.StochasticRounding(epsilon)
    assert pm.high == pytest.approx((h + 1) / (h - 1))
    assert pm.variance(v) == pytest.approx(v**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2))
    assert sr.high == pytest.approx((e + 1) / (e - 1))
    assert sr.variance(v) == pytest.approx(sr.high**2 - v**2)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    p, o = e / (2 * b * e + 1), (v + 1) / 2
    q = p / e
    assert (sw.low, sw.high) == pytest.approx((-b, 1 + b))
    assert sw.unbiased(q / 2 + q * b + 2 * b * (p - q) * o) == pytest.approx(v)
    raw = q * (b**3 - (b + o) ** 3 - (b - o) ** 3 + (b + 1) ** 3) / 3
    raw += 2 * b * p * (b**2 + 3 * o**2) / 3 - (q + 2 * q * b + 4 * b * (p - q) * o) ** 2 / 4
    assert sw.variance(v) == pytest.approx(4 * raw / (2 * b * (p - q)) ** 2)


@every_mechanism
@every_epsilon
def test_the_claim_is_tight_at_any_epsilon(name: str, epsilon: float) -> None:
    """Over all values and reports the largest log ratio of densities is epsilon to twelve digits."""
    mechanism = local.LOCAL_MECHANISMS[name](epsilon)
    values = np.linspace(-1, 1, 401)
    if isinstance(mechanism, local.StochasticRounding):
        reports = np.array([mechanism.low, mechanism.high])
    elif isinstance(mechanism, local.Window):
        reports = mechanism.raw_middle + mechanism.raw_slope * np.linspace(-1, 1, 401) / mechanism.keep
    else:
        reports = np.linspace(-3, 3, 601)
    density = mechanism.log_density(reports[:, None], values)
    assert np.isfinite(density).all()
    assert float(np.ptp(density, axis=1).max()) == pytest.approx(epsilon, rel=1e-12)


@every_mechanism
@every_epsilon
def test_the_samplers_real_epsilon_is_the_claim_or_less(name: str, epsilon: float) -> None:
    mechanism = local.LOCAL_MECHANISMS[name](epsilon)
    real = mechanism.real_epsilon()
    assert real <= epsilon
    if epsilon <= 10:
        assert real == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("kind", [local.Piecewise, local.SquareWave])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0, 50.0])
def test_real_epsilon_by_enumeration_of_the_exact_law(
    kind: type[local.Window], epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a grid of 12 steps: every cell and every two values, in rational numbers."""
    monkeypatch.setattr(local, "STEPS", 12)
    mechanism = kind(epsilon)
    cells, coin = mechanism._cells(), Fraction(mechanism._coin(), 1 << local.COIN_BITS)
    law = np.zeros((13, 12 + cells), object) + (1 - coin) / (12 + cells)
    for step in range(13):
        law[step, step : step + cells] += coin / cells
    assert (law.sum(axis=1) == 1).all()
    ratio = max(Fraction(column.max() / column.min()) for column in law.T)
    assert math.log(ratio) == pytest.approx(mechanism.real_epsilon(), rel=1e-12)
    assert math.log(ratio) <= epsilon * (1 + 1e-15)


@pytest.mark.parametrize("kind", [local.Piecewise, local.SquareWave])
def test_window_reports_follow_the_exact_law(kind: type[local.Window], monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square of 40,000 draws on a grid of 12 steps. False-alarm rate 2 x 1e-6, seed fixed."""
    monkeypatch.setattr(local, "STEPS", 12)
    mechanism = kind(1.0)
    cells, coin = mechanism._cells(), mechanism._coin() / (1 << local.COIN_BITS)
    drawn = np.bincount(mechanism._draw(np.full(40_000, 5), seeded(5)), minlength=12 + cells)
    expected = np.full(12 + cells, (1 - coin) / (12 + cells))
    expected[5 : 5 + cells] += coin / cells
    expected *= 40_000
    assert chdtrc(drawn.size - 1, ((drawn - expected) ** 2 / expected).sum()) > 1e-6


def test_sr_reports_follow_the_exact_law() -> None:
    """On a grid of 8 steps P(C) = (1 - T) / 2 + T step / 8. Five standard deviations, seed fixed."""
    mechanism = local.StochasticRounding(1.0)
    keep = mechanism._coin() / (1 << local.COIN_BITS)
    for step in (0, 1, 4, 8):
        share = (mechanism.sample(np.full(40_000, step / 4 - 1), seeded(6 + step)) > 0).mean()
        expected = (1 - keep) / 2 + keep * step / 8
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / 40_000)


@every_mechanism
@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 2.0, 12.0])
def test_reports_are_in_range_and_unbiased(name: str, epsilon: float) -> None:
    """Mean and variance of 100,000 unbiased reports, each within 6 standard errors (of the variance: by its fourth
    moment, which for these laws is at most 6 squared variances, or 6 / v at a large epsilon). Seed fixed."""
    mechanism = local.LOCAL_MECHANISMS[name](epsilon)
    reports = mechanism.sample(np.full(100_000, 0.6), seeded(7))
    assert ((reports >= mechanism.low) & (reports <= mechanism.high)).all()
    unbiased = mechanism.unbiased(reports)
    variance = float(mechanism.variance(np.array(0.6)))
    assert abs(unbiased.mean() - 0.6) < 6 * math.sqrt(variance / 100_000)
    fourth = max(6.0, 6 / variance)
    assert abs(unbiased.var() / variance - 1) < 6 * math.sqrt(fourth / 100_000)


@every_mechanism
def test_values_that_are_no_values_are_refused(name: str) -> None:
    for wrong in (1.0001, -2.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="must be in"):
            local.LOCAL_MECHANISMS[name](1.0).sample(np.array([0.0, wrong]), seeded(1))
    for epsilon in (0.0, -1.0, 9e-5, 51.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon"):
            local.LOCAL_MECHANISMS[name](epsilon)


def audited(mechanism: local.LocalMechanism, draws: int) -> float:
    """The audit's lower bound on the epsilon between the two ends of the range, from whole numbers."""
    sides = [mechanism.sample(np.full(draws, end), seeded(8 + int(end))) for end in (-1.0, 1.0)]
    first, second = (np.rint(side / mechanism.high * 1e6).astype(np.int64) for side in sides)
    return bound_of_samples(first, second)


@every_mechanism
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_the_audit_finds_no_more_than_the_claim_and_most_of_it(name: str, epsilon: float) -> None:
    """False-alarm rate 1e-6 each."""
    assert 0.6 * epsilon <= audited(local.LOCAL_MECHANISMS[name](epsilon), 40_000) <= epsilon


@every_mechanism
def test_the_audit_catches_a_sampler_that_forgets_the_width_of_the_range(name: str) -> None:
    """The mutant is calibrated to the distance 1 where two values differ by 2, so it spends twice its claim."""
    claim = 1.0
    assert audited(local.LOCAL_MECHANISMS[name](2 * claim), 40_000) > claim
