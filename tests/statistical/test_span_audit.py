"""28 released days spend at most their total, as the audit of levels measures it."""

import pytest

from tests.statistical.audit import bound_of_samples
from tests.statistical.levels_audit import ALPHA, mu_bound
from tests.statistical.span_audit import DAYS, MU, TOTAL, likelihoods

pytestmark = pytest.mark.slow


def test_28_days_spend_at_most_their_pure_total_and_the_audit_sees_some_of_it() -> None:
    """With so small an epsilon a day hardly any copy tells all of it."""
    bound = bound_of_samples(*likelihoods("laplace"), ALPHA)
    assert 0.2 * float(TOTAL) <= bound <= float(TOTAL)


def test_28_days_spend_at_most_the_rho_of_their_total_and_the_audit_sees_most_of_it() -> None:
    assert 0.8 * MU <= mu_bound(*likelihoods("gaussian")) <= MU


def test_days_that_each_take_a_fourteenth_of_the_total_are_caught() -> None:
    assert mu_bound(*likelihoods("gaussian", served=DAYS // 2)) > MU
