"""Mechanisms that choose an interval or a bound privately first: each stage against its half of epsilon."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpops.forecast import Prior
from dpops.means.arrays import FINE_PER_STEP
from dpops.mechanism import Mechanism, Plan, PlanError, Totals, claim_of_terms
from dpops.mechanisms import registered
from dpops.mechanisms.akmv import Akmv
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.constant import Constant
from dpops.mechanisms.levy import Levy
from dpops.mechanisms.quantiles import EpsilonQuantile
from dpops.mechanisms.worst_case_optimal import WorstCaseOptimal
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid, Int64s
from tests.dpops.mechanisms.conformance import NUMBERS
from tests.dpops.reference import GRID, value_of
from tests.statistical.audit import epsilon_lower_bound
from tests.statistical.checks import laplace_fit, seeded

EPSILON = Fraction(2)
DRAWS = 14_000

CHOOSERS = [example for kind in registered().values() if kind.chooses for example in kind.examples()]
every_chooser = pytest.mark.parametrize("mechanism", CHOOSERS, ids=repr)
FIRST_OF_KIND = [
    pytest.param(example, id=repr(example), marks=[pytest.mark.slow] * (type(example) in map(type, CHOOSERS[:place])))
    for place, example in enumerate(CHOOSERS)
]
"""All, of which the fast run takes one of each kind: an audit costs 2 s."""
COUNTS = [
    np.array(counts, np.int64)
    for counts in ([1], [5, 3, 1], [4] * 6, sorted((1 + (i * i) % 23 for i in range(30)), reverse=True))
]
every_counts = pytest.mark.parametrize("counts", COUNTS, ids=lambda c: f"{c.size}users-{c[0]}most")
few_counts = pytest.mark.parametrize(
    "counts",
    [pytest.param(c, id=f"{c.size}users-{c[0]}most", marks=[] if c.size == 3 else pytest.mark.slow) for c in COUNTS],
)
"""For audits, of 2 s each: the fast run takes one count vector, the whole suite all."""

Released = list[list[int]]
VIEWS: dict[str, Callable[[Released], Int64s]] = {
    "choice": lambda released: np.array([integers[0] for integers in released], np.int64),
    "query": lambda released: np.array([integers[-1] for integers in released], np.int64),
    # both at once: the query decides between equal choices
    "both": lambda released: np.array(
        [(i[0] << 36) + min(max(i[-1], -(1 << 34)), 1 << 34) for i in released], np.int64
    ),
}


def plan_of(mechanism: Mechanism, counts: Int64s, epsilon: Fraction = EPSILON) -> Plan:
    return mechanism.plan(CountsKnown.all_of(counts), GRID, epsilon)


def released(mechanism: Mechanism, plan: Plan, totals: Totals, draws: int, noise: Noise) -> Released:
    return mechanism.release([totals] * draws, [plan] * draws, noise)


def pairs(counts: Int64s) -> list[tuple[Totals, Totals]]:
    """The heaviest user at 0 and at U, with half of the others at either end, or all at 0."""
    top = counts * GRID.upper_steps
    is_heaviest = np.arange(counts.size) == 0
    backgrounds = [top * (np.arange(counts.size) % 2), top * 0]
    return [
        (Totals(counts, np.where(is_heaviest, 0, b)), Totals(counts, np.where(is_heaviest, top, b)))
        for b in backgrounds
    ]


def bounds_of(mechanism: Mechanism, plan: Plan, one: Totals, other: Totals, noise: Noise) -> list[float]:
    """Audited lower bounds on epsilon from the published integers, in each view."""
    drawn = [released(mechanism, plan, totals, DRAWS, noise) for totals in (one, other)]
    return [
        epsilon_lower_bound(lambda _, v=view: v(drawn[0]), lambda _, v=view: v(drawn[1]), DRAWS)
        for view in VIEWS.values()
    ]


@pytest.mark.parametrize("pair", [0, pytest.param(1, marks=pytest.mark.slow)])
@few_counts
@pytest.mark.parametrize("mechanism", FIRST_OF_KIND)
def test_the_audit_of_the_published_integers_stays_below_the_claim(mechanism, counts, pair):
    """False-alarm rate 1e-6 for each view of each pair."""
    plan = plan_of(mechanism, counts)
    choice, query, both = bounds_of(mechanism, plan, *pairs(counts)[pair], seeded(41))
    assert choice <= plan.epsilon / 2
    assert max(query, both) <= plan.claim().epsilon


def test_a_choice_at_twice_its_rate_is_caught():
    """The missing half of the exponential mechanism: the same release at four times epsilon, choice alone looked at.

    Levy on six equal users, three at either end: one user's move turns a draw between two bins.
    """
    counts = COUNTS[2]
    mechanism = Levy()
    plan = plan_of(mechanism, counts, Fraction(2))
    plan = replace(plan, facts={**plan.facts, "tau": 2 * (GRID.upper_steps * FINE_PER_STEP // 4), "bins": 2})
    top = counts * GRID.upper_steps
    half = np.arange(6) % 2
    one, other = (Totals(counts, top * np.where(np.arange(6) == 0, first, half)) for first in (0, 1))
    right = bounds_of(mechanism, plan, one, other, seeded(42))[0]
    wrong = bounds_of(mechanism, replace(plan, epsilon=4 * plan.epsilon), one, other, seeded(42))[0]
    assert right <= plan.epsilon / 2 < wrong


@every_chooser
def test_a_query_with_noise_for_three_quarters_of_the_interval_is_caught(mechanism):
    """One user alone, moved from 0 to U, with an epsilon so small for the choice that it is the same everywhere:
    the query's own half of epsilon is all that is seen of a draw with a given choice."""
    counts = COUNTS[0]
    plan = plan_of(mechanism, counts)
    one, other = Totals(counts, counts * 0), Totals(counts, counts * GRID.upper_steps)
    choice = wide_choice(mechanism, plan)
    bounds = []
    for scale in (plan.scale, plan.scale * Fraction(3, 5)):
        made = replace(plan, scale=scale)
        queries = [given(mechanism, made, totals, choice) for totals in (one, other)]
        bounds.append(epsilon_lower_bound(lambda _, q=queries: q[0], lambda _, q=queries: q[1], DRAWS))
    assert bounds[0] <= plan.epsilon / 2 < bounds[1]


