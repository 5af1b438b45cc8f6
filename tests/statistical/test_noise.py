"""What noise refuses, how digits decide close cases, and that it is the noise of an independent implementation.

Rounded Gaussian noise hides a vector as a normal number would.
"""

import math
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.claims import delta_of_gaussian
from dpops.noise import Noise, words
from dpops.noise.discrete import _rate, ratio
from dpops.types import Float64s, Int64s
from tests.statistical.checks import Cells, same_law

ALARM = 1e-8


def test_two_calls_differ():
    """Two calls of 64 draws agree with probability far below 1e-100."""
    noise = Noise()
    assert not np.array_equal(noise.laplace([Fraction(10**6)] * 64), noise.laplace([Fraction(10**6)] * 64))


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3, 2), Fraction(500)])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_agrees_with_that_of_opendp(kind, scale):
    """An independent implementation; false-alarm rate 1e-8 for each, no use of our own formulas."""
    dp.enable_features("contrib")
    atoms = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "gaussian":
        theirs, ours = dp.m.make_gaussian(atoms, dp.l2_distance(T="f64"), scale=float(scale)), Noise().gaussian
    else:
        theirs, ours = dp.m.make_laplace(atoms, dp.l1_distance(T="i64"), scale=float(scale)), Noise().laplace
    spread = scale**2 if kind == "gaussian" else scale
    assert same_law(ours([spread] * 40_000), np.array(theirs([0] * 40_000), np.int64)) > ALARM


# digits


def test_a_uniform_is_below_an_exponential_as_often_as_it_should_be():
    """A word equal to the edge is decided by the digits behind it."""
    edge = words.exp_floor(Fraction(1), 64)
    behind = words.exp_floor(Fraction(1), 128) - (edge << 64)
    for low, below in ((behind - 2**40, True), (behind + 2**40, False)):
        uniform = words.Uniform(edge, lambda _, low=low: low.to_bytes(8, "little"))
        assert uniform.is_below_exp(Fraction(1)) is below


def test_runs_on_an_edge_are_decided_by_more_digits():
    edges = [words.exp_floor(Fraction(k), 64) for k in (1, 2, 44)]
    for word, before, after in [(edges[0], 0, 1), (edges[1], 1, 2), (edges[2], 43, 44), (0, 44, None)]:
        for behind, run in ((2**64 - 1, before), (0, after)):
            drawn = iter([word.to_bytes(8, "little"), behind.to_bytes(8, "little")])
            source = words.Words(lambda _, drawn=drawn: next(drawn, bytes(8)))
            if run is not None:
                assert source.runs(1).tolist() == [run]


# arguments


@pytest.mark.parametrize("variance", [Fraction(-1, 10**30), Fraction(2**98)])
def test_a_variance_out_of_bounds_is_refused(variance):
    with pytest.raises(ValueError, match="noise variance must be"):
        Noise().gaussian([Fraction(1), variance])


@pytest.mark.parametrize("scale", [Fraction(2**50), Fraction(2**50 + 1), Fraction(10**40, 3)])
def test_a_scale_beyond_the_checked_bounds_is_refused(scale):
    with pytest.raises(ValueError, match=r"below 2\*\*50"):
        Noise().laplace([scale])


def test_a_float_never_becomes_a_scale():
    with pytest.raises((AttributeError, TypeError)):
        Noise().laplace([0.5])


def test_a_run_that_cannot_happen_stops_the_release():
    class Stuck(Noise):
        def runs(self, size: int) -> Int64s:
            return np.full(size, 4096)

    with pytest.raises(ArithmeticError, match="entropy"):
        Stuck().laplace([Fraction(1)])


huge = st.integers(1, 2**200)


@given(huge, huge)
def test_a_scale_is_rounded_up_only_and_by_almost_nothing(numerator, denominator):
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
def test_bounded_integers_are_uniform(bound):
    """False-alarm rate 1e-8 each, on fresh entropy."""
    counts = np.bincount(Noise().below(np.full(120_000, bound, np.int64)), minlength=bound)
    assert counts.size == bound
    if bound > 1:
        flat = Cells(np.arange(1, bound), np.full(bound, 1 / bound))
        assert flat.p_value(counts) > ALARM


