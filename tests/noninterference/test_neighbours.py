"""Whatever rows a vehicle has, among whatever others: it adds its own bounded vector, and nothing else changes."""

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.noninterference.neighbours import LAYOUTS, Neighbours, heavy, neighbours
from tests.noninterference.world import Report

OTHER = Report("bus1", "2022-01-01T08:00:07+05:30", 21.17, 72.83, 20.0)
RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def check(neighbours: Neighbours) -> None:
    assert neighbours.differences() == []


seeds = [
    Neighbours("elements", [OTHER, OTHER._replace(vehicle=8)], [OTHER._replace(vehicle=2.5)], (0,)),
    Neighbours("elements", [OTHER], [OTHER._replace(vehicle="7", time=1_641_004_200)], (0,)),
    Neighbours("parquet", [], [OTHER._replace(vehicle="7")], (0,)),
    Neighbours("json-array", [OTHER], [OTHER._replace(vehicle="7", speed=10**400)], (1,), 2),
]
"""Cases that were found once."""


def with_seeds(test: object) -> object:
    for seed in seeds:
        test = example(seed)(test)
    return test


test_a_generated_vehicle_adds_its_own_vector_alone = with_seeds(
    settings(max_examples=15, deadline=None, suppress_health_check=RELAXED)(given(neighbours())(check))
)
test_ten_thousand_generated_vehicles_add_their_own_vectors_alone = pytest.mark.slow(
    settings(max_examples=10_000, deadline=None, suppress_health_check=RELAXED)(given(neighbours())(check))
)


@pytest.mark.parametrize(
    "layout", [pytest.param(layout, marks=[pytest.mark.slow] * (layout != "jsonl")) for layout in LAYOUTS]
)
def test_a_vehicle_of_twenty_thousand_rows_adds_its_own_vector_alone(layout: str) -> None:
    check(heavy(layout, 2_000 if layout != "jsonl" else 20_000))