def wide_choice(mechanism: Mechanism, plan: Plan) -> list[int]:
    if isinstance(mechanism, Levy):
        return [0]
    if isinstance(mechanism, Akmv):
        return [plan.sensitivity]
    return [0, GRID.upper_steps * FINE_PER_STEP]


def given(mechanism: Mechanism, plan: Plan, totals: Totals, choice: list[int]) -> Int64s:
    """DRAWS noisy queries of a release whose private choice came out as `choice`."""
    settled = mechanism.resolve([*choice, 0], plan)
    exact = int(totals.sums[0]) * (1 if isinstance(mechanism, Akmv) else FINE_PER_STEP)
    return exact + seeded(43 + (exact > 0)).laplace([settled.scale] * DRAWS)


def test_akmvs_noise_is_for_the_bound_that_was_drawn():
    """False-alarm rate 1e-6: three users on a grid of one step, so that the four bounds repeat."""
    counts = np.array([4, 2, 1], np.int64)
    plan = Akmv().plan(CountsKnown(counts, 7), Grid(step=Fraction(65), upper_steps=1), Fraction(1))
    drawn = released(Akmv(), plan, Totals(counts, counts), 16_000, seeded(49))
    assert {integers[0] for integers in drawn} == {1, 2, 3, 4}
    for bound in range(1, 5):
        of_bound = [integers for integers in drawn if integers[0] == bound]
        scale = Akmv.resolve([bound, 0], plan).scale
        assert scale == 2 * bound
        assert laplace_fit(VIEWS["query"](of_bound) - int(np.minimum(counts, bound).sum()), scale) > 1e-6


# what is published


