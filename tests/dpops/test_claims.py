"""Claims are read back as written, and convert with every rounding upwards."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops import claims
from dpops.claims import ZCDP, ApproxDP, ClaimError, GaussianDP, PureDP, claim_of, mills_ratio, rho_within

epsilons = st.fractions(0, 100, max_denominator=10**6)
costs = st.fractions(Fraction(1, 10**6), 1000, max_denominator=10**9)
deltas = st.fractions(Fraction(1, 10**12), Fraction(1, 10), max_denominator=10**12)
DELTA = Fraction(1, 10**6)


@given(epsilons, deltas)
def test_a_claim_is_read_back_as_it_was_written(number, delta):
    written: list[claims.Claim] = [PureDP(number), ZCDP(number), GaussianDP(number), ApproxDP(number, delta)]
    assert [claim_of(str(claim)) for claim in written] == written


@pytest.mark.parametrize("text", ["delta=1/2", "rho=1,delta=1/2", "sigma=2"])
def test_a_claim_of_no_known_kind_is_refused(text):
    with pytest.raises(ClaimError, match="a claim needs"):
        claim_of(text)


@given(costs, deltas)
def test_rho_becomes_an_epsilon_that_dp_accounting_does_not_exceed(rho, delta):
    """The same conversion at many orders. Ours may be lower by its better order, and by no more than that."""
    from dp_accounting import rdp  # which imports much of scipy: not for every worker

    best = 1 + np.sqrt(-np.log(float(delta)) / float(rho))
    orders = 1 + (best - 1) * np.geomspace(0.01, 100, 20_001)
    theirs, _ = rdp.compute_epsilon(orders, orders * float(rho), float(delta))
    assert float(ZCDP(rho).approx(delta).epsilon) == pytest.approx(theirs, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("sigma", [0.6, 1.85, 4.5])
@pytest.mark.parametrize("times", [1, 24])
def test_gaussian_noise_claims_no_less_than_its_exact_privacy_loss(sigma, times):
    from dp_accounting import dp_event, pld

    rho = sum((ZCDP.of_gaussian(Fraction(1), Fraction(sigma) ** 2).rho for _ in range(times)), Fraction(0))
    exact = pld.PLDAccountant(value_discretization_interval=1e-3)
    exact.compose(dp_event.GaussianDpEvent(sigma), times)
    ours, theirs = float(ZCDP(rho).approx(DELTA).epsilon), exact.get_epsilon(float(DELTA))
    assert theirs <= ours <= 1.12 * theirs


@pytest.mark.parametrize("sigma", [0.6, 1.85, 4.5, 60.0])
@pytest.mark.parametrize("times", [1, 24])
def test_a_gaussian_claim_is_the_exact_privacy_loss_of_gaussian_noise(sigma, times):
    from dp_accounting import dp_event, pld

    claim = GaussianDP.of_gaussian(Fraction(1), Fraction(sigma) ** 2).times(Fraction(times))
    exact = pld.PLDAccountant(value_discretization_interval=1e-3 / sigma)
    exact.compose(dp_event.GaussianDpEvent(sigma), times)
    assert float(claim.approx(DELTA).epsilon) == pytest.approx(exact.get_epsilon(float(DELTA)), rel=2e-3)


@given(st.floats(0, 300), st.floats(1e-3, 40))
def test_the_delta_of_a_gaussian_claim_is_never_below_the_exact_one(epsilon, mu):
    """Sixty digits: the integral of the normal density, by its series."""
    exact = exact_delta(epsilon, mu)
    ours = claims.delta_of_gaussian(epsilon, mu)
    assert ours >= exact
    assert ours <= exact * 1.0001 or ours - exact < 1e-11 or ours < 1e-280


WIDE = [Fraction(10) ** power * 7 / 3 for power in (-6, -2, 0, 2, 4, 6, 9, 15, 20, 29)]
SMALL = [Fraction(1, 10**30), Fraction(1, 10**6), Fraction(1, 2), 1 - Fraction(1, 10**9), 1 - Fraction(1, 10**20)]


@pytest.mark.parametrize("number", WIDE)
def test_no_conversion_of_mu_says_too_little_however_large_or_small_the_numbers(number):
    """As far as an account's limit may go: an epsilon, and a rho, up to 1e30."""
    for delta in SMALL:
        assert delta_of_mu_kept(number, GaussianDP.within(number, delta).rho, delta)
        assert delta_of_mu_kept(GaussianDP(number).approx(delta).epsilon, number, delta)


