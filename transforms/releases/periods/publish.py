"""Rows of a period: HATs' estimates, and released sums."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpops.estimate import Estimates
from dpops.learning.state import VERSION
from dpops.levels.stages import CENTRE_STEP_KMH
from dpops.types import Float64s
from transforms.places.ground import texts_of
from transforms.public import Fact
from transforms.recorded.units import VECTOR, StageUnit
from transforms.records import ABOUT_COLUMNS, TRAFFIC_COLUMNS, HatColumns, SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.products import DISTRIBUTION, PERCENTILES, ProductGroups
from transforms.releases.periods.stages import LevelsPolicy, read_unit

LEANS_COLUMN = "leans_on_day"  # how far a live value rests on the day's slots, 0 to 1
_PARENT_VALUES = ("parent_value", "parent_lower95", "parent_upper95")
PARENT_COLUMNS = ("parent", *_PARENT_VALUES)  # the cell that stands for an unknown HAT, and its value and bounds
_IN_UNITS = frozenset((*_PARENT_VALUES, *TRAFFIC_COLUMNS, *PERCENTILES))
_OPTIONAL = (LEANS_COLUMN, *PARENT_COLUMNS, *TRAFFIC_COLUMNS, *ABOUT_COLUMNS, *DISTRIBUTION)  # in the files' order


class HatEstimates(NamedTuple):
    """Estimates of a period's HATs or groups, km/h, (cells, slots) each; nan: no value."""

    value: Float64s
    lower95: Float64s
    upper95: Float64s
    sd: Float64s
    status: NDArray[np.str_]
    optional: Mapping[str, NDArray[Any]] = {}  # further columns, of _OPTIONAL
    products: tuple[SlotEstimates, ...] = ()

    def with_columns(self, names: Sequence[str], columns: Iterable[NDArray[Any]]) -> "HatEstimates":
        """Adds optional columns."""
        return self._replace(optional={**self.optional, **dict(zip(names, columns, strict=True))})


def estimates_of_period(
    estimates: HatEstimates, slots: Sequence[SlotFacts], policy: LevelsPolicy
) -> Iterator[SlotEstimates]:
    """Yields estimates slot by slot, then those of the period's products."""
    for index, facts in enumerate(slots):
        yield estimates_of_slot(estimates, index, facts, policy)
    yield from estimates.products


def estimates_of_slot(estimates: HatEstimates, index: int, facts: SlotFacts, policy: LevelsPolicy) -> SlotEstimates:
    """Estimates one slot of a period for every cell."""
    hats = _columns(estimates, [index], texts_of(policy.region), policy.on(facts.period))
    return SlotEstimates(policy.spec_id, facts.start, facts.end, policy.value.unit, ("mean",), hats)


def estimates_of_product(
    estimates: HatEstimates,
    product: str,
    grouped: ProductGroups,
    slots: Sequence[SlotFacts],
    policy: LevelsPolicy,
    by_place: Mapping[str, Sequence[Any]] = {},
) -> SlotEstimates:
    """Builds a product's rows, by time and place, from its estimates.

    Column `cell` holds a place's id too, so maps and joins work unchanged. by_place: further columns of products of
    places. A group whose span is None holds the slots outside all parts of the day, and has no row.
    """
    names, spans = grouped.places, {number: span for number, span in enumerate(grouped.spans) if span is not None}
    times = [(slots[first].start, slots[last].end) for first, last in spans.values() for _ in names]  # of the rows
    product_column = {"product": [product] * len(times)}
    of_places = {name: [*column] * len(spans) for name, column in by_place.items()}
    # Columns before and after the optional ones: "product" comes first in files of cells, but later in those of places.
    leading, trailing = ({}, product_column | of_places) if by_place else (product_column, {})
    hats = _columns(estimates, list(spans), names, policy.on(slots[0].period), leading, trailing)
    geometries = dict(zip(names, grouped.geometries, strict=False))  # none of H3 cells
    hats = replace(hats, spans=times, geometries=geometries)
    start, end = slots[0].start, slots[-1].end
    return SlotEstimates(policy.spec_id, start, end, policy.value.unit, ("mean",), hats, product=product)