@every_counts
@every_chooser
def test_what_the_release_settles_is_narrower_than_the_plan_said(mechanism, counts):
    plan = plan_of(mechanism, counts)
    for integers in released(mechanism, plan, Totals(counts, counts * 2_000), 60, seeded(47)):
        settled = mechanism.resolve(integers, plan)
        assert 0 <= settled.scale <= plan.scale
        assert settled.scale.denominator <= plan.scale.denominator * 10**12
        assert 0 <= settled.bias_bound <= plan.bias_bound == float(GRID.upper)
        again = Plan.from_public(plan.mechanism, plan.public())
        assert mechanism.resolve(integers, again).public() == settled.public()


@every_chooser
def test_the_bias_bound_of_the_drawn_interval_holds_for_any_speeds(mechanism):
    """Whatever is drawn: the noiseless query lies within the settled bound of the true mean."""
    rng = np.random.default_rng(48)
    for counts in COUNTS:
        plan = plan_of(mechanism, counts)
        ends = rng.integers(0, 2, (60, counts.size)) * 6_500
        speeds = np.where(rng.random(ends.shape) < 0.5, ends, rng.integers(0, 6_501, ends.shape))
        hats = [Totals(counts, counts * of_users) for of_users in speeds]
        drawn = mechanism.release(hats, [replace(plan, scale=Fraction(0))] * len(hats), seeded(48))
        for totals, integers in zip(hats, drawn, strict=True):
            truth = float(Fraction(int(totals.sums.sum()), int(counts.sum())) * GRID.step)
            off = abs(value_of(integers, plan) - truth)
            assert off <= mechanism.resolve(integers, plan).bias_bound + 1e-9


def test_the_rank_of_the_epsilon_quantile_is_the_same_at_both_ends():
    """Erratum E8: t = ceil(2 / epsilon) at both ends, where the text prints floor at one; at most half the arrays."""
    counts = np.full(40, 3, np.int64)
    for epsilon, rank in ((Fraction(2, 3), 3), (Fraction(3, 4), 3), (Fraction(1, 2), 4), (Fraction(1, 100), 20)):
        plan = plan_of(EpsilonQuantile(), counts, epsilon)
        assert Fraction(plan.facts["rank_numerator"], plan.facts["rank_denominator"]) == rank


def test_one_array_gives_all_of_the_range():
    plan = plan_of(Levy(), COUNTS[0])
    assert plan.facts["bins"] == 1
    [[index, _]] = Levy().release([Totals(COUNTS[0], COUNTS[0])], [plan], Noise())
    assert index == 0
    assert Levy.resolve([0, 0], plan).scale == plan.scale == 2 * GRID.upper_steps * FINE_PER_STEP / EPSILON


def test_users_with_large_sums_draw_from_coarse_steps():
    """A sum of up to 10**6 samples of 10**6 steps: coarser candidates, but the clipped sum stays exact."""
    grid = Grid(step=Fraction(65, 10**6), upper_steps=10**6)
    counts = np.array([1_000_000, 3], np.int64)
    plan = Akmv().plan(CountsKnown.all_of(counts), grid, Fraction(10**4))
    assert plan.facts["coarse"] == 10
    totals = Totals(counts, counts * 400_000)
    [[bound, noisy]] = Akmv().release([totals], [replace(plan, scale=Fraction(0))], Noise())
    assert bound % 1024 == 0 or bound == plan.sensitivity
    assert noisy == min(bound, 400_000 * 1_000_000) + 1_200_000


# auto


def test_auto_releases_with_the_mechanism_that_its_plan_names():
    auto = Auto(prior=Prior(20.0, 12.0))
    plans = [plan_of(auto, counts) for counts in COUNTS]
    for counts, plan in zip(COUNTS, plans, strict=True):
        best = auto.ranking(CountsKnown.all_of(counts), GRID, EPSILON)
        assert plan.public() == best[0].plan.public()
        assert plan.mechanism == best[0].mechanism.name
        assert [candidate.error for candidate in best] == sorted(candidate.error for candidate in best)
    totals = [Totals(counts, counts * 3_000) for counts in COUNTS]
    for integers, plan in zip(auto.release(totals, plans, Noise()), plans, strict=True):
        assert (len(integers) > 1) == registered()[plan.mechanism].chooses


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.name)
def test_a_mechanism_says_that_it_chooses_where_its_plans_bound_the_bias_by_all_of_u(kind):
    """`auto` then leaves it out where there is no prior: the worst case of the constant U/2 is less."""
    for mechanism in kind.examples():
        assert mechanism.chooses == ({plan_of(mechanism, counts).bias_bound for counts in COUNTS} == {65.0})


