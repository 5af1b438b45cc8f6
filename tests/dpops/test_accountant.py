"""The accountant adds claims, limits say what fits, an allocation divides a budget, and losses are within claims."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.accountant import Accountant, DeltaLimit, PureLimit, limit_of, most_of
from dpops.allocation import Allocation, PlanShare
from dpops.claims import ZCDP, ApproxDP, Claim, ClaimError, GaussianDP, PureDP, rho_within

DELTA, TINY = Fraction(1, 10**6), Fraction(1, 10**30)
EPSILON = Fraction("2.64")
TOTAL = DeltaLimit(EPSILON, DELTA)
APART = DeltaLimit(EPSILON, DELTA, pure=Fraction(1))
IN_MU = DeltaLimit(EPSILON, DELTA, accounting="gdp")
IN_MU_APART = DeltaLimit(EPSILON, DELTA, pure=Fraction(1), accounting="gdp")

parts = st.fractions(0, 10, max_denominator=1000)
claims = st.one_of(
    parts.map(PureDP),
    parts.map(ZCDP),
    parts.map(GaussianDP),
    st.builds(ApproxDP, parts, st.fractions(0, 1, max_denominator=1000)),
)


def spent(*draws: Claim) -> Accountant:
    return Accountant().compose(draws)


@given(st.lists(claims, max_size=8), st.lists(claims, max_size=8))
def test_claims_add_up_exactly_in_any_order_and_any_grouping(some, others):
    total = spent(*some, *others)
    assert total == spent(*reversed(others), *reversed(some))
    assert total == spent(*some) + spent(*others)
    assert total.pure == sum(claim.epsilon for claim in [*some, *others] if isinstance(claim, PureDP))
    assert total.concentrated == sum(claim.rho for claim in [*some, *others] if isinstance(claim, ZCDP))
    assert total.gaussian == sum(claim.rho for claim in [*some, *others] if isinstance(claim, GaussianDP))
    assert spent(*total.claims()) == total


@given(st.lists(claims, max_size=6), claims)
def test_a_sum_covers_itself_and_every_part_of_it(some, more):
    before, after = spent(*some), spent(*some, more)
    assert after.covers(before)
    assert before.covers(after) == (before == after)


def test_kinds_do_not_cover_one_another():
    assert not spent(PureDP(Fraction(9))).covers(spent(ZCDP(Fraction(1))))
    assert not spent(ZCDP(Fraction(9))).covers(spent(PureDP(Fraction(1))))
    assert not spent(ZCDP(Fraction(9))).covers(spent(GaussianDP(Fraction(1))))
    assert not spent(GaussianDP(Fraction(9))).covers(spent(ZCDP(Fraction(1))))


def test_a_vehicle_in_some_groups_claims_the_largest_of_them():
    groups = {spent(PureDP(Fraction(epsilon))): 1 for epsilon in (1, 3, 2)}
    assert most_of(groups, 2).pure == 5
    assert most_of(groups, 9).pure == 6
    assert most_of(groups, 0) == most_of({}, 4) == Accountant()


@given(st.lists(st.tuples(claims, st.integers(1, 4)), max_size=6), st.integers(0, 12))
def test_groups_that_claim_the_same_are_counted_and_not_written_out(counted, most):
    groups = Counter[Accountant]()
    for claim, number in counted:
        groups[spent(claim)] += number
    columns = zip(*groups.elements(), strict=True)
    assert most_of(groups, most) == (
        tuple(sum(sorted(column, reverse=True)[:most], Fraction(0)) for column in columns) or Accountant()
    )


@given(st.lists(parts, max_size=5))
def test_an_epsilon_limit_takes_pure_claims_up_to_it(epsilons):
    total = spent(*map(PureDP, epsilons))
    assert PureLimit(Fraction(10)).fits(total) == (sum(epsilons) <= 10)
    assert PureLimit(Fraction(10)).shown(total) == ApproxDP(sum(epsilons, Fraction(0)), Fraction(0))


@pytest.mark.parametrize("claim", [ZCDP(DELTA), ApproxDP(DELTA, Fraction(0)), ApproxDP(Fraction(0), DELTA)])
def test_an_epsilon_limit_takes_nothing_else(claim):
    assert not PureLimit(Fraction(10)).fits(spent(claim))
    with pytest.raises(ClaimError, match="names no delta"):
        PureLimit(Fraction(10)).shown(spent(claim))


def test_a_limit_with_delta_is_spent_in_rho_to_its_last_bit():
    most = rho_within(EPSILON, DELTA)
    slots = [ZCDP(most / 24)] * 24
    assert TOTAL.fits(spent(*slots))
    assert not TOTAL.fits(spent(*slots, ZCDP(Fraction(1, 10**30))))
    assert float(TOTAL.shown(spent(*slots)).epsilon) == pytest.approx(2.64)
    assert TOTAL.shown(spent(*slots)).delta == DELTA


def test_a_limit_in_mu_is_spent_to_its_last_bit():
    most = GaussianDP.within(EPSILON, DELTA)
    slots = [most.times(Fraction(1, 24))] * 24
    assert spent(*slots) == IN_MU.most
    assert IN_MU.fits(spent(*slots))
    assert not TOTAL.fits(spent(*slots))
    assert not IN_MU.fits(spent(*slots, GaussianDP(Fraction(1, 10**30))))
    assert float(IN_MU.shown(spent(*slots)).epsilon) == pytest.approx(2.64)
    assert IN_MU.fraction(spent(*slots[:12])) == pytest.approx(0.5)


@pytest.mark.parametrize("other", [ZCDP(TINY), PureDP(TINY), ApproxDP(TINY, Fraction(0)), ApproxDP(Fraction(0), TINY)])
def test_a_limit_in_mu_takes_nothing_but_gaussian_noise(other):
    """Which of two sums a limit holds, and which part of it, may not follow from results: so there is one sum."""
    some = spent(GaussianDP(Fraction(1, 100)), other)
    assert not IN_MU.can_add(some)
    assert not IN_MU.fits(some)
    assert IN_MU_APART.fits(some) is isinstance(other, PureDP)
    with pytest.raises(ClaimError, match="Gaussian claims alone"):
        IN_MU.shown(some)


def test_a_limit_in_mu_takes_pure_claims_in_the_part_that_is_set_apart_for_them():
    full = spent(PureDP(Fraction(1)), GaussianDP.within(EPSILON - 1, DELTA))
    assert IN_MU_APART.most == full
    assert IN_MU_APART.fits(full)
    assert float(IN_MU_APART.shown(full).epsilon) == pytest.approx(2.64)
    assert not IN_MU_APART.fits(full + spent(PureDP(DELTA)))
    assert not IN_MU_APART.fits(full + spent(GaussianDP(DELTA)))


def test_pure_claims_count_half_their_square_where_nothing_is_set_apart():
    alone = spent(PureDP(EPSILON))
    assert not TOTAL.fits(alone)
    assert float(TOTAL.shown(alone).epsilon) == pytest.approx(16.4, abs=0.05)


def test_pure_claims_add_up_in_the_part_that_is_set_apart_for_them():
    rest = ZCDP(rho_within(EPSILON - 1, DELTA))
    full = spent(PureDP(Fraction(1, 2)), PureDP(Fraction(1, 2)), rest)
    assert APART.fits(full)
    assert float(APART.shown(full).epsilon) == pytest.approx(2.64)
    assert not APART.fits(full + spent(PureDP(DELTA)))
    assert not APART.fits(full + spent(ZCDP(DELTA)))


def test_approximate_claims_take_from_both_numbers():
    half = DELTA / 2
    draw = ApproxDP(Fraction(1), half)
    rest = ZCDP(rho_within(EPSILON - 1, half))
    assert TOTAL.fits(spent(draw, rest))
    assert not TOTAL.fits(spent(draw, ZCDP(rho_within(EPSILON - 1, DELTA))))
    shown = TOTAL.shown(spent(draw, rest))
    assert (float(shown.epsilon), shown.delta) == (pytest.approx(2.64), DELTA)
    assert TOTAL.shown(spent(draw)) == draw


@given(st.lists(st.fractions(Fraction(1, 100), 2, max_denominator=100), min_size=1, max_size=4))
def test_shown_totals_are_those_of_dp_accounting(rhos):
    from dp_accounting import dp_event, rdp  # which imports much of scipy: not for every worker

    theirs = rdp.RdpAccountant(orders=[1 + step / 500 for step in range(1, 20_000)])
    theirs.compose(dp_event.ComposedDpEvent([dp_event.ZCDpEvent(rho=float(rho)) for rho in rhos]))
    ours = TOTAL.shown(spent(*map(ZCDP, rhos)))
    assert float(ours.epsilon) == pytest.approx(theirs.get_epsilon(float(DELTA)), rel=1e-5)


@given(st.lists(claims, max_size=5), claims)
def test_what_fits_still_fits_with_less(some, more):
    for limit in (
        PureLimit(Fraction(20)),
        DeltaLimit(Fraction(20), DELTA),
        DeltaLimit(Fraction(20), DELTA, Fraction(9)),
        DeltaLimit(Fraction(20), DELTA, Fraction(9), "gdp"),
    ):
        assert limit.fits(spent(*some)) or not limit.fits(spent(*some, more))


@pytest.mark.parametrize("limit", [PureLimit(EPSILON), TOTAL, APART, IN_MU, IN_MU_APART])
def test_a_limit_is_read_back_as_it_was_written(limit):
    assert limit_of(str(limit)) == limit


def test_a_limit_may_be_lowered_and_its_kind_stays():
    assert PureLimit(Fraction(1)).lowers(PureLimit(Fraction(2)))
    assert not PureLimit(Fraction(2)).lowers(PureLimit(Fraction(1)))
    assert DeltaLimit(EPSILON, DELTA / 2).lowers(TOTAL)
    assert not DeltaLimit(EPSILON, DELTA * 2).lowers(TOTAL)
    assert not PureLimit(EPSILON).lowers(TOTAL)
    assert not TOTAL.lowers(PureLimit(EPSILON))
    assert not APART.lowers(TOTAL)
    assert not IN_MU.lowers(TOTAL)
    assert not TOTAL.lowers(IN_MU)


@pytest.mark.parametrize(
    "text",
    [
        "0", "epsilon=1,delta=0", "epsilon=1,delta=1", "epsilon=1,delta=1/9,pure=1", "delta=1",
        "epsilon=1,delta=1/9,accounting=rdp",
    ],
)  # fmt: skip
def test_a_limit_that_is_none_is_refused(text):
    with pytest.raises(ClaimError):
        limit_of(text)


def test_neither_part_lends_to_the_other():
    assert not APART.fits(spent(PureDP(Fraction(3, 2))))
    assert not APART.fits(spent(ZCDP(rho_within(EPSILON, DELTA))))


def test_no_rho_fits_once_the_delta_is_used_up():
    gone = spent(ApproxDP(Fraction(0), DELTA))
    assert TOTAL.fits(gone)
    assert not TOTAL.fits(gone + spent(ZCDP(DELTA)))
    assert not TOTAL.fits(gone + spent(ApproxDP(Fraction(0), DELTA)))
    with pytest.raises(ClaimError, match="between 0 and 1"):
        TOTAL.shown(gone + spent(ZCDP(DELTA)))


# --- An allocation divides a budget so that nobody spends more than is debited, and debits no more than there is. -----


epsilons = st.fractions(Fraction(1, 1000), 100, max_denominator=10**6)
numbers = st.integers(1, 10_000)
ONE = Fraction(1)


@given(epsilons, numbers, numbers)
def test_per_hat_is_the_same_in_every_hat(epsilon, most_hats, plans):
    assert Allocation(epsilon=epsilon).hat_epsilon(most_hats, plans) == epsilon


@given(epsilons, st.lists(st.integers(1, 30), min_size=1, max_size=30))
def test_per_period_spends_all_of_the_period_and_no_more(epsilon, most_hats):
    """Each slot may have another number of HATs per vehicle; the busiest vehicle of each spends all."""
    allocation = Allocation(epsilon=epsilon, per="period")
    plans = allocation.plan_count(len(most_hats))
    assert sum(allocation.hat_epsilon(most, plans) * most for most in most_hats) == epsilon == allocation.total


@given(epsilons, st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=30))
def test_no_vehicle_spends_more_than_a_slots_debit(epsilon, slots):
    """(most HATs of any vehicle, HATs of this one) in each slot."""
    for allocation in (Allocation(epsilon=epsilon), Allocation(epsilon=epsilon, per="period")):
        for most, own in slots:
            share = PlanShare(np.ones(0, np.bool_), most, allocation.hat_epsilon(most, len(slots)))
            ((spent, debit),) = allocation.debits(share, [share.bound], share.bound)
            assert share.epsilon_hat * min(own, most) <= spent
            assert debit == spent


def test_whole_periods_are_one_plan_that_its_first_slot_is_debited_for():
    slots, allocation = (0, 3600, 7200), Allocation(epsilon=ONE)
    whole = replace(allocation, scope="period")
    assert [allocation.planned_with(slot, slots) for slot in slots] == [(0,), (3600,), (7200,)]
    assert [whole.planned_with(slot, slots) for slot in slots] == [slots] * 3
    assert (allocation.plan_count(3), whole.plan_count(3)) == (3, 1)
    share = PlanShare(np.ones(0, np.bool_), 3, ONE)
    debits = whole.debits(share, [2 * ONE, 0 * ONE, ONE], 3 * ONE)
    assert debits == [(2 * ONE, 3 * ONE), (0 * ONE, 0 * ONE), (ONE, 0 * ONE)]


def test_the_slots_of_a_period_matter_where_they_share_a_total_or_a_plan():
    assert not Allocation(epsilon=ONE).needs_period
    assert Allocation(epsilon=ONE, per="period").needs_period
    assert replace(Allocation(epsilon=ONE), scope="period").needs_period
