"""An audit of levels: a release of a day in two stages spends what it claims, and the audit sees much of it.

So do 28 days, of their total.
"""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpops.claims import Accounting
from dpops.levels.stages import Kind
from tests.statistical import span_audit
from tests.statistical.audit import bound_of_samples
from tests.statistical.levels_audit import ALPHA, EPSILON, LEAST, likelihoods, mu_bound, mu_claimed, policy, released
from tests.statistical.span_audit import MU, TOTAL
from transforms.releases.periods.stages import LevelsPolicy


def test_a_pure_release_spends_at_most_its_epsilon_and_the_audit_sees_much_of_it() -> None:
    """On average the bound reaches 1.6; false-alarm rate of the first line 1e-6."""
    first, second = likelihoods(*released("laplace", policy("laplace")), "laplace")
    bound = bound_of_samples(first, second, ALPHA)
    assert bound <= float(EPSILON)
    assert bound >= LEAST * float(EPSILON)


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_a_gaussian_release_spends_at_most_its_mu_and_the_audit_sees_much_of_it(accounting: Accounting) -> None:
    first, second = likelihoods(*released("gaussian", policy("gaussian", accounting=accounting)), "gaussian")
    claim = mu_claimed(accounting)
    assert LEAST * claim <= mu_bound(first, second) <= claim


def is_caught(kind: Kind, how: LevelsPolicy) -> bool:
    first, second = likelihoods(*released(kind, how), kind)
    if kind == "laplace":
        return bound_of_samples(first, second, ALPHA) > float(EPSILON)
    return mu_bound(first, second) > mu_claimed()


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_third_of_the_noise_is_caught(kind: Kind) -> None:
    assert is_caught(kind, policy(kind, noise=Fraction(1, 3)))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_stages_that_both_take_the_whole_share_are_caught(kind: Kind) -> None:
    honest = policy(kind)
    stages = tuple(replace(stage, share=Fraction(1), spread=stage.spread / 2) for stage in honest.first)
    assert is_caught(kind, replace(honest, first=stages))


@pytest.mark.slow
def test_28_days_spend_at_most_their_pure_total_and_the_audit_sees_some_of_it() -> None:
    """With so small an epsilon a day hardly any copy tells all of it."""
    bound = bound_of_samples(*span_audit.likelihoods("laplace"), ALPHA)
    assert 0.2 * float(TOTAL) <= bound <= float(TOTAL)


@pytest.mark.slow
def test_28_days_spend_at_most_the_rho_of_their_total_and_the_audit_sees_most_of_it() -> None:
    assert 0.8 * MU <= mu_bound(*span_audit.likelihoods("gaussian")) <= MU


@pytest.mark.slow
def test_days_that_each_take_a_fourteenth_of_the_total_are_caught() -> None:
    assert mu_bound(*span_audit.likelihoods("gaussian", served=span_audit.DAYS // 2)) > MU
