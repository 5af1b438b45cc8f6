"""The block-by-block solution of the normal equations is that of the whole dense matrix."""

from collections.abc import Callable

import numpy as np
import pytest

from dpops.learning.assembly import PartInformation, system_of
from dpops.learning.covariances import hat_variances, usual_hours
from dpops.learning.design import HOURS, Design, Smoothness, both_kinds, hour_smoothness, off_smoothness
from dpops.learning.information import Information
from dpops.learning.layout import EffectLayout
from dpops.learning.means import coefficients_of, columns_of
from dpops.learning.queries import GroupRows, Groups
from dpops.learning.system import Solved, learned_smoothness
from tests.dpops.learning.city import design, truth

SMOOTH = Smoothness(cells=0.3, hours=0.7, parents=1.1, off=0.4)
SLOTS = np.arange(HOURS)
OWN_DAYS = 2.0


def two_towns() -> Design:
    """Two squares far from each other, and a lone cell."""
    one = design(5)
    parents = np.concatenate([one.parents, one.parents + one.parents.max() + 1, [2 * one.parents.max() + 2]])
    return Design(parents=parents, neighbours=np.concatenate([one.neighbours, one.neighbours + one.cells]))


CITIES: dict[str, Callable[[], Design]] = {"one layer": design, "layers": lambda: design(14), "towns": two_towns}


