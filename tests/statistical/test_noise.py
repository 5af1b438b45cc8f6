"""Discrete Laplace noise follows its exact law at every scale, and a sampler that does not is rejected.

False-alarm rate of the whole module: below 1e-6 a run. It makes 32 tests on fresh entropy at 1e-8 each; with at least
20 draws expected in a cell, the chi-square law understates a tail of 1e-6 by a factor of 1.3 (simulated); 2 is allowed.
Power: every wrong sampler named here is rejected with probability above 1 - 1e-5 at the stated number of draws.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpops.noise import Noise
from dpops.noise.discrete import ratio
from dpops.types import Int64s
from tests.statistical.checks import (
    Cells,
    independent,
    laplace_below,
    laplace_cells,
    laplace_fit,
    laplace_mass,
    same_law,
    seeded,
)

ALARM = 1e-8
DRAWS = 120_000
SCALES = [
    Fraction(1, 3),
    Fraction(1),
    Fraction(22, 7),
    Fraction(50, 3),
    Fraction(1000, 7),
    Fraction(123_456, 5),
    Fraction(3_000_001, 3),
]
SMALL = SCALES[:3]


# the law


@pytest.mark.parametrize("scale", SCALES)
def test_noise_follows_the_exact_law(scale: Fraction) -> None:
    """False-alarm rate 1e-8 for each scale, on fresh entropy of the operating system."""
    assert laplace_fit(Noise().laplace([scale] * DRAWS), scale) > ALARM


@pytest.mark.few(4)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("off", [Fraction(105, 100), Fraction(95, 100)])
def test_a_scale_five_percent_off_is_rejected_twenty_times_of_twenty(scale: Fraction, off: Fraction) -> None:
    """Power: the noncentrality is above 250 at 44 degrees or fewer, threshold 120, so one miss in 1e6 or rarer.

    One sample of the twenty is drawn by the sampler; the others are the cell counts that its law would give.
    """
    cells = laplace_cells(scale, DRAWS)
    law = _masses(cells, scale * off)
    assert DRAWS * ((law - cells.masses) ** 2 / cells.masses).sum() > 250
    drawn = np.random.default_rng(21).multinomial(DRAWS, law, size=19)
    counts = [cells.counts(seeded(22).laplace([scale * off] * DRAWS)), *drawn]
    assert sum(cells.p_value(count) < ALARM for count in counts) == 20


def test_each_entry_has_its_own_scale() -> None:
    """Six scales interleaved in one call; false-alarm rate 1e-8 each. Power: as above, were two entries confused."""
    scales = [*SCALES[:5], Fraction(0)]
    drawn = Noise().laplace(scales * (DRAWS // 2)).reshape(-1, len(scales))
    for column, scale in enumerate(scales[:-1]):
        assert laplace_fit(drawn[:, column], scale) > ALARM
    assert not drawn[:, -1].any()


def test_entries_are_independent() -> None:
    """Sign and size of neighbours, false-alarm rate 1e-8 each; a correlation of 3 % would be seen (109 against 32)."""
    drawn = Noise().laplace([Fraction(1000, 7)] * DRAWS)
    positive, large = drawn > 0, np.abs(drawn) > 99
    for lag in (1, 2, DRAWS // 2):
        for one, other in ((positive, positive), (large, large), (positive, large)):
            assert independent(one[lag:], other[:-lag]) > ALARM
    assert independent(positive, large) > ALARM


def test_two_calls_differ_and_a_sign_is_fair() -> None:
    """False-alarm rate 1e-8: two calls of 64 draws agree with probability far below 1e-100."""
    noise = Noise()
    assert not np.array_equal(noise.laplace([Fraction(10**6)] * 64), noise.laplace([Fraction(10**6)] * 64))
    drawn = noise.laplace([Fraction(10**6)] * DRAWS)
    nonzero = drawn[drawn != 0]
    assert abs((nonzero > 0).mean() - 0.5) < 5.8 * 0.5 / math.sqrt(nonzero.size)


@pytest.mark.slow  # 2 s each
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1000, 7), Fraction(22, 7)])
def test_noise_agrees_with_the_discrete_laplace_of_opendp(scale: Fraction) -> None:
    """An independent implementation; false-alarm rate 1e-8 for each scale, no use of our own formulas."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    theirs = dp.m.make_laplace(*space, scale=float(scale))([0] * DRAWS)
    assert same_law(Noise().laplace([scale] * DRAWS), np.array(theirs, np.int64)) > ALARM


# the checks on wrong samplers

Sampler = Callable[[Fraction, np.random.Generator], Int64s]


def _rounded(scale: Fraction, rng: np.random.Generator) -> Int64s:
    return np.rint(rng.laplace(0, float(scale), DRAWS)).astype(np.int64)


