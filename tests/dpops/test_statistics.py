"""Statistics: what they need of samples adds up, and the registry says where each mechanism belongs."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops import statistics
from dpops.mechanism import Mechanism
from dpops.mechanisms import registered
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.trees import BestTree
from dpops.statistics import SQUARES, SUMS, Histogram, RequestedStatistic, binned, check_outputs
from dpops.types import Grid

GRID = Grid(step=Fraction(1), upper_steps=50)
COLUMNS = (SUMS, SQUARES, Histogram(bins=7, upper_steps=50))
SAMPLES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=30)


def arrays_of(samples):
    group, steps = np.array(sorted(samples), np.int64).reshape(-1, 2).T
    return steps, group


@given(SAMPLES, SAMPLES)
def test_the_columns_of_two_parts_add_up_to_those_of_the_whole(first, second):
    for column in COLUMNS:
        parts = [column.add_up(*arrays_of(part), 4) for part in (first, second)]
        assert np.array_equal(sum(parts), column.add_up(*arrays_of(first + second), 4))


@given(SAMPLES)
def test_power_sums_and_histograms_are_those_of_python(samples):
    sums, squares, bins = (column.add_up(*arrays_of(samples), 4) for column in COLUMNS)
    for group in range(4):
        of_group = [steps for of, steps in samples if of == group]
        assert (sums[group], squares[group]) == (sum(of_group), sum(x * x for x in of_group))
        assert bins[group].tolist() == [sum(min(x * 7 // 50, 6) == k for x in of_group) for k in range(7)]


def test_every_mechanism_releases_statistics_that_a_specification_can_name():
    by_name = statistics.registered()
    for mechanism in registered().values():
        assert mechanism.statistics <= by_name.keys(), mechanism.name
    for statistic in by_name.values():
        assert statistic.name in registered()[statistic.default].statistics


class Misnamed(Baseline):
    """Gives its number another name than the mean has."""

    name = "misnamed"
    outputs = ("average",)


class Reordered(BestTree):
    name = "reordered"
    outputs = ("p85", "p50", "mean", "variance", "cdf")


@pytest.mark.parametrize(
    ("statistic", "mechanism"),
    [("mean", Misnamed()), ("distribution", Reordered()), ("mean", BestTree()), ("distribution", Baseline())],
)
def test_a_mechanism_that_gives_other_outputs_than_the_statistic_is_refused(statistic, mechanism):
    with pytest.raises(ValueError, match=f"{mechanism.name} gives .*, but {statistic} puts out"):
        RequestedStatistic(statistic, mechanism, Fraction(1))


def test_every_mechanism_gives_the_outputs_of_each_of_its_statistics():
    for mechanism in registered().values():
        for name in mechanism.statistics:
            check_outputs(mechanism, statistics.registered()[name])


@dataclass(frozen=True)
class InBins(Mechanism):
    name = "in-bins"
    bins: int = 8


def test_a_statistic_of_histograms_takes_the_bins_from_its_mechanism():
    assert binned(InBins(bins=5), GRID) == {"histograms": Histogram(bins=5, upper_steps=50)}
    with pytest.raises(TypeError, match="auto does not say how many bins"):
        binned(Auto(), GRID)
