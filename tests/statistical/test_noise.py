"""What noise refuses, how digits decide close cases, and that it is the noise of an independent implementation."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.noise import Noise, words
from dpops.noise.discrete import ratio
from dpops.types import Int64s
from tests.statistical.checks import Cells, same_law

ALARM = 1e-8


def test_two_calls_differ() -> None:
    """Two calls of 64 draws agree with probability far below 1e-100."""
    noise = Noise()
    assert not np.array_equal(noise.laplace([Fraction(10**6)] * 64), noise.laplace([Fraction(10**6)] * 64))


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3, 2), Fraction(500)])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_agrees_with_that_of_opendp(kind: str, scale: Fraction) -> None:
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


# arguments


@pytest.mark.parametrize("variance", [Fraction(-1, 10**30), Fraction(2**98)])
def test_a_variance_out_of_bounds_is_refused(variance: Fraction) -> None:
    with pytest.raises(ValueError, match="noise variance must be"):
        Noise().gaussian([Fraction(1), variance])


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
    counts = np.bincount(Noise().below(np.full(120_000, bound, np.int64)), minlength=bound)
    assert counts.size == bound
    if bound > 1:
        flat = Cells(np.arange(1, bound), np.full(bound, 1 / bound))
        assert flat.p_value(counts) > ALARM


def test_a_scale_of_zero_gives_zero_and_no_scale_gives_nothing() -> None:
    assert Noise().laplace([Fraction(0)] * 3).tolist() == [0, 0, 0]
    assert Noise().laplace([]).size == 0
    assert Noise().laplace([]).dtype == np.int64
