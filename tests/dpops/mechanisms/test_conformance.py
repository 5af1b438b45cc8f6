"""What every registered mechanism must keep: its privacy claim, its forecasts and its refusals.

Mechanisms are found by `dpops.registry`; one that is added as a file is tested here with no edit. Audits run on fixed
seeds. False-alarm rates are stated for a change that redraws the randomness and breaks nothing.
"""

import importlib
import inspect
import itertools
import json
import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops import mechanisms
from dpops.claims import Adjacency
from dpops.mechanism import Mechanism, Plan, Totals
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance
from dpops.mechanisms.opt_array import OptArray
from dpops.noise import Noise
from dpops.registry import registered
from dpops.types import CountsKnown, Grid, Int64s
from tests.dpops.reference import alike, unlike
from tests.statistical.audit import Release, epsilon_lower_bound
from tests.statistical.checks import laplace_fit, seeded

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
EPSILON = Fraction(2)
DRAWS = 14_000
EXACT = (Baseline, ArrayAverage, OptArray)
"""Their sensitivity and bias bound are attained, but for rounding."""
AUDITED: frozenset[Adjacency] = frozenset({"counts-public"})
STATISTICS = frozenset({"mean", "variance"})
DISTRIBUTIONS = frozenset({"distribution"})

NUMBERS = [kind for kind in registered().values() if kind.statistics <= STATISTICS]
"""Those that release one number; distributions: tests/dpops/trees/test_mechanisms.py."""
EXAMPLES = [example for kind in NUMBERS for example in kind.examples()]
COUNTS = [
    np.array(counts, np.int64)
    for counts in (
        [1],
        [7],
        [1, 1],
        [5, 3, 1],
        [4, 4, 4, 4],
        [3, 2, 2, 1, 1, 1, 1],
        [417, 60, 46, 46, 20, 9, 3, 1, 1],
        sorted((1 + (i * i) % 23 for i in range(30)), reverse=True),
    )
]
PLAIN = [each for each in EXAMPLES if each.name not in {"akmv", "epsilon-quantile", "fixed-quantile", "levy"}]
PLAIN = [each for each in PLAIN if not (isinstance(each, Auto) and each.prior and each.statistic == "mean")]
every_example = pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
# Those that choose nothing privately, so that the plan alone settles the noise; the others: test_private_choices.py.
every_plain = pytest.mark.parametrize("mechanism", PLAIN, ids=repr)
plain_kinds = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=[] if kind in (ArrayAverage, BaselineVariance) else pytest.mark.slow)
        for kind in dict.fromkeys(map(type, PLAIN))
    ],
)
"""The fast run takes one mechanism of each statistic, the whole suite all: 8 s each."""
every_counts = pytest.mark.parametrize("counts", COUNTS, ids=lambda c: f"{c.size}users-{c[0]}most")
few_counts = pytest.mark.parametrize(
    "counts",
    [
        pytest.param(c, id=f"{c.size}users-{c[0]}most", marks=[] if c.size in (3, 9) else pytest.mark.slow)
        for c in COUNTS
    ],
)
"""For simulations: the fast run takes two count vectors, the whole suite all."""
count_vectors = st.lists(st.integers(1, 60), min_size=1, max_size=25).map(lambda c: np.array(sorted(c)[::-1], np.int64))


# privacy


@few_counts
@every_plain
def test_the_audit_of_the_worst_neighbours_stays_below_the_claim(mechanism: Mechanism, counts: Int64s) -> None:
    """False-alarm rate 1e-6 for each audit. Power: see the mutants below."""
    plan = _plan(mechanism, counts)
    one, other = _worst_neighbours(mechanism, plan, counts)
    noise = seeded(31)
    bound = epsilon_lower_bound(_release(mechanism, plan, one, noise), _release(mechanism, plan, other, noise), DRAWS)
    assert bound <= plan.claim().epsilon