def _columns(
    estimates: HatEstimates,
    slots_of_rows: Sequence[int],
    cell_names: Sequence[str],
    policy: LevelsPolicy,
    leading: Mapping[str, list[Any]] = {},
    trailing: Mapping[str, list[Any]] = {},
) -> HatColumns:
    """Builds the result's columns, all cells slot after slot.

    slots_of_rows: indices of slots. leading, trailing: columns before and after the estimates' optional ones.
    """
    unit = policy.value  # `shown`, `width`: convert values, and widths of intervals, to it
    matrices = (estimates.value, estimates.lower95, estimates.upper95, estimates.sd)  # (cells, slots)
    value, lower, upper, sd = (matrix[:, slots_of_rows].T.ravel() for matrix in matrices)
    columns = {name: matrix[:, slots_of_rows].T.ravel() for name, matrix in estimates.optional.items()}
    if unit.scale != 1 or unit.lower:  # until here numbers are on the standard scale (km/h, from 0)
        value, lower, upper, sd = *map(unit.shown, (value, lower, upper)), unit.width(sd)
        columns |= {name: unit.shown(columns[name]) for name in _IN_UNITS & columns.keys()}  # of values
    lists = {name: columns[name].tolist() for name in _OPTIONAL if name in columns}
    # Empty texts and nan, which alone differs from itself, become None.
    optional = {name: [None if x == "" or x != x else x for x in column] for name, column in lists.items()}
    nothing = np.full(value.size, np.nan)
    of_cells = Estimates(
        numbers=np.where(np.isnan(value), np.nan, [value, lower, upper])[None],  # (1 output, value and bounds, rows)
        lists=[],
        noise_std=np.where(np.isnan(value), np.nan, sd),
        bias_bound=nothing,
        epsilon=nothing,  # a HAT has no epsilon of its own
        status=estimates.status[:, slots_of_rows].T.ravel().tolist(),
    )
    return HatColumns(
        cell=[*cell_names] * len(slots_of_rows),
        statistic=["mean"] * value.size,
        mechanism=[VECTOR] * value.size,
        epsilon_slot=[str(policy.epsilon)] * value.size,
        estimates=of_cells,
        vehicles=[None] * value.size,  # counts are secret
        reports=[None] * value.size,
        optional={**leading, **optional, **trailing, "model": [VERSION] * value.size},
    )


SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("spec_id", "period", "level", "cell")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("slot_start", "slot_end")),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("stage", "sequence")),
        *(pa.field(name, pa.float64()) for name in ("weight", "weight_sd", "speed", "speed_sd")),
        pa.field("centre_kmh", pa.float64(), nullable=False),
    ]
)
"""weight: noisy sum of the vehicles' weights in a group. speed: noisy sum of weight times (speed - centre), km/h. Both
None where the level had no share of the budget. centre_kmh: mean of the centres of the group's HATs. sequence: the
place of the stage among those of the specification, 1, 2, .."""


def sums_of(
    unit: StageUnit, sequence: int, policy: LevelsPolicy, slots: Sequence[SlotFacts]
) -> Iterator[dict[str, Fact]]:
    """Yields a stage's noisy sums. sequence: its place among all the specification's, from 1."""
    released = read_unit(unit, policy.region, policy.public_places)
    for level in released.levels:
        layout, groups = level.level, level.level.groups
        slot_groups = groups.shape[1]  # groups ascend by group of cells, then of slots
        # Several kinds are classes of speed: then all slots are one group, and groups ascend by (cell, class).
        kinds, cell_names = policy.names_of(layout)
        # None where a deviation is infinite, as nothing was released.
        weight_sd, speed_sd = (round(sd, 9) if np.isfinite(sd) else None for sd in (level.weight_sd, level.speed_sd))
        slots_of = [np.flatnonzero(groups.slots == group) for group in range(slot_groups)]
        hats = groups.totals(np.ones(groups.index.shape))  # number of HATs in each group
        centres = groups.totals(released.stage.laid.centres.astype(np.float64)) / hats * float(CENTRE_STEP_KMH)
        sums = zip(level.weights.tolist(), level.speeds.tolist(), centres.ravel().tolist(), strict=True)
        for group, (weight, speed, centre) in enumerate(sums):
            slot_indices = slots_of[group % slot_groups]
            yield {
                "spec_id": policy.spec_id,
                "period": unit.period,
                "level": kinds[group % len(kinds)],
                "cell": cell_names[group // slot_groups],
                "slot_start": slots[slot_indices[0]].start,
                "slot_end": slots[slot_indices[-1]].end,
                "stage": unit.stage,
                "sequence": sequence,
                "weight": None if weight_sd is None else round(weight, 9),
                "weight_sd": weight_sd,
                "speed": None if speed_sd is None else round(speed, 9),
                "speed_sd": speed_sd,
                "centre_kmh": round(centre, 6),
            }