def _two_zeros(scale: Fraction, rng: np.random.Generator) -> Int64s:
    p = math.exp(-float(1 / scale))
    return (rng.geometric(1 - p, DRAWS) - 1) * rng.choice([-1, 1], DRAWS)


def _shifted(scale: Fraction, rng: np.random.Generator) -> Int64s:
    return Noise(rng.bytes).laplace([scale] * DRAWS) + 1


def _one_sided(scale: Fraction, rng: np.random.Generator) -> Int64s:
    return np.abs(Noise(rng.bytes).laplace([scale] * DRAWS))


def _unfair_sign(scale: Fraction, rng: np.random.Generator) -> Int64s:
    drawn = Noise(rng.bytes).laplace([scale] * DRAWS)
    return np.where(rng.random(DRAWS) < 0.15, np.abs(drawn), drawn)


def _cut_tail(scale: Fraction, rng: np.random.Generator) -> Int64s:
    drawn = Noise(rng.bytes).laplace([scale] * 2 * DRAWS)
    return drawn[np.abs(drawn) < 6 * scale][:DRAWS]


def _gaussian(scale: Fraction, rng: np.random.Generator) -> Int64s:
    return np.rint(rng.normal(0, math.sqrt(2) * float(scale), DRAWS)).astype(np.int64)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("wrong", "scales"),
    [
        (_rounded, SMALL),  # the difference vanishes with 1 / scale
        (_two_zeros, SMALL),
        (_shifted, SMALL),
        (_one_sided, SCALES),
        (_unfair_sign, SCALES),
        (_cut_tail, SCALES[1:]),
        (_gaussian, SCALES),
    ],
)
def test_a_wrong_sampler_is_rejected(wrong: Sampler, scales: Sequence[Fraction]) -> None:
    """Power above 1 - 1e-6 for each sampler and scale, by their noncentralities; the seed is fixed."""
    for scale in scales:
        assert laplace_fit(wrong(scale, np.random.default_rng(23)), scale) < ALARM


def test_a_repeated_draw_is_not_independent() -> None:
    drawn = np.repeat(seeded(24).laplace([Fraction(10)] * 5_000), 2) > 0
    assert independent(drawn[1:], drawn[:-1]) < ALARM


# arguments


@pytest.mark.parametrize("scale", [Fraction(2**50), Fraction(2**50 + 1), Fraction(10**40, 3)])
def test_a_scale_beyond_the_checked_bounds_is_refused(scale: Fraction) -> None:
    with pytest.raises(ValueError, match=r"below 2\*\*50"):
        Noise().laplace([scale])


def test_a_float_never_becomes_a_scale() -> None:
    with pytest.raises((AttributeError, TypeError)):
        Noise().laplace([0.5])  # type: ignore[list-item]


def test_a_run_that_cannot_happen_stops_the_release() -> None:
    class Stuck(Noise):
        def runs(self, size: int) -> Int64s:
            return np.full(size, 4096)

    with pytest.raises(ArithmeticError, match="entropy"):
        Stuck().laplace([Fraction(1)])


huge = st.integers(1, 2**200)


@given(huge, huge)
def test_a_scale_is_rounded_up_only_and_by_almost_nothing(numerator: int, denominator: int) -> None:
    scale = Fraction(numerator, denominator)
    if scale > 2**50 - 1:
        with pytest.raises(ValueError, match=r"below 2\*\*50"):
            ratio(scale)
        return
    t, s = ratio(scale)
    assert 0 < t < 2**50
    assert 0 < s < 2**50
    assert scale <= Fraction(t, s) <= scale + max(scale, Fraction(1)) / 2**48


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 64, 65])
def test_bounded_integers_are_uniform(bound: int) -> None:
    """False-alarm rate 1e-8 each, on fresh entropy."""
    counts = np.bincount(Noise().below(np.full(DRAWS, bound, np.int64)), minlength=bound)
    assert counts.size == bound
    if bound > 1:
        flat = Cells(np.arange(1, bound), np.full(bound, 1 / bound))
        assert flat.p_value(counts) > ALARM


def _masses(cells: Cells, scale: Fraction) -> NDArray[np.float64]:
    """The probabilities of the cells under noise of another scale."""
    edges = cells.edges.tolist()
    inner = [laplace_mass(low, high - 1, scale) for low, high in pairwise(edges)]
    return np.array([laplace_below(edges[0], scale), *inner, laplace_below(1 - edges[-1], scale)])


def test_a_scale_of_zero_gives_zero_and_no_scale_gives_nothing() -> None:
    assert Noise().laplace([Fraction(0)] * 3).tolist() == [0, 0, 0]
    assert Noise().laplace([]).size == 0
    assert Noise().laplace([]).dtype == np.int64


def test_the_largest_scale_draws_without_overflow() -> None:
    """False-alarm rate 1e-8."""
    scale = Fraction(2**50 - 1)
    assert laplace_fit(Noise().laplace([scale] * 20_000), scale) > ALARM