@plain_kinds
def test_a_mutant_with_a_quarter_too_little_sensitivity_is_caught_twenty_times_of_twenty(kind: type[Mechanism]) -> None:
    """Power: at epsilon 2 and 14 000 draws the bound lies 5 of its standard deviations above the claim.

    The trials go through the examples and count vectors; only vectors of which the plan's sensitivity is attained by
    the neighbours found (to 1 %) say anything about the audit, so others count as missed. Of the variance, users with
    a cap attain it only in the limit where one holds half of the weight, and one sample has no variance at all: those
    cases are left out.
    """
    noise = seeded(32)
    cases = [(example, counts) for counts in COUNTS for example in kind.examples() if example in PLAIN]
    cases = [case for case in cases if _plan(*case).scale > 0]  # a release without noise is a constant
    cases = [case for case in cases if _statistic(case[0]) == "mean" or _is_attained(*case)]
    assert len(cases) >= 6
    caught = 0
    for trial in range(20):
        mechanism, counts = cases[trial * 7 % len(cases)]
        plan = _plan(mechanism, counts)
        one, other = _worst_neighbours(mechanism, plan, counts)
        mutant = replace(plan, scale=plan.scale * Fraction(4, 5))
        releases = (_release(mechanism, mutant, totals, noise) for totals in (one, other))
        caught += epsilon_lower_bound(*releases, DRAWS) > mutant.claim().epsilon
    assert caught == 20


@every_plain
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_neighbours_of_a_small_hat_differ_by_more_than_the_sensitivity(
    mechanism: Mechanism, data: st.DataObject
) -> None:
    """Every dataset of a small HAT on a coarse grid is enumerated, so the largest difference is exact."""
    counts = np.array(sorted(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))[::-1], np.int64)
    upper_steps = data.draw(st.integers(1, 3 if counts.sum() <= 6 else 1))
    plan = mechanism.plan(CountsKnown.all_of(counts), Grid(step=Fraction(1), upper_steps=upper_steps), EPSILON)
    moved = _enumerated_sensitivity(mechanism, plan, counts, upper_steps)
    assert moved <= plan.facts["sensitivity"]
    assert plan.scale == Fraction(plan.facts["sensitivity"]) / plan.epsilon
    if _is_exact(mechanism, plan):  # rounding of two pieces apart
        assert moved >= plan.facts["sensitivity"] - 2


@every_counts
@every_plain
def test_the_worst_neighbours_attain_no_more_than_the_sensitivity(mechanism: Mechanism, counts: Int64s) -> None:
    plan = _plan(mechanism, counts)
    one, other = _noiseless(mechanism, plan, _worst_neighbours(mechanism, plan, counts))
    assert abs(one - other) <= plan.facts["sensitivity"]
    if _is_exact(mechanism, plan):
        assert abs(one - other) >= plan.facts["sensitivity"] - 2


@every_plain
def test_each_hat_of_one_call_gets_noise_of_its_own_plan(mechanism: Mechanism) -> None:
    """False-alarm rate 8 x 1e-8. Power: noise of another plan, or one draw used twice, is off by far more than 5 %."""
    plans = [_plan(mechanism, counts) for counts in COUNTS]
    totals = [alike(counts, counts * 3_000) for counts in COUNTS]
    exact = _noiseless_many(mechanism, plans, totals)
    repeats = 4_000
    released = mechanism.release(totals * repeats, plans * repeats, seeded(33))
    noise = _last(released).reshape(repeats, -1) - exact
    for column, plan in enumerate(plans):
        assert plan.scale == 0 or laplace_fit(noise[:, column], plan.scale) > 1e-8
    signs = np.corrcoef(np.sign(noise[:, [plan.scale > 0 for plan in plans]]).T)
    signs = signs - np.eye(len(signs))
    assert np.abs(signs).max() < 6.5 / repeats**0.5


@every_plain
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_hat_is_released_alike_alone_and_among_others(mechanism: Mechanism, data: st.DataObject) -> None:
    """No user of one HAT counts in another, whatever stands before and behind it in the call."""
    hats = data.draw(st.lists(count_vectors, min_size=1, max_size=6))
    shares = st.integers(0, GRID.upper_steps)
    sums = [counts * np.array([data.draw(shares) for _ in counts]) for counts in hats]
    totals = [unlike(*each, GRID.upper_steps) for each in zip(hats, sums, strict=True)]
    plans = [_plan(mechanism, counts) for counts in hats]
    together = _noiseless_many(mechanism, plans, totals)
    assert together == [_noiseless(mechanism, plan, [each])[0] for plan, each in zip(plans, totals, strict=True)]


