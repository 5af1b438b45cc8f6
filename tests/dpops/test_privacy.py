"""Claims add up, exactly, over the HATs and slots that one vehicle takes part in."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.claims import PerHat, PerPeriod, PureDP, compose, slot_debit

epsilons = st.fractions(0, 100, max_denominator=10**6)
numbers = st.integers(1, 10_000)


@given(st.lists(epsilons, max_size=20))
def test_epsilons_add_up_exactly_in_any_order(parts: list[Fraction]) -> None:
    total = compose(PureDP(part) for part in parts)
    assert total.epsilon == sum(parts)
    assert compose(PureDP(part) for part in reversed(parts)) == total
    assert compose([compose([PureDP(part)]) for part in parts]) == total


def test_nothing_spent_is_no_epsilon() -> None:
    assert compose([]) == PureDP(Fraction(0))


def test_ten_tenths_are_one() -> None:
    assert compose([PureDP(Fraction(1, 10))] * 10) == PureDP(Fraction(1))


def test_a_negative_epsilon_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        PureDP(Fraction(-1, 10**9))


@given(epsilons, numbers, numbers)
def test_per_hat_is_the_same_in_every_hat(epsilon: Fraction, most_cells: int, slots: int) -> None:
    hat = PerHat(epsilon).hat(most_cells, slots)
    assert hat == epsilon
    assert slot_debit(hat, most_cells % 50) == epsilon * (most_cells % 50)


@given(epsilons, st.lists(st.integers(1, 30), min_size=1, max_size=30))
def test_per_period_never_spends_more_than_the_period_has(epsilon: Fraction, cells: list[int]) -> None:
    """Each slot may have another number of cells per vehicle; the busiest vehicle of each spends all."""
    slots = len(cells)
    debits = [slot_debit(PerPeriod(epsilon).hat(most, slots), most) for most in cells]
    assert sum(debits) == epsilon


@given(epsilons, st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=30))
def test_no_vehicle_spends_more_than_the_slots_debit(epsilon: Fraction, slots: list[tuple[int, int]]) -> None:
    """(most cells of any vehicle, cells of this one) in each slot."""
    for composition in (PerHat(epsilon), PerPeriod(epsilon)):
        for most, mine in slots:
            hat = composition.hat(most, len(slots))
            spent = compose([PureDP(hat)] * min(mine, most))
            assert spent.epsilon <= slot_debit(hat, most)
