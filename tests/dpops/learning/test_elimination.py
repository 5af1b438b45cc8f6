"""Cities are cut into pieces that touch little: what a city costs grows hardly faster than it does."""

import numpy as np
import pytest

from dpops.learning.design import Design
from dpops.learning.factors import factored
from dpops.learning.layout import EffectLayout
from tests.dpops.learning.city import design


def street(cells: int) -> Design:
    """Cells in a row, each of a parent of its own."""
    return Design(parents=np.arange(cells), neighbours=np.stack([np.arange(cells - 1), np.arange(1, cells)], axis=1))


def no_parents() -> Design:
    return Design(parents=np.zeros(36, np.int64), neighbours=design(6).neighbours)


@pytest.mark.parametrize("of", [design(13), street(90), no_parents()], ids=["square", "street", "one parent"])
def test_factors_give_the_inverse_of_the_whole_matrix(of: Design) -> None:
    layout = EffectLayout(of, 0)
    places = layout.local.size
    matrix, rng = np.zeros((places, places)), np.random.default_rng(1)
    row, column = (
        np.concatenate(ends) for ends in zip(layout.pair_places, layout.apart, layout.apart[::-1], strict=True)
    )
    matrix[row, column] = rng.normal(size=row.size)
    matrix = matrix + matrix.T + 30 * np.eye(places)
    factors = factored(layout.elimination, matrix[row, column])
    inverse, columns = np.linalg.inv(matrix), rng.normal(size=(places, 3))
    assert np.allclose(factors.solved(columns), inverse @ columns, atol=1e-12)
    assert np.allclose(factors.selected(row.size), inverse[row, column], atol=1e-12)


def test_a_city_four_times_as_large_costs_hardly_more_than_four_times_as_much() -> None:
    small, large = (EffectLayout(design(side), 0).elimination for side in (30, 60))
    steps, numbers = (
        [sum(work) for work in zip(*((of.size * of.width**2, of.size * of.width) for of in city.fronts), strict=True)]
        for city in (small, large)
    )
    (small_steps, small_numbers), (large_steps, large_numbers) = steps, numbers
    assert large_steps < 7 * small_steps
    assert large_numbers < 5 * small_numbers
    assert sorted(large.order) == list(range(large.order.size))