@every_example
def test_no_float_reaches_the_noise(mechanism: Mechanism) -> None:
    class Watching(Noise):
        def laplace(self, scales: Sequence[Fraction]) -> Int64s:
            assert {type(scale) for scale in scales} == {Fraction}
            drawn = super().laplace(scales)
            assert drawn.dtype == np.int64
            return drawn

    plans = [_plan(mechanism, counts) for counts in COUNTS]
    released = mechanism.release([alike(counts, counts * 7) for counts in COUNTS], plans, Watching())
    assert {type(integer) for integers in released for integer in integers} == {int}
    for plan in plans:
        assert {type(value) for value in (plan.epsilon, plan.step, plan.scale, plan.upper)} == {Fraction}
        assert {type(fact) for fact in plan.facts.values()} == {int}


@every_example
def test_the_plan_is_made_from_counts_and_cannot_see_a_value(mechanism: Mechanism) -> None:
    assert list(inspect.signature(mechanism.plan).parameters) == ["known", "grid", "epsilon"]
    for counts in COUNTS:
        before = counts.copy()
        plan = _plan(mechanism, counts)
        mechanism.release([alike(counts, counts * GRID.upper_steps)], [plan], seeded(34))
        assert _plan(mechanism, counts).public() == plan.public()
        np.testing.assert_array_equal(counts, before)


@every_plain
def test_the_claim_is_the_epsilon_asked_for(mechanism: Mechanism) -> None:
    for epsilon in (Fraction(1, 1000), Fraction(1, 3), Fraction(7)):
        plan = mechanism.plan(CountsKnown(COUNTS[3], 9), GRID, epsilon)
        assert plan.claim().epsilon == plan.epsilon == epsilon
        assert plan.scale == Fraction(plan.facts["sensitivity"]) / epsilon


# forecasts