def delta_of_mu_kept(epsilon: Fraction, rho: Fraction, delta: Fraction) -> bool:
    """Says whether noise of this rho keeps both numbers, to 120 digits; tails far out are exact as parts."""
    from mpmath import erfc, exp, mp, mpf, sqrt

    with mp.workdps(120):
        wanted, cost, most = (mpf(value.numerator) / value.denominator for value in (epsilon, rho, delta))
        mu = sqrt(2 * cost)
        a = wanted / mu - mu / 2
        ours, theirs = (erfc(end / sqrt(mpf(2))) / 2 for end in (a, a + mu))
        return bool(ours - exp(wanted) * theirs <= most)


def exact_delta(epsilon: float, mu: float) -> float:
    from mpmath import erfc, exp, mp, mpf, sqrt

    with mp.workdps(60 + int(epsilon)):
        a = mpf(epsilon) / mpf(mu) - mpf(mu) / 2
        tails = [erfc(end / sqrt(mpf(2))) / 2 for end in (a, a + mpf(mu))]
        return float(tails[0] - exp(mpf(epsilon)) * tails[1])


@given(st.fractions(Fraction(1, 100), 300, max_denominator=10**6), deltas)
def test_the_most_gaussian_noise_within_an_epsilon_keeps_it_and_hardly_more_would_not(epsilon, delta):
    most = GaussianDP.within(epsilon, delta)
    assert most.approx(delta).epsilon <= epsilon
    assert most.times(1 + Fraction(1, 10**9)).approx(delta).epsilon > epsilon
    assert most.rho > rho_within(epsilon, delta)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2.64", "10", "30"])
def test_the_most_gaussian_noise_is_the_same_whatever_library_computes_exp(epsilon, monkeypatch):
    """Else a specification had another id, and other noise, on another machine: some days hang on fifteen digits."""
    most = claims.rho_within_gaussian(Fraction(epsilon), DELTA)
    for up in (1 + 2.0**-50, 1 - 2.0**-50):
        monkeypatch.setattr(claims, "mills_ratio", lambda x, up=up: mills_ratio(x) * up)
        claims.rho_within_gaussian.cache_clear()
        assert claims.rho_within_gaussian(Fraction(epsilon), DELTA) == most
    claims.rho_within_gaussian.cache_clear()


@given(costs, deltas)
def test_a_gaussian_claim_never_says_more_than_its_rho_does(rho, delta):
    rounding = Fraction(1, 10**12)
    assert GaussianDP(rho).approx(delta).epsilon <= ZCDP(rho).approx(delta).epsilon * (1 + rounding)


def test_below_what_floats_hold_a_gaussian_claim_is_converted_as_its_rho():
    tiny = Fraction(1, 10**400)
    assert GaussianDP(Fraction(1, 8)).approx(tiny) == ZCDP(Fraction(1, 8)).approx(tiny)
    assert GaussianDP.within(Fraction(2), tiny).rho == rho_within(Fraction(2), tiny)
    assert GaussianDP(tiny).approx(DELTA) == ZCDP(tiny).approx(DELTA)
    assert GaussianDP.within(tiny, DELTA).rho > tiny


@given(st.fractions(Fraction(1, 100), 100, max_denominator=10**6), deltas)
def test_the_most_rho_within_an_epsilon_keeps_it_and_hardly_more_would_not(epsilon, delta):
    rho = rho_within(epsilon, delta)
    rounding = Fraction(1, 10**12)
    assert ZCDP(rho).approx(delta).epsilon <= epsilon * (1 + rounding)
    assert ZCDP(rho * (1 + rounding)).approx(delta).epsilon > epsilon


@given(deltas)
def test_the_logarithm_that_an_order_is_chosen_by_is_bit_for_bit_that_of_before(delta):
    """Noise and ids of specifications rest on it: the 16th digit of a rho is that of its order."""
    assert claims._log(delta) == math.log(delta)
    assert claims._log(delta / 10**400) == pytest.approx(math.log(delta) - 400 * math.log(10))


def test_a_pure_claim_costs_much_when_counted_in_rho():
    pure = PureDP(Fraction("2.64"))
    assert float(pure.zcdp().approx(DELTA).epsilon) == pytest.approx(16.4, abs=0.05)
    assert pure.approx(DELTA) == ApproxDP(pure.epsilon, DELTA)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1)])
def test_rho_needs_a_delta_between_0_and_1(delta):
    with pytest.raises(ClaimError, match="between 0 and 1"):
        ZCDP(Fraction(1)).approx(delta)


def test_a_negative_epsilon_is_refused():
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        PureDP(Fraction(-1, 10**9))
