"""The exponential mechanism: its exact law, its bounds, and what a wrong rate would give away."""

import functools
import itertools
import math
from decimal import ROUND_UP, Context, Inexact, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.means.clipping import private_quantiles
from dpops.means.forecasts import expected_quantiles
from dpops.noise import Noise
from dpops.noise import exponential as choice
from dpops.noise.exponential import MOST_CANDIDATES, choose, exp_minus
from dpops.types import Int64s
from tests.statistical.checks import chi_square_fit, seeded

DRAWS = 60_000


def ints(*values: int) -> Int64s:
    return np.array(values, np.int64)


def law(widths: Int64s, costs: Int64s, rate: Fraction) -> list[float]:
    """P(entry) of the exponential mechanism, straight from its definition."""
    weights = [
        w * math.exp(-float(rate) * int(c - costs[widths > 0].min())) for w, c in zip(widths, costs, strict=True)
    ]
    return [w / math.fsum(weights) for w in weights]


CASES = [
    (ints(1, 1), ints(0, 1), Fraction(1)),
    (ints(3, 0, 5, 2), ints(0, 0, 1, 3), Fraction(1, 3)),
    (ints(10, 1, 700), ints(900, 890, 902), Fraction(22, 7)),
    (ints(1, 1, 1, 1), ints(4, 3, 2, 9), Fraction(1, 1000)),
    (ints(1 << 29, 1 << 10), ints(11, 0), Fraction(1)),
]