@few_counts
@every_plain
def test_forecasts_agree_with_simulation(mechanism: Mechanism, counts: Int64s) -> None:
    """Standard deviation and mean absolute error without bias; false-alarm rate 3 x 1e-7 for each case: 5.5 standard
    errors of 4000 draws. Power: a standard deviation wrong by 20 %, an error by 16 % is seen with probability 1 - 1e-4.
    """
    draws = 4_000
    plan = _plan(mechanism, counts)
    totals = alike(counts, counts * (GRID.upper_steps // 2))
    truth = float(_truth(mechanism, totals))
    released = mechanism.release([totals] * draws, [plan] * draws, seeded(35))
    noise = (_last(released) - _noiseless(mechanism, plan, [totals])[0]) * float(plan.step)
    assert noise.std() == pytest.approx(plan.noise_std(), rel=5.5 * (5 / 4 / draws) ** 0.5)
    unbiased = replace(plan, bias_bound=0.0)
    assert np.abs(noise).mean() == pytest.approx(unbiased.error(), rel=5.5 / draws**0.5, abs=float(plan.step))
    values = np.array([mechanism.value(integers, plan) for integers in released])
    assert np.abs(values - truth).mean() <= plan.error() * (1 + 5.5 / draws**0.5) + float(plan.step)


@few_counts
@every_example
def test_the_interval_covers_the_true_value_even_at_the_worst_bias(mechanism: Mechanism, counts: Int64s) -> None:
    """False-alarm rate 4 x 1e-7 for each case (5.5 standard errors of 4000 draws). Power: an interval that leaves the
    bias out misses nearly always at a large epsilon."""
    draws = 4_000
    for epsilon in (EPSILON, Fraction(1_000)):
        plan = mechanism.plan(CountsKnown.all_of(counts), GRID, epsilon)
        totals = _worst_biased(mechanism, plan, counts)
        released = mechanism.release([totals] * draws, [plan] * draws, seeded(37))
        values = np.array([mechanism.value(integers, plan) for integers in released])
        off = np.abs(values - float(_truth(mechanism, totals)))
        for miss in (0.05, 0.5):
            widths = np.array([mechanism.resolve(integers, plan).half_width(miss) for integers in released])
            covered = (off <= widths + 1e-9).mean()
            assert covered >= 1 - miss - 5.5 * (miss * (1 - miss) / draws) ** 0.5


@every_plain
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_realised_bias_never_exceeds_its_bound(mechanism: Mechanism, data: st.DataObject) -> None:
    counts = data.draw(count_vectors)
    extremes = st.sampled_from([0, GRID.upper_steps])
    speeds = data.draw(
        st.lists(extremes | st.integers(0, GRID.upper_steps), min_size=counts.size, max_size=counts.size)
    )
    spare = data.draw(st.integers(0, 6_499))
    sums = np.minimum(counts * np.array(speeds) + spare % counts, counts * GRID.upper_steps)
    dropped = data.draw(st.integers(0, 40))
    reported = int(counts.sum()) + dropped
    at = data.draw(extremes)
    plan = mechanism.plan(CountsKnown(counts, reported), GRID, EPSILON)
    totals = data.draw(st.sampled_from([alike(counts, sums), unlike(counts, sums, GRID.upper_steps)]))
    lost = (dropped, dropped * at, dropped * at * at)
    truth = float(_truth(mechanism, Totals(*(np.append(kept, gone) for kept, gone in zip(totals, lost, strict=True)))))
    value = mechanism.value(_noiseless(mechanism, plan, [totals]), plan)
    assert abs(value - truth) <= plan.bias_bound + float(plan.step) + 1e-9


@every_counts
@pytest.mark.parametrize("mechanism", [each for each in PLAIN if isinstance(each, EXACT)], ids=repr)
def test_the_bias_bound_is_attained(mechanism: Mechanism, counts: Int64s) -> None:
    """With each user at 0 or U, as is worst, the distance comes within rounding of the bound."""
    plan = _plan(mechanism, counts)
    totals = _worst_biased(mechanism, plan, counts)
    value = mechanism.value(_noiseless(mechanism, plan, [totals]), plan)
    assert abs(value - float(_truth(mechanism, totals))) >= plan.bias_bound - 4 * float(GRID.step) / 1000


@every_example
@given(integer=st.integers(-(10**18), 10**18))
def test_values_lie_between_zero_and_the_upper_bound(mechanism: Mechanism, integer: int) -> None:
    plan = _plan(mechanism, COUNTS[3])
    assert 0 <= mechanism.value([integer], plan) <= float(plan.upper)
    assert plan.upper == (GRID.upper if _statistic(mechanism) == "mean" else GRID.upper**2 / 4)


@every_counts
@every_plain
def test_equal_speeds_are_returned_within_rounding(mechanism: Mechanism, counts: Int64s) -> None:
    """Also where a cap dropped half of the samples. Only worst-case-optimal draws heavy users towards U/2."""
    samples = int(counts.sum())
    for reported in (samples, 2 * samples):
        plan = mechanism.plan(CountsKnown(counts, reported), GRID, EPSILON)
        for speed in (0, 1, 2_067, GRID.upper_steps):
            totals = alike(counts, counts * speed)
            value = mechanism.value(_noiseless(mechanism, plan, [totals]), plan)
            rounding = 2 * float(GRID.step) / 1000 + 1e-9
            allowed = plan.bias_bound + 1e-9 if plan.mechanism == "worst-case-optimal" else rounding
            assert value == pytest.approx(float(_truth(mechanism, totals)), abs=allowed)


@every_example
def test_a_plan_survives_storage(mechanism: Mechanism) -> None:
    for counts in COUNTS:
        plan = _plan(mechanism, counts)
        read = Plan.from_public(plan.mechanism, json.loads(json.dumps(plan.public())))
        assert read.public() == plan.public()
        assert read.claim() == plan.claim()
        assert (read.noise_std(), read.error()) == (plan.noise_std(), plan.error())
        assert read.half_width(0.05) == plan.half_width(0.05)
        for integer in (-5, 0, 12_345, 10**12):
            assert mechanism.value([integer], read) == mechanism.value([integer], plan)


@pytest.mark.parametrize("users", [1, 3, 20])
@pytest.mark.parametrize("each", [1, 4, 11])
@pytest.mark.parametrize("kind", ["median", "argmax"])
def test_baseline_and_array_average_agree_when_all_counts_are_equal(users: int, each: int, kind: str) -> None:
    counts = np.full(users, each, np.int64)
    one, other = (_plan(m, counts) for m in (Baseline(), ArrayAverage(m_ub=kind)))  # type: ignore[arg-type]
    assert one.scale * one.step == other.scale * other.step == GRID.upper / (users * EPSILON)
    assert one.bias_bound == 0
    assert other.bias_bound <= 2.001 * float(GRID.step) / 1000


# refusals


@every_example
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1)])
def test_an_epsilon_that_is_not_positive_is_refused(mechanism: Mechanism, epsilon: Fraction) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        mechanism.plan(CountsKnown(COUNTS[3], 9), GRID, epsilon)


