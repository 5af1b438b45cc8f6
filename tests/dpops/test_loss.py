"""The chance that the privacy loss exceeds an epsilon, against the loss of the noise itself, term by term."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.accountant import Accountant
from dpops.claims import rho_within
from dpops.loss import chance_beyond

DELTA = Fraction(1, 10**6)
TOTALS = ["1", "2.64", "10"]
costs = st.fractions(Fraction(1, 100), 5, max_denominator=1000)


def spent_at(epsilon: str) -> Accountant:
    return Accountant(rho=rho_within(Fraction(epsilon), DELTA))


def of_discrete_gaussian(epsilon: float, rho: float, sd: float) -> float:
    """P(L > epsilon) of a sum that moves by a whole number of steps, from the two laws and nothing else."""
    shift = round(sd * np.sqrt(2 * rho))
    steps = np.arange(-round(12 * sd), round(12 * sd) + shift + 1)
    ours, theirs = (np.exp(-((steps - centre) ** 2) / (2 * sd**2)) for centre in (0, shift))
    ours, theirs = ours / ours.sum(), theirs / theirs.sum()
    with np.errstate(divide="ignore"):
        loss = np.log(ours) - np.log(theirs)
    return float(ours[loss > epsilon].sum())


@pytest.mark.parametrize("epsilon", TOTALS)
def test_it_is_the_loss_of_the_noise_added_up_term_by_term(epsilon):
    spent = spent_at(epsilon)
    summed = of_discrete_gaussian(float(Fraction(epsilon)), float(spent.rho), sd=20_000)
    assert chance_beyond(Fraction(epsilon), spent) == pytest.approx(summed, rel=2e-3)


@pytest.mark.parametrize("steered", [False, True])
def test_the_chance_is_of_the_noise_however_an_account_adds_it_up(steered):
    rho, pure = Fraction(1, 6), Fraction(1, 10)
    chances = [
        chance_beyond(Fraction("2.64"), Accountant(pure=pure, **{name: rho}), steered=steered)
        for name in ("rho", "gaussian")
    ]
    assert chances[0] == chances[1] > 1e-6


def of_steered_looks(epsilon: float, rho: float, looks: int) -> float:
    """P(L > epsilon) where a vehicle loses nothing more in further looks once its loss is above epsilon."""
    losses = np.linspace(-8, 8, 16_001) * np.sqrt(2 * rho) + rho
    width, part = losses[1] - losses[0], rho / looks
    kernel = np.arange(-400, 401) * width
    kernel = np.exp(-((kernel - part) ** 2) / (4 * part))
    kernel /= kernel.sum()
    mass = np.zeros(losses.size)
    mass[np.abs(losses).argmin()] = 1.0
    beyond = 0.0
    for _ in range(looks):
        mass = np.convolve(mass, kernel, "same")
        beyond += float(mass[losses > epsilon].sum())
        mass[losses > epsilon] = 0
    return beyond


@pytest.mark.slow
def test_looks_that_steer_what_follows_reach_no_more_than_is_said_and_many_come_near():
    epsilon, spent = Fraction("2.64"), spent_at("2.64")
    most = chance_beyond(epsilon, spent, steered=True)
    chances = [of_steered_looks(2.64, float(spent.rho), looks) for looks in (100, 1_600)]
    assert chance_beyond(epsilon, spent) < chances[0] < chances[1] < most
    assert chances[1] > 0.8 * most


@given(costs, costs, costs)
def test_more_is_never_less_likely_and_never_beyond_the_bound_of_concentrated_claims(rho, pure, epsilon):
    spent, mean = Accountant(pure=pure, rho=rho), float(rho + pure**2 / 2)
    chance = chance_beyond(epsilon, spent)
    assert 0 <= chance_beyond(epsilon, Accountant(rho=rho)) <= chance <= chance_beyond(epsilon, spent, steered=True)
    assert chance <= 1
    if epsilon > mean:
        assert chance <= np.exp(-((float(epsilon) - mean) ** 2) / (4 * mean)) * (1 + 1e-12)  # sums of rationals round