def groupings(of: Design) -> list[Groups]:
    cells, parts = np.arange(of.cells), SLOTS // 4
    return [
        Groups(cells=cells, slots=0 * SLOTS),
        Groups(cells=0 * cells, slots=SLOTS),
        Groups(cells=of.parents, slots=parts),
        Groups(cells=cells, slots=SLOTS),
        Groups(cells=of.parents // 4, slots=0 * SLOTS),
    ]


def observed(of: Design, seed: int) -> tuple[EffectLayout, list[Information], list[tuple[np.ndarray, np.ndarray]]]:
    """What sums of a working day and a day off say, sparsely, and as dense rows and values over roots of variances."""
    layout, rng = EffectLayout(of, 1), np.random.default_rng(seed)
    traffic = rng.normal(size=(of.cells, HOURS))
    sparse, dense = [], []
    for day in range(2):
        columns = columns_of(of, SLOTS + HOURS * day)
        hats = (truth(of)[0] * (1 + day))[..., None] * coefficients_of(traffic)
        total, rows, values = Information.none(layout), [], []
        for level, groups in enumerate(groupings(of)):
            made = GroupRows(groups, columns, layout, bytes([level]))
            count = groups.shape[0] * groups.shape[1]
            value, precision = rng.normal(size=count), rng.uniform(0.1, 3, count)
            total = total + made(hats).information(precision, value)
            matrix = np.zeros((count, layout.width))
            group = (groups.cells[:, None] * groups.shape[1] + groups.slots)[..., None]
            np.add.at(matrix, (np.broadcast_to(group, columns.shape), columns), hats)
            rows.append(matrix * np.sqrt(precision)[:, None])
            values.append(value * np.sqrt(precision))
        sparse.append(total)
        dense.append((np.concatenate(rows), np.concatenate(values)))
    return layout, sparse, dense


def dense_solution(of: Design, days: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Effects, then each day's own hours; and their covariance."""
    width = of.columns + 1
    whole, vector = np.zeros((width + 2 * HOURS,) * 2), np.zeros(width + 2 * HOURS)
    whole[0, 0] = whole[width - 1, width - 1] = 0.1
    vector[0] = 2.0
    cells = np.eye(of.cells)
    for one, other in of.neighbours:
        cells[[one, other], [one, other]] += 1
        cells[[one, other], [other, one]] -= 1
    whole[of.cell_columns, of.cell_columns] += SMOOTH.cells * cells
    whole[of.hour_columns, of.hour_columns] += SMOOTH.of_hours()
    span = np.arange(of.columns)[of.parent_columns]
    whole[span, span] += SMOOTH.parents
    for day, (rows, values) in enumerate(days):
        own = slice(width + HOURS * day, width + HOURS * (day + 1))
        extended = np.zeros((rows.shape[0], vector.size))
        extended[:, :width], extended[:, own] = rows, rows[:, of.hour_columns] @ both_kinds()
        whole += extended.T @ extended
        whole[own, own] += OWN_DAYS * SMOOTH.days * hour_smoothness()
        vector += extended.T @ values
    covariance = np.linalg.inv(whole)
    return covariance @ vector, covariance


def both(name: str) -> tuple[Design, Solved, np.ndarray, np.ndarray]:
    of = CITIES[name]()
    layout, sparse, dense = observed(of, 3)
    prior, value = np.zeros(layout.border.size), np.zeros(layout.border.size)
    prior[[0, -1]], value[0] = 0.1, 2.0
    solved = system_of(layout, prior, value, [PartInformation(day, OWN_DAYS) for day in sparse]).solved(SMOOTH)
    return of, solved, *dense_solution(of, dense)


@pytest.mark.parametrize("name", CITIES)
def test_effects_and_variances_are_those_of_the_dense_matrix(name: str) -> None:
    of, solved, effects, covariance = both(name)
    width = of.columns + 1
    assert np.allclose(solved.effects, effects[:width])
    hours = solved.system.own[1]
    assert hours is not None
    own = hours.span
    assert np.allclose(solved.border[own], effects[width + HOURS :])
    rows = usual_hours(solved)
    rows[:, own] = both_kinds()
    uncertainty = hat_variances(solved, rows)
    off = SLOTS + HOURS
    columns = np.concatenate([of.of_hats(off), np.broadcast_to(width + HOURS + SLOTS[:, None], (of.cells, 24, 1))], 2)
    expected = covariance[columns[..., :, None], columns[..., None, :]].sum(axis=(2, 3))
    assert np.allclose(uncertainty.variances[:, off], expected)
    assert np.allclose(uncertainty.with_last[:, off, 0], covariance[columns, width - 1].sum(axis=2))


@pytest.mark.parametrize("name", CITIES)
def test_what_smoothness_is_learned_is_that_of_the_dense_matrix(name: str) -> None:
    of, solved, effects, covariance = both(name)
    smoothness = learned_smoothness(solved, solved.effects, SMOOTH)
    cells, one, other = effects[of.cell_columns], *of.neighbours.T
    spread = covariance[of.cell_columns, of.cell_columns]
    energy = cells @ cells + np.trace(spread) + np.sum((cells[one] - cells[other]) ** 2)
    energy += np.sum(spread[one, one] + spread[other, other] - 2 * spread[one, other])
    assert smoothness.cells == pytest.approx((of.cells + 6) / (energy + 6 / SMOOTH.cells))
    apart = np.concatenate([-np.eye(HOURS), np.eye(HOURS)], axis=1)
    values = apart @ effects[of.hour_columns]
    together = apart @ covariance[of.hour_columns, of.hour_columns] @ apart.T
    apart_energy = values @ off_smoothness() @ values + np.sum(off_smoothness() * together)
    assert smoothness.off == pytest.approx((HOURS + 6) / (apart_energy + 6 / SMOOTH.off))
    parts = effects[of.parent_columns]
    part_energy = parts @ parts + np.trace(covariance[of.parent_columns, of.parent_columns])
    assert smoothness.parents == pytest.approx((parts.size + 6) / (part_energy + 6 / SMOOTH.parents))


def test_the_covariance_times_a_vector_is_that_of_the_dense_matrix() -> None:
    of, solved, _, covariance = both("layers")
    layout, vector = solved.system.layout, np.zeros(of.columns + 1)
    vector[[0, 5, 40, of.columns - 3]] = 1, 2, -3, 4
    border = np.zeros(solved.border.size)
    border[: layout.border.size] = vector[layout.border]
    local, at_border = solved.times(vector[layout.local], border)
    expected = covariance[:, : of.columns + 1] @ vector
    assert np.allclose(local, expected[layout.local])
    assert np.allclose(at_border[: layout.border.size], expected[layout.border])


def test_rows_of_the_same_groups_that_differ_by_a_factor_are_joined_exactly() -> None:
    of = design(14)
    layout, groups = EffectLayout(of, 1), groupings(of)[1]
    made = GroupRows(groups, columns_of(of, SLOTS), layout, b"hours")
    hats = truth(of)[0][..., None] * coefficients_of(np.zeros((of.cells, HOURS)))
    one = made(hats).information(np.full(24, 2.0), np.arange(24.0))
    other = made(3 * hats).information(np.full(24, 0.5), np.ones(24))
    apart = [PartInformation(replace_key(information, key)) for information, key in ((one, b"a"), (other, b"b"))]
    nothing = np.zeros(layout.border.size)
    prior = nothing + 0.1
    joined = system_of(layout, prior, nothing, [PartInformation(one + other)]).solved(SMOOTH).effects
    assert not np.allclose(joined, 0)
    assert np.allclose(joined, system_of(layout, prior, nothing, apart).solved(SMOOTH).effects)


def replace_key(of: Information, key: bytes) -> Information:
    return Information(of.families, of.mixed, of.corner, of.local, of.border, {key: next(iter(of.wide.values()))})