@every_example
@pytest.mark.parametrize(
    ("counts", "reported"), [([], 0), ([0], 0), ([3, 0], 3), ([3, -1], 2), ([3, 2], 4), ([1], 1 << 31)]
)
def test_counts_that_make_no_hat_are_refused(mechanism: Mechanism, counts: list[int], reported: int) -> None:
    with pytest.raises(ValueError, match="sample"):
        mechanism.plan(CountsKnown(np.array(counts, np.int64), reported), GRID, EPSILON)


@every_example
@pytest.mark.parametrize(
    ("counts", "sums"),
    [
        ([5, 3, 1], [-1, 0, 0]),
        ([5, 3, 1], [5 * 6_500 + 1, 0, 0]),
        ([5, 3, 1], [0, 0, 6_501]),
        ([5, 3], [0, 0]),
        ([5, 3, 2], [0, 0, 0]),
        ([5, 3, 1], [0, 0]),
    ],
)
def test_totals_that_do_not_fit_the_plan_are_refused(mechanism: Mechanism, counts: list[int], sums: list[int]) -> None:
    plan = _plan(mechanism, COUNTS[3])
    with pytest.raises(ValueError, match="do not fit") as refusal:
        mechanism.release([_given(counts, sums)], [plan], Noise())
    assert "6501" not in str(refusal.value)


@every_plain
def test_totals_of_other_users_never_exceed_the_plans_sensitivity(mechanism: Mechanism) -> None:
    """As many users and samples, but one user heavier than planned: refused, or still within the sensitivity."""
    plan = _plan(mechanism, np.array([3, 3], np.int64))
    counts = np.array([5, 1], np.int64)
    answers = []
    for sums in ([0, 0], [5 * 6_500, 0]):
        try:
            answers += _noiseless(mechanism, plan, [alike(counts, np.array(sums, np.int64))])
        except ValueError:
            return
    assert abs(answers[0] - answers[1]) <= plan.facts["sensitivity"]