def test_a_scale_of_zero_gives_zero_and_no_scale_gives_nothing():
    assert Noise().laplace([Fraction(0)] * 3).tolist() == [0, 0, 0]
    assert Noise().laplace([]).size == 0
    assert Noise().laplace([]).dtype == np.int64


VARIANCES = [
    Fraction(1),
    Fraction(22, 7),
    Fraction(50_000, 3),
    Fraction(3 * 10**12 + 1, 3),
    Fraction(3_301_122_184_211),  # of a vehicle-day at a total of 2.64
    Fraction(2**98 - 1),
]


def test_a_rate_lies_between_its_bounds_which_close_in_with_each_word():
    """Of each row its own numbers: whatever digits are still to come, the rate of all of them is within."""
    entropy = np.random.default_rng(46)
    later = [int(word) for word in entropy.integers(0, 2**63, 3)]
    for row in range(200):
        variance = VARIANCES[row % len(VARIANCES)]
        t = math.isqrt(int(variance)) + 1
        whole, first = int(entropy.integers(0, 4 * t)), int(entropy.integers(0, 2**63)) * 2 + row % 2
        rest = iter(later)
        source = words.Words(lambda _, rest=rest: next(rest).to_bytes(8, "little"))
        bounds = _rate(source.uniform(first), whole, t, variance)
        number = first
        for count, word in enumerate(later, 1):
            low, high = bounds(64 * count)
            for u in (Fraction(number, 2 ** (64 * count)), Fraction(number + 1, 2 ** (64 * count))):
                rate = (whole + u - variance / t) ** 2 / (2 * variance) + u / t
                assert low <= rate <= high
            assert high - low <= Fraction(20, 2 ** (64 * count))
            number = number << 64 | word


# what it hides


def law_of_rounded(sigma: float, reach: int) -> Float64s:
    """The probabilities of -reach, .., reach."""
    law = NormalDist(0, sigma)
    return np.array([law.cdf(k + 0.5) - law.cdf(k - 0.5) for k in range(-reach, reach + 1)])


def law_of_discrete(sigma: float, reach: int) -> Float64s:
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma * sigma))
    return weights / weights.sum()


def delta_of(law: Float64s, vector: tuple[int, ...], epsilon: float) -> float:
    """The exact delta of integers with independent noise of this law: of a vector against none, over all results."""
    padded = np.pad(law, max(vector))
    true, other = np.ones(1), np.ones(1)
    for number in vector:
        true = np.outer(true, np.roll(padded, number)).ravel()
        other = np.outer(other, padded).ravel()
    return float(np.maximum(true - math.exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("sigma", [1.0, 1.7, 3.2])
@pytest.mark.parametrize("vector", [(1,), (3,), (1, 1), (2, 1), (3, 4), (1, 1, 1)])
def test_rounded_noise_hides_a_vector_of_any_shape_as_one_normal_number_hides_its_length(sigma, vector):
    law, mu = law_of_rounded(sigma, math.ceil(9 * sigma)), math.hypot(*vector) / sigma
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.64, 5.0):
        assert delta_of(law, vector, epsilon) <= delta_of_gaussian(epsilon, mu) + 1e-12


def test_discrete_noise_does_not():
    """So the claim is of the rounded law: a release that draws the other one under it is found out by its law."""
    beyond = [
        (sigma, vector, epsilon)
        for sigma, vector, epsilon in product((0.6, 1.0, 1.7), ((1,), (1, 1), (2, 1)), (0.1, 0.5, 1.0, 2.64))
        if delta_of(law_of_discrete(sigma, 30), vector, epsilon)
        > delta_of_gaussian(epsilon, math.hypot(*vector) / sigma)
    ]
    assert beyond


def test_digits_that_were_drawn_stay():
    source = words.Words(lambda size: b"\x07" * size)
    uniform = source.uniform(2**63 + 5)
    assert uniform.to(128) >> 64 == uniform.to(64) == 2**63 + 5
    assert uniform.to(1) == 1
    assert uniform.to(128) % 2**64 == int.from_bytes(b"\x07" * 8, "little")


@pytest.mark.parametrize("draw", [Noise.gaussian, Noise.rounded_gaussian])
def test_every_row_is_drawn_where_chunks_meet(draw):
    """No number of so large a variance is 0, but for a chance of 1e-10."""
    assert np.all(draw(Noise(), [VARIANCES[-1]] * (2 * words.CHUNK + 3)) != 0)
