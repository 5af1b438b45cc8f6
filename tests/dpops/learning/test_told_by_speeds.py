"""What sums of speeds say of weights: busy places are seen to be busy, and nothing is called surer for it."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning import DayValues, Learned, State, learned, taken_in
from dpops.learning import learner as learner_module
from dpops.learning.counts import CountProblem, Counts, _solved, fit_counts
from dpops.learning.state import RECENT
from tests.dpops.learning.city import FACTS, HOURS, design, released_day, truth


def day_without_noise_in_speeds(seed: int) -> DayValues:
    """Weights under heavy noise, speeds under hardly any."""
    day, exact = released_day(design(), 3.0, seed), released_day(design(), 1e-3, seed)
    levels = [
        replace(noisy, speeds=clean.speeds, speed_variance=clean.speed_variance)
        for noisy, clean in zip(day.stages[0].levels, exact.stages[0].levels, strict=True)
    ]
    return replace(day, stages=(replace(day.stages[0], levels=tuple(levels)),))


def weights_missed(model: Learned) -> float:
    """Mean distance of the logarithms of cells' weights from the true ones, weighted by these."""
    weights, believed = truth(design())[0].sum(axis=1), model.counts.hats(design(), HOURS).sum(axis=1)
    return float(np.average(np.abs(np.log(believed / weights)), weights=weights))


def missed_over_seeds() -> float:
    states = [taken_in(State.new(design(), FACTS), day_without_noise_in_speeds(seed)) for seed in range(6)]
    return float(np.mean([weights_missed(learned(state)) for state in states]))


def says_nothing(day: DayValues, *_: object) -> DayValues:
    return DayValues(hours=day.hours)


def test_sums_of_speeds_tell_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    with_speeds = missed_over_seeds()
    monkeypatch.setattr(learner_module, "told_by_speeds", says_nothing)
    assert with_speeds < 0.93 * missed_over_seeds()


def mean_variance() -> float:
    """Of the logarithms of HATs' weights."""
    state = taken_in(State.new(design(), FACTS), day_without_noise_in_speeds(1))
    return float(learned(state).counts.variances(HOURS).mean())


def test_what_speeds_say_makes_no_weight_surer(monkeypatch: pytest.MonkeyPatch) -> None:
    said = mean_variance()
    monkeypatch.setattr(learner_module, "told_by_speeds", says_nothing)
    assert said > 0.8 * mean_variance()


def test_what_speeds_say_would_make_weights_surer_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if they were measured, though the means around which they are read are themselves read off these sums."""

    def measured(problem: CountProblem, near: Counts | None = None) -> Counts:
        counts = fit_counts(problem, near)
        return replace(counts, solved=_solved(problem, counts.solved.smoothness, counts.effects))

    said = mean_variance()
    monkeypatch.setattr(learner_module, "fit_counts", measured)
    assert mean_variance() < 0.8 * said


def test_folding_days_in_hardly_moves_the_weights() -> None:
    """A fold drops what its days' speeds said of weights; those of the recent days say it again."""
    kept, folded = State.new(design(), FACTS, None), State.new(design(), FACTS)
    for seed in range(2 * RECENT):
        day = day_without_noise_in_speeds(seed)
        kept, folded = taken_in(kept, day), taken_in(folded, day)
    one, other = (learned(state).counts.hats(design(), HOURS).sum(axis=1) for state in (kept, folded))
    assert np.average(np.abs(np.log(one / other)), weights=one) < 0.05