def test_more_epsilon_never_makes_the_forecast_of_auto_worse():
    """A HAT of few vehicles falls back on a constant where noise would drown it, whatever epsilon is."""
    auto = Auto(prior=Prior(20.0, 12.0))
    for counts in (np.array([1]), np.array([3, 2]), np.array([9, 4, 4, 1])):
        best = [
            auto.ranking(CountsKnown.all_of(counts), GRID, Fraction(e))[0].error for e in ("1/4", "1", "2", "4", "9")
        ]
        assert best == sorted(best, reverse=True)


@pytest.mark.parametrize(
    ("mechanism", "value", "bias"),
    [
        (WorstCaseOptimal(constant=True), 32.5, 32.5),
        (Constant(), 32.5, 32.5),
        (Constant(prior=Prior(20.0, 12.0)), 20.0, 45.0),
        (Constant(prior=Prior(90.0, 12.0)), 65.0, 65.0),
    ],
    ids=repr,
)
def test_a_constant_spends_nothing_and_says_how_wrong_it_may_be(mechanism, value, bias):
    for counts in COUNTS:
        plan = mechanism.plan(CountsKnown(counts, int(counts.sum()) + 3), GRID, Fraction(9))
        assert (plan.scale, plan.claim().epsilon, plan.bias_bound) == (0, 0, bias)
        [integers] = mechanism.release([Totals(counts, counts * 6_500)], [plan], Noise())
        assert value_of(integers, plan) == value


def test_auto_takes_the_constant_of_the_prior_where_noise_would_drown_a_hat_and_of_equal_ones_the_free_one():
    hat = CountsKnown.all_of(np.array([5]))
    assert plan_of(Auto(prior=Prior(20.0, 12.0)), hat.counts, Fraction(1)).public()["epsilon"] == "0"
    best, *others = Auto().ranking(hat, GRID, Fraction(2))
    assert (best.mechanism.name, best.error) == ("constant", 32.5)
    assert "baseline" in {candidate.mechanism.name for candidate in others if candidate.error == 32.5}


def test_a_constant_of_an_old_plan_is_claimed_and_published_as_it_was():
    """Before constants had a status they were debited as if they drew."""
    facts = {"users": 1, "samples": 5, "heaviest": 5, "reported": 5, "upper_steps": 6500, "bound": 0, "sensitivity": 0}
    stored = {"epsilon": "1", "step": "1/1000", "scale": "0", "upper": "65", "bias_bound": 32.5, "facts": facts}
    old = Plan.from_public("worst-case-optimal", stored)
    assert (claim_of_terms(*Plan.claim_terms([stored])[0]).epsilon, old.is_constant) == (1, False)
    estimates = WorstCaseOptimal.estimates([[32_500]], [stored], 0.05)
    assert (estimates.status, estimates.epsilon, estimates.number(0)[0]) == (["ok"], [1], [32.5])


@pytest.mark.parametrize("mechanism", [*CHOOSERS, Auto()], ids=repr)
def test_noise_beyond_bounds_is_refused_by_the_plan_and_never_after_a_private_choice(mechanism):
    """A draw that fails for some choices and is then repeated would tell which choices were thrown away."""
    grid = Grid(step=Fraction(65, 10**6), upper_steps=10**6)
    counts = np.array([900_000, 500_000], np.int64)
    try:
        plan = mechanism.plan(CountsKnown(counts, 1_400_000), grid, Fraction(1, 10**6))
    except PlanError:
        return
    for _ in range(20):
        mechanism.release([Totals(counts, counts * 7)], [plan], Noise())


# where the papers are wrong


