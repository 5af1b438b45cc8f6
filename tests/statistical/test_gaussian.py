"""Discrete Gaussian noise follows its exact law at every variance, and a sampler that does not is rejected.

False-alarm rate of the whole module: below 1e-6 a run, as in test_noise.py: 25 tests on fresh entropy at 1e-8 each.
Power: every wrong sampler named here is rejected with probability above 1 - 1e-5 at the stated number of draws.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from dpops.noise import Noise, words
from dpops.types import Int64s
from tests.statistical.checks import independent, same_law, seeded
from tests.statistical.gaussian_law import gaussian_fit

ALARM = 1e-8
DRAWS = 120_000
VARIANCES = [
    Fraction(1, 9),
    Fraction(1),
    Fraction(22, 7),
    Fraction(50_000, 3),
    Fraction(123_456_789, 5),
    Fraction(3 * 10**12 + 1, 3),
    Fraction(3_750_883_862_600),  # of a vehicle-day at a total of 2.64
]
SMALL = VARIANCES[:2]


@pytest.mark.parametrize("variance", VARIANCES)
def test_noise_follows_the_exact_law(variance: Fraction) -> None:
    assert gaussian_fit(Noise().gaussian([variance] * DRAWS), variance) > ALARM


@pytest.mark.few(3)
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("off", [Fraction(105, 100), Fraction(95, 100)])
def test_a_spread_five_percent_off_is_rejected(variance: Fraction, off: Fraction) -> None:
    assert gaussian_fit(seeded(31).gaussian([variance * off * off] * DRAWS), variance) < ALARM


def test_each_entry_has_its_own_variance() -> None:
    variances = [*VARIANCES, Fraction(0)]
    drawn = Noise().gaussian(variances * 30_000).reshape(-1, len(variances))
    for column, variance in enumerate(VARIANCES):
        assert gaussian_fit(drawn[:, column], variance) > ALARM
    assert not drawn[:, -1].any()


def test_entries_are_independent() -> None:
    drawn = Noise().gaussian([Fraction(50_000, 3)] * DRAWS)
    positive, large = drawn > 0, np.abs(drawn) > 87
    for lag in (1, 2, DRAWS // 2):
        for one, other in ((positive, positive), (large, large), (positive, large)):
            assert independent(one[lag:], other[:-lag]) > ALARM


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3, 2), Fraction(500)])
def test_noise_agrees_with_the_discrete_gaussian_of_opendp(scale: Fraction) -> None:
    """An independent implementation; no use of our own formulas."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    theirs = dp.m.make_gaussian(*space, scale=float(scale))([0] * 40_000)
    exact = Fraction(float(scale)) ** 2
    assert same_law(Noise().gaussian([exact] * 40_000), np.array(theirs, np.int64)) > ALARM


@pytest.mark.few(1)
@pytest.mark.parametrize("variance", VARIANCES[:4])
def test_the_integers_that_decide_close_cases_follow_the_law_alone(
    variance: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every comparison is called close, so that no float decides anything."""
    monkeypatch.setattr(words, "_SURE", 2.0)
    assert gaussian_fit(Noise().gaussian([variance] * 4_000), variance) > ALARM


def test_a_uniform_is_below_an_exponential_as_often_as_it_should_be() -> None:
    """A word equal to the edge is decided by the digits behind it."""
    edge = words.exp_floor(Fraction(1), 64)
    behind = words.exp_floor(Fraction(1), 128) - (edge << 64)
    for low, below in ((behind - 2**40, True), (behind + 2**40, False)):
        uniform = words.Uniform(edge, lambda _, low=low: low.to_bytes(8, "little"))  # type: ignore[misc]
        assert uniform.is_below_exp(Fraction(1)) is below


def test_runs_on_an_edge_are_decided_by_more_digits() -> None:
    edges = [words.exp_floor(Fraction(k), 64) for k in (1, 2, 44)]
    for word, before, after in [(edges[0], 0, 1), (edges[1], 1, 2), (edges[2], 43, 44), (0, 44, None)]:
        for behind, run in ((2**64 - 1, before), (0, after)):
            drawn = iter([word.to_bytes(8, "little"), behind.to_bytes(8, "little")])
            source = words.Words(lambda _, drawn=drawn: next(drawn, bytes(8)))  # type: ignore[misc]
            if run is not None:
                assert source.runs(1).tolist() == [run]


# the checks on wrong samplers

Sampler = Callable[[Fraction, np.random.Generator], Int64s]


def _rounded(variance: Fraction, rng: np.random.Generator) -> Int64s:
    return np.rint(rng.normal(0, math.sqrt(variance), DRAWS)).astype(np.int64)


def _laplace(variance: Fraction, rng: np.random.Generator) -> Int64s:
    return np.rint(rng.laplace(0, math.sqrt(variance / 2), DRAWS)).astype(np.int64)


def _shifted(variance: Fraction, rng: np.random.Generator) -> Int64s:
    return Noise(rng.bytes).gaussian([variance] * DRAWS) + 1


def _one_sided(variance: Fraction, rng: np.random.Generator) -> Int64s:
    return np.abs(Noise(rng.bytes).gaussian([variance] * DRAWS))


def _cut_tail(variance: Fraction, rng: np.random.Generator) -> Int64s:
    drawn = Noise(rng.bytes).gaussian([variance] * 2 * DRAWS)
    return drawn[np.abs(drawn) < 3 * math.sqrt(variance)][:DRAWS]


def _sum_of_six(variance: Fraction, rng: np.random.Generator) -> Int64s:
    return np.rint((rng.random((DRAWS, 6)).sum(1) - 3) * math.sqrt(2 * variance)).astype(np.int64)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("wrong", "variances"),
    [
        (_rounded, SMALL),  # the difference vanishes with 1 / variance
        (_laplace, VARIANCES),
        (_shifted, VARIANCES[:3]),
        (_one_sided, VARIANCES),
        (_cut_tail, VARIANCES[3:]),
        (_sum_of_six, VARIANCES[3:]),
    ],
)
def test_a_wrong_sampler_is_rejected(wrong: Sampler, variances: Sequence[Fraction]) -> None:
    """The seed is fixed."""
    for variance in variances:
        assert gaussian_fit(wrong(variance, np.random.default_rng(33)), variance) < ALARM


# arguments


@pytest.mark.parametrize("variance", [Fraction(-1, 10**30), Fraction(2**98)])
def test_a_variance_out_of_bounds_is_refused(variance: Fraction) -> None:
    with pytest.raises(ValueError, match="noise variance must be"):
        Noise().gaussian([Fraction(1), variance])


def test_the_largest_variance_draws_without_overflow() -> None:
    variance = Fraction(2**98 - 1)
    assert gaussian_fit(Noise().gaussian([variance] * 20_000), variance) > ALARM