@every_plain
@pytest.mark.parametrize(
    ("counts", "upper_steps"),
    [
        ([1 << 23], 1 << 39),
        ([1 << 20, 1], 1 << 44),
        ([1] * (1 << 15), 1 << 49),
        ([1] * (1 << 15), (1 << 49) // 1_000),
    ],
    ids=["long", "heavy", "many", "many-fine"],
)
def test_sums_that_would_overflow_are_refused_or_exact(
    mechanism: Mechanism, counts: list[int], upper_steps: int
) -> None:
    """A wrapped integer would move the answer by more than any noise hides."""
    vector = np.array(counts, np.int64)
    try:
        plan = mechanism.plan(
            CountsKnown.all_of(vector),
            Grid(step=Fraction(65, upper_steps), upper_steps=upper_steps),
            EPSILON,
        )
        totals = Totals(vector, vector * upper_steps)
        if _statistic(mechanism) == "variance":  # is largest with half of the samples at U
            half = np.where(vector > 1, vector // 2, np.arange(vector.size) % 2)
            totals = unlike(vector, half * upper_steps, upper_steps)
        top = _noiseless(mechanism, plan, [totals])[0]
    except ValueError:
        return
    assert float(top * plan.step) == pytest.approx(float(plan.upper), rel=1e-3)


@every_example
def test_as_many_plans_as_totals(mechanism: Mechanism) -> None:
    plan = _plan(mechanism, COUNTS[3])
    with pytest.raises(ValueError, match="plans"):
        mechanism.release([alike(COUNTS[3], COUNTS[3])] * 2, [plan], Noise())
    assert mechanism.release([], [], Noise()) == []


# the registry


def test_every_mechanism_has_a_name_of_its_own_and_an_example() -> None:
    named = []
    for info in pkgutil.iter_modules(mechanisms.__path__, mechanisms.__name__ + "."):
        module = importlib.import_module(info.name)
        named += [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == info.name]
    named = [kind for kind in named if isinstance(getattr(kind, "name", None), str)]
    assert sorted(kind.name for kind in named) == list(registered())
    assert {"baseline", "array-average"} <= set(registered())
    for name, kind in registered().items():
        assert kind.name == name
        assert len(kind.examples()) >= 1
        assert len(set(map(repr, kind.examples()))) == len(kind.examples())


@pytest.mark.parametrize("kind", registered().values(), ids=list(registered()))
def test_every_adjacency_and_statistic_of_a_mechanism_is_audited_here(kind: type[Mechanism]) -> None:
    assert kind.adjacencies
    assert kind.adjacencies <= set(get_args(Adjacency))
    assert kind.adjacencies <= AUDITED, "this file audits neighbours that share all counts; add the audit of the others"
    if get_type_hints(kind.plan)["known"] is CountsKnown:
        assert kind.adjacencies == {"counts-public"}, "a plan that may see counts is for where these are public"
    assert kind.statistics
    assert kind.statistics <= STATISTICS or kind.statistics == DISTRIBUTIONS, "no file knows the truth of the others"
    assert "Source:" in (kind.__doc__ or "")


# helpers


def _plan(mechanism: Mechanism, counts: Int64s) -> Plan:
    return mechanism.plan(CountsKnown.all_of(counts), GRID, EPSILON)


def _statistic(mechanism: Mechanism) -> str:
    if isinstance(mechanism, Auto):
        return mechanism.statistic
    (only,) = mechanism.statistics
    return only


def _truth(mechanism: Mechanism, totals: Totals) -> Fraction:
    """The statistic of all samples, in units."""
    samples, total, squares = (int(column.sum()) for column in totals)
    if _statistic(mechanism) == "mean":
        return Fraction(total, samples) * GRID.step
    return Fraction(samples * squares - total**2, samples**2) * GRID.step**2


def _given(counts: Sequence[int], sums: Sequence[int]) -> Totals:
    """Totals that may fit nothing. Their squares are no samples' either, but it is the sums that are refused."""
    return Totals(np.array(counts, np.int64), np.array(sums, np.int64), np.array(sums, np.int64) ** 2)


def _is_exact(mechanism: Mechanism, plan: Plan) -> bool:
    """Whether the sensitivity is attained but for rounding."""
    if isinstance(mechanism, BaselineVariance):
        return "m_ub" not in plan.facts or plan.facts["kept"] > 2 * plan.facts["m_ub"]
    return isinstance(mechanism, EXACT)


def _is_attained(mechanism: Mechanism, counts: Int64s) -> bool:
    plan = _plan(mechanism, counts)
    one, other = _noiseless(mechanism, plan, _worst_neighbours(mechanism, plan, counts))
    return abs(one - other) >= 0.99 * plan.facts["sensitivity"]


def _noiseless(mechanism: Mechanism, plan: Plan, totals: Sequence[Totals]) -> list[int]:
    return _noiseless_many(mechanism, [plan] * len(totals), totals)


def _noiseless_many(mechanism: Mechanism, plans: Sequence[Plan], totals: Sequence[Totals]) -> list[int]:
    """The integers that noise of scale 0 gives."""
    return [integers[-1] for integers in mechanism.release(totals, _silent(plans), Noise())]


def _silent(plans: Sequence[Plan]) -> list[Plan]:
    return [replace(plan, scale=Fraction(0)) for plan in plans]


def _last(released: Sequence[Sequence[int]]) -> Int64s:
    """The noisy query of each HAT."""
    return np.array([integers[-1] for integers in released], np.int64)


def _release(mechanism: Mechanism, plan: Plan, totals: Totals, noise: Noise) -> Release:
    return lambda draws: _last(mechanism.release([totals] * draws, [plan] * draws, noise))


def _worst_neighbours(mechanism: Mechanism, plan: Plan, counts: Int64s) -> tuple[Totals, Totals]:
    """Of all users moved from 0 to count * U, over several sums of the others, the pair that differs most.

    Also from 0 to as much as makes half of all that is kept: a variance is largest there. Samples are 0 and U, but one.
    """
    rng = np.random.default_rng(36)
    top = counts * GRID.upper_steps
    backgrounds = [top * 0, top, top // 2, *(rng.integers(0, top + 1) for _ in range(3))]
    retained = np.minimum(counts, plan.facts.get("m_ub", counts.max()))
    half = np.minimum(counts * retained.sum() // (2 * retained) * GRID.upper_steps, top)
    pairs = []
    for sums, end in itertools.product(backgrounds, (top, half)):
        for user in range(counts.size):
            mine = np.arange(counts.size) == user
            ends = (unlike(counts, np.where(mine, x, sums), GRID.upper_steps) for x in (0, end))
            pairs.append((next(ends), next(ends)))
    answers = _noiseless(mechanism, plan, [totals for pair in pairs for totals in pair])
    moved = np.abs(np.array(answers[::2]) - np.array(answers[1::2]))
    return pairs[int(np.argmax(moved))]


def _worst_biased(mechanism: Mechanism, plan: Plan, counts: Int64s) -> Totals:
    """The users whose weight in the release is above their share of the samples at U, all others at 0.

    Of the variance, which is no sum over users: the worst of all that put the first users, or the others, at U.
    """
    top = counts * GRID.upper_steps
    if _statistic(mechanism) == "variance":
        heads = [np.where(np.arange(counts.size) < users, top, 0) for users in range(counts.size + 1)]
        hats = [unlike(counts, sums, GRID.upper_steps) for sums in (*heads, *(top - head for head in heads))]
        released = _noiseless(mechanism, plan, hats)
        off = [abs(x * plan.step - _truth(mechanism, hat)) for x, hat in zip(released, hats, strict=True)]
        return hats[off.index(max(off))]
    alone = [Totals(counts, np.where(np.arange(counts.size) == user, top, 0)) for user in range(counts.size)]
    weights = np.array(_noiseless(mechanism, plan, alone)) * float(plan.step)
    return Totals(counts, np.where(weights > counts / counts.sum() * float(GRID.upper), top, 0))


def _enumerated_sensitivity(mechanism: Mechanism, plan: Plan, counts: Int64s, upper_steps: int) -> int:
    """The largest |q(D) - q(D')| over all datasets on the grid: along each axis of the cube of the users' moments."""
    axes = [_moments(count, upper_steps) for count in counts.tolist()]
    cube = np.array(list(itertools.product(*axes)), np.int64)
    answers = _noiseless(mechanism, plan, [Totals(counts, *moments.T) for moments in cube])
    table = np.array(answers, np.int64).reshape([len(axis) for axis in axes])
    return max(int(np.ptp(table, axis=axis).max()) for axis in range(table.ndim))


def _moments(count: int, upper_steps: int) -> list[tuple[int, int]]:
    """All sums and sums of squares that so many samples on the grid have."""
    every = itertools.combinations_with_replacement(range(upper_steps + 1), count)
    return sorted({(sum(samples), sum(x * x for x in samples)) for samples in every})