def test_the_worst_bias_of_two_intervals_is_of_one_side_at_a_time():
    """Erratum E3: printed is the mean of max(a, U - b) over samples, here U / 2; but no speeds reach it, since one
    sample is only ever raised and the other only ever lowered. The truth, over all speeds, is U / 4."""
    intervals = [(0.5, 1.0), (0.0, 0.5)]
    printed = sum(max(a, 1 - b) for a, b in intervals) / 2
    speeds = np.linspace(0, 1, 101)
    raised = np.clip(speeds, *intervals[0]) - speeds
    lowered = np.clip(speeds, *intervals[1]) - speeds
    worst = np.abs(raised[:, None] + lowered[None, :]).max() / 2
    assert (printed, worst) == (0.5, 0.25)
    sides = sum(a for a, _ in intervals) / 2, sum(1 - b for _, b in intervals) / 2
    assert worst == max(sides)
    for counts in COUNTS:  # at the optimum both sides are the same, and the bound of the plan is attained at either end
        plan = plan_of(WorstCaseOptimal(), counts, Fraction(1, 2))
        for speed in (0, GRID.upper_steps):
            [integers] = WorstCaseOptimal().release(
                [Totals(counts, counts * speed)], [replace(plan, scale=Fraction(0))], Noise()
            )
            off = abs(value_of(integers, plan) - speed * 0.01)
            assert off == pytest.approx(plan.bias_bound, abs=1e-9)


# the bias of a drawn bound, and what is stored

OLD_PLAN = {
    "epsilon": "1", "step": "1/1000", "scale": "65000", "upper": "65", "bias_bound": 65.0, "rounding": 0.005,
    "facts": {
        "users": 4, "samples": 10, "heaviest": 5, "reported": 12, "upper_steps": 6500, "rank": 2, "coarse": 0,
        "sensitivity": 32500,
    },
}  # fmt: skip
"""Of AKMV, as it was stored before plans had a version: users of 5, 3, 1 and 1 samples, two samples dropped."""


@pytest.mark.parametrize(("counts", "dropped"), [((3, 1), 0), ((3, 1), 2), ((2, 2, 1), 1), ((4,), 3), ((1, 1, 1), 0)])
def test_the_bias_of_a_drawn_bound_is_the_worst_over_all_speeds_and_no_more(counts, dropped):
    upper, kept = 4, sum(counts)
    grid = Grid(step=Fraction(1, 100), upper_steps=upper)
    plan = Akmv().plan(CountsKnown(np.array(counts), kept + dropped), grid, Fraction(1))
    sums = np.array(list(itertools.product(*(range(c * upper + 1) for c in counts))))
    lost = np.arange(dropped * upper + 1)
    truth = (sums.sum(axis=1)[:, None] + lost) / (kept + dropped)
    for bound in range(max(counts) * upper + 1):
        off = np.abs(np.minimum(sums, bound).sum(axis=1)[:, None] / kept - truth).max()
        assert Akmv.resolve([bound, 0], plan).bias_bound == pytest.approx(off * 0.01, abs=1e-12)


def test_a_plan_that_was_stored_before_plans_had_a_version_publishes_what_it_did():
    released = [[9_000, 21_000], [20_000, 40_000], [32_500, 61_234]]
    estimates = Akmv.estimates(released, [OLD_PLAN] * 3, 0.05)
    assert estimates.bias_bound.tolist() == [65.0, 55.833333333333336, 10.833333333333334]
    assert estimates.noise_std.tolist() == [25.455844119442066, 56.56854249345066, 91.92388155334464]
    assert estimates.number(0)[0].tolist() == [21.0, 40.0, 61.234]


def test_a_new_plan_publishes_the_bias_with_rounding_and_says_so_by_its_version():
    new = Akmv().plan(CountsKnown(np.array([5, 3, 1, 1]), 12), GRID, Fraction(1))
    assert new.document() == {**new.public(), "version": 2}
    read = Plan.from_public("akmv", new.document())
    estimates = Akmv.estimates([[20_000, 40_000]], [new.document()], 0.05)
    assert estimates.bias_bound == pytest.approx(215 / 12 + 0.005)
    assert Akmv.resolve([20_000, 0], read).half_width(0.05) == pytest.approx(
        Akmv.resolve([20_000, 0], replace(read, version=1)).half_width(0.05)
    )  # the interval counted rounding before
