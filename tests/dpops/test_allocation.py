"""The allocation divides a budget so that nobody spends more than is debited, and debits no more than there is."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpops.allocation import Allocation, PlanShare

epsilons = st.fractions(Fraction(1, 1000), 100, max_denominator=10**6)
numbers = st.integers(1, 10_000)
ONE = Fraction(1)


@given(epsilons, numbers, numbers)
def test_per_hat_is_the_same_in_every_hat(epsilon: Fraction, most_hats: int, plans: int) -> None:
    assert Allocation(epsilon=epsilon).hat_epsilon(most_hats, plans) == epsilon


@given(epsilons, st.lists(st.integers(1, 30), min_size=1, max_size=30))
def test_per_period_spends_all_of_the_period_and_no_more(epsilon: Fraction, most_hats: list[int]) -> None:
    """Each slot may have another number of HATs per vehicle; the busiest vehicle of each spends all."""
    allocation = Allocation(epsilon=epsilon, per="period")
    plans = allocation.plan_count(len(most_hats))
    assert sum(allocation.hat_epsilon(most, plans) * most for most in most_hats) == epsilon == allocation.total


@given(epsilons, st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=30))
def test_no_vehicle_spends_more_than_a_slots_debit(epsilon: Fraction, slots: list[tuple[int, int]]) -> None:
    """(most HATs of any vehicle, HATs of this one) in each slot."""
    for allocation in (Allocation(epsilon=epsilon), Allocation(epsilon=epsilon, per="period")):
        for most, own in slots:
            share = PlanShare(np.ones(0, np.bool_), most, allocation.hat_epsilon(most, len(slots)))
            ((spent, debit),) = allocation.debits(share, [share.bound], share.bound)
            assert share.epsilon_hat * min(own, most) <= spent
            assert debit == spent


def test_whole_periods_are_one_plan_that_its_first_slot_is_debited_for() -> None:
    slots, allocation = (0, 3600, 7200), Allocation(epsilon=ONE)
    whole = replace(allocation, scope="period")
    assert [allocation.planned_with(slot, slots) for slot in slots] == [(0,), (3600,), (7200,)]
    assert [whole.planned_with(slot, slots) for slot in slots] == [slots] * 3
    assert (allocation.plan_count(3), whole.plan_count(3)) == (3, 1)
    share = PlanShare(np.ones(0, np.bool_), 3, ONE)
    debits = whole.debits(share, [2 * ONE, 0 * ONE, ONE], 3 * ONE)
    assert debits == [(2 * ONE, 3 * ONE), (0 * ONE, 0 * ONE), (ONE, 0 * ONE)]


def test_the_slots_of_a_period_matter_where_they_share_a_total_or_a_plan() -> None:
    assert not Allocation(epsilon=ONE).needs_period
    assert Allocation(epsilon=ONE, per="period").needs_period
    assert replace(Allocation(epsilon=ONE), scope="period").needs_period