@pytest.mark.parametrize(("widths", "costs", "rate"), CASES)
def test_draws_follow_the_exponential_law(widths: Int64s, costs: Int64s, rate: Fraction) -> None:
    """False-alarm rate 1e-6 each; a rate wrong by 5 % in the first case is seen with probability 1 - 1e-4."""
    first = np.arange(DRAWS) * widths.size
    drawn = choose(np.tile(widths, DRAWS), np.tile(costs, DRAWS), first, [rate] * DRAWS, seeded(1))
    assert chi_square_fit(np.bincount(drawn.entry - first, minlength=widths.size), law(widths, costs, rate)) > 1e-6
    assert np.all((drawn.offset >= 0) & (drawn.offset < np.tile(widths, DRAWS)[drawn.entry]))
    widest = int(np.argmax(widths))
    inside = drawn.offset[drawn.entry - first == widest]
    if inside.size > 1_000 and widths[widest] > 1:  # every candidate of an entry is as likely as the next
        tenths = np.minimum(inside * 10 // int(widths[widest]), 9) if widths[widest] >= 10 else inside
        cells = np.bincount(tenths)
        assert chi_square_fit(cells, [1 / cells.size] * cells.size) > 1e-6


def test_a_rate_five_percent_off_fails_the_check_of_the_law() -> None:
    widths, costs, rate = CASES[0]
    first = np.arange(DRAWS) * 2
    drawn = choose(np.tile(widths, DRAWS), np.tile(costs, DRAWS), first, [rate * Fraction(105, 100)] * DRAWS, seeded(2))
    assert chi_square_fit(np.bincount(drawn.entry - first), law(widths, costs, rate)) < 1e-4


def test_choices_of_one_call_have_their_own_rates_and_sizes() -> None:
    repeats = 20_000
    widths = np.concatenate([case[0] for case in CASES[:4]])
    costs = np.concatenate([case[1] for case in CASES[:4]])
    first = np.cumsum([0, *(case[0].size for case in CASES[:3])])
    all_first = (first + widths.size * np.arange(repeats)[:, None]).ravel()
    rates = [case[2] for case in CASES[:4]] * repeats
    drawn = choose(np.tile(widths, repeats), np.tile(costs, repeats), all_first, rates, seeded(3)).entry - all_first
    for column, case in enumerate(CASES[:4]):
        counts = np.bincount(drawn.reshape(repeats, -1)[:, column], minlength=case[0].size)
        assert chi_square_fit(counts, law(*case)) > 1e-6


def test_the_law_is_right_where_the_proposal_weights_have_reached_their_floor() -> None:
    """At rate 50 every further cost has proposal weight 1, so only the acceptance tells costs 1 and 2 apart."""
    counts = np.zeros(2, np.int64)
    noise = seeded(4)
    first = np.arange(2_000) * 2
    wide = ints(1, MOST_CANDIDATES - 1)
    drawn = choose(np.tile(wide, 2_000), np.tile(ints(0, 1), 2_000), first, [Fraction(21)] * 2_000, noise)
    counts += np.bincount(drawn.entry - first, minlength=2)
    assert chi_square_fit(counts, law(wide, ints(0, 1), Fraction(21))) > 1e-6


@pytest.mark.parametrize("coin", range(8))
def test_a_coin_too_near_its_threshold_is_settled_by_more_bits(coin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three bits of a coin for exp(-3/2): those below 8 exp(-3/2) = 1.79 accept, the one that straddles it at 79 %."""
    monkeypatch.setattr(choice, "exp_minus", functools.cache(exp_minus))  # of one rate, again and again
    noise = seeded(5)
    share = np.mean([choice._accepts(Fraction(1, 2), 3, 1 << 32, coin, 3, noise) for _ in range(1_500)])
    expected = min(max(8 * math.exp(-1.5) - coin, 0), 1)
    assert share == pytest.approx(expected, abs=5 * (expected * (1 - expected) / 1_500) ** 0.5)


def test_the_acceptance_is_bounded_within_one_part_in_two_to_the_62() -> None:
    for rate in (Fraction(1, 80), Fraction(3), Fraction(1, 10**6), Fraction(700)):
        weight, low, high = choice._table(rate, 4_096)
        assert np.all(high - low <= 1)
        assert np.all(weight >= 1)
        exact = 2.0**32 * np.exp(-float(rate) * np.arange(4_096)) / weight
        np.testing.assert_allclose(low / 2.0**62, exact, rtol=1e-9, atol=1e-15)


@given(st.fractions(0, 60), st.integers(16, 300))
def test_the_exponential_is_bounded_from_both_sides(rate: Fraction, bits: int) -> None:
    low, high = exp_minus(rate, bits)
    assert 0 <= high - low <= 3
    assert low / 2**bits <= math.exp(-rate) * (1 + 1e-12)
    assert high / 2**bits >= math.exp(-rate) * (1 - 1e-12)


@given(st.fractions(0, 60, max_denominator=1 << 20), st.integers(16, 300))
def test_the_bounds_are_on_either_side_of_the_exponential_to_its_last_bit(rate: Fraction, bits: int) -> None:
    below, above = by_taylor(rate, bits + 40)
    low, high = exp_minus(rate, bits)
    assert low << 40 <= above, "a float would not tell"
    assert below <= high << 40
    assert above - below < 1 << 30


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 10**70), Fraction(10**7), Fraction(10**30)])
def test_bounds_hold_at_rates_of_next_to_nothing_and_beyond_all_bits(rate: Fraction) -> None:
    low, high = exp_minus(rate, 192)
    one = 1 << 192
    assert (low <= 0 < high) if rate > 1 else (low < one <= high)
    assert high - low <= 3


def by_taylor(rate: Fraction, bits: int) -> tuple[int, int]:
    """Integers around 2**bits exp(-rate), in integers alone: an alternating sum at rate / 64, squared six times."""
    work = bits + 64
    small, term, below, above, k = rate / 64, Fraction(1), Fraction(0), Fraction(1), 0
    while term > Fraction(1, 1 << work):
        k += 2
        below = above - term * small / (k - 1)
        term *= small**2 / (k * (k - 1))
        above = below + term
    low, high = math.floor(below * (1 << work)), math.ceil(above * (1 << work))
    for _ in range(6):
        low, high = low * low >> work, -(-high * high >> work)
    return low >> (work - bits), -(-high >> (work - bits))


@pytest.mark.parametrize("widths", [[], [0, 0], [-1, 3], [MOST_CANDIDATES, 1]])
def test_a_choice_without_candidates_or_with_too_many_is_refused(widths: list[int]) -> None:
    with pytest.raises(ValueError, match="candidates"):
        choose(ints(*widths), np.zeros(len(widths), np.int64), ints(0), [Fraction(1)], Noise())
    with pytest.raises(ValueError, match="rate"):
        exp_minus(Fraction(-1), 10)


# private quantiles


def quantile_law(
    values: tuple[int, ...], upper: int, rank: Fraction, epsilon: Fraction, half: bool = True
) -> list[float]:
    """P(x) for x = 1..upper from the definition: rank(x) is the number of values below x."""
    rate = float(epsilon) / (2 if half else 1)
    weights = [math.exp(-rate * abs(sum(v < x for v in values) - float(rank))) for x in range(1, upper + 1)]
    return [w / math.fsum(weights) for w in weights]


def largest_loss(users: int, upper: int, rank: Fraction, epsilon: Fraction, half: bool = True) -> float:
    """The largest log ratio over all datasets, all neighbours that replace one value, and all outputs."""
    worst = 0.0
    for values in itertools.product(range(upper + 1), repeat=users):
        one = quantile_law(values, upper, rank, epsilon, half)
        for value in range(upper + 1):
            other = quantile_law((*values[1:], value), upper, rank, epsilon, half)
            worst = max(worst, *(abs(math.log(p / q)) for p, q in zip(one, other, strict=True)))
    return worst


@pytest.mark.parametrize("rank", [Fraction(0), Fraction(3, 10), Fraction(1), Fraction(27, 10), Fraction(3)])
def test_the_law_of_the_quantile_loses_at_most_epsilon(rank: Fraction) -> None:
    epsilon = Fraction(3, 2)
    assert largest_loss(3, 4, rank, epsilon) <= epsilon + Fraction(1, 10**9)


def test_without_the_half_in_its_rate_the_quantile_would_lose_more() -> None:
    assert largest_loss(3, 4, Fraction(1), Fraction(3, 2), half=False) > 1.2 * 1.5


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("values", "upper", "rank", "epsilon"),
    [
        ((2, 2, 7), 9, Fraction(1), Fraction(1)),
        ((5,), 6, Fraction(0), Fraction(2)),
        ((0, 0, 9, 9), 9, Fraction(4, 10), Fraction(3)),
        ((3, 1, 4, 1, 5), 8, Fraction(45, 10), Fraction(1, 2)),
        ((4, 4, 4, 4, 4, 4), 9, Fraction(3), Fraction(8)),
    ],
)
def test_quantile_draws_follow_that_law(values: tuple[int, ...], upper: int, rank: Fraction, epsilon: Fraction) -> None:
    """False-alarm rate 1e-6 each. Ties (gaps of no width), values at both ends, targets between ranks."""
    first = np.arange(DRAWS) * len(values)
    many = np.tile(ints(*values), DRAWS)
    drawn = private_quantiles(many, first, np.full(DRAWS, upper), [rank] * DRAWS, [epsilon] * DRAWS, seeded(6))
    counts = np.bincount(drawn, minlength=upper + 1)
    assert counts[0] == 0
    assert chi_square_fit(counts[1:], quantile_law(values, upper, rank, epsilon)) > 1e-6


def test_the_forecast_of_a_quantile_is_its_law() -> None:
    values, upper, rank, epsilon = (10, 20, 21, 80), 100, Fraction(1), Fraction(4)
    reach = np.cumsum(quantile_law(values, upper, rank, epsilon))
    rows, ends = np.array([values], float), np.array([upper], float)
    [points] = expected_quantiles(rows, ends, float(rank), float(epsilon), 50)
    exact = [int(np.searchsorted(reach, (i + 0.5) / 50)) + 1 for i in range(50)]
    np.testing.assert_allclose(points, exact, atol=1.0)


def test_how_a_program_has_set_its_own_decimals_moves_no_bound() -> None:
    """Else a choice would be private or not as its caller counts money."""
    usual = [exp_minus(Fraction(rate), 128) for rate in (1, 30, 60)]
    with localcontext(Context(prec=3, rounding=ROUND_UP, Emin=-5, Emax=5, traps=[Inexact])):
        assert [exp_minus(Fraction(rate), 128) for rate in (1, 30, 60)] == usual
