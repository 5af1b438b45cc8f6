"""Rows of a period: HATs' estimates, and the released sums."""

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
from transforms.value import Value

LEANS_COLUMN = "leans_on_day"  # how far a live value rests on the day's slots, 0 to 1
_PARENT_VALUES = ("parent_value", "parent_lower95", "parent_upper95")
PARENT_COLUMNS = ("parent", *_PARENT_VALUES)  # the cell that stands for an unknown HAT, and its value and bounds
_IN_UNITS = frozenset((*_PARENT_VALUES, *TRAFFIC_COLUMNS, *PERCENTILES))
_OPTIONAL = (LEANS_COLUMN, *PARENT_COLUMNS, *TRAFFIC_COLUMNS, *ABOUT_COLUMNS, *DISTRIBUTION)  # in the files' order


class HatEstimates(NamedTuple):
    """Estimates of a period's HATs or groups, km/h, (cells, slots) each; nan: no value.

    optional: further columns, of _OPTIONAL.
    """

    value: Float64s
    lower95: Float64s
    upper95: Float64s
    sd: Float64s
    status: NDArray[np.str_]
    optional: Mapping[str, NDArray[Any]] = {}
    products: tuple[SlotEstimates, ...] = ()

    def with_columns(self, names: Sequence[str], columns: Iterable[NDArray[Any]]) -> "HatEstimates":
        """Adds optional columns."""
        return self._replace(optional={**self.optional, **dict(zip(names, columns, strict=True))})

    def shown(self, value: Value) -> "HatEstimates":
        """Converts numbers from the standard scale (km/h, from 0) to the value's own unit."""
        if value.scale == 1 and not value.lower:
            return self
        optional = {name: value.shown(x) if name in _IN_UNITS else x for name, x in self.optional.items()}
        estimate, lower, upper = map(value.shown, (self.value, self.lower95, self.upper95))
        return HatEstimates(estimate, lower, upper, value.width(self.sd), self.status, optional, self.products)


class PlaceFacts(NamedTuple):
    """Facts that places' rows add: released days, and by place vehicles and GeoJSON geometries."""

    days: int
    vehicles: Sequence[int | None]  # as many are proved to visit it; None if too few
    geometries: Sequence[Any]


def estimates_of_period(
    estimates: HatEstimates, slots: Sequence[SlotFacts], policy: LevelsPolicy
) -> Iterator[SlotEstimates]:
    """Yields estimates slot by slot, then those of the period's products."""
    for index, facts in enumerate(slots):
        yield estimates_of_slot(estimates, index, facts, policy)
    yield from estimates.products


def estimates_of_slot(estimates: HatEstimates, index: int, facts: SlotFacts, policy: LevelsPolicy) -> SlotEstimates:
    """Estimates one slot of a period for every cell."""
    cell_names, estimates = texts_of(policy.region), estimates.shown(policy.value)
    hats = _columns(estimates, [index], cell_names, _optional_columns(estimates, [index]), policy.on(facts.period))
    return SlotEstimates(policy.spec_id, facts.start, facts.end, policy.value.unit, ("mean",), hats)


def estimates_of_product(
    estimates: HatEstimates,
    product: str,
    grouped: ProductGroups,
    slots: Sequence[SlotFacts],
    policy: LevelsPolicy,
    place_facts: PlaceFacts | None = None,
) -> SlotEstimates:
    """Estimates a product's places and times in a period.

    Column `cell` holds a place's id too, so maps and joins work unchanged; place_facts: for products of places. A group
    whose span is None holds the slots outside all parts of the day, and has no row.
    """
    estimates = estimates.shown(policy.value)
    names, spans = grouped.places, {number: span for number, span in enumerate(grouped.spans) if span is not None}
    product_column: dict[str, list[Any]] = {"product": [product] * len(names) * len(spans)}  # a row a place and span
    of_estimates = _optional_columns(estimates, list(spans))
    optional, geometries = product_column | of_estimates, dict[str, Any]()  # here and below: in the files' order
    if place_facts is not None:
        days, vehicles = [place_facts.days] * len(names) * len(spans), [*place_facts.vehicles] * len(spans)
        of_places: dict[str, list[Any]] = {"place": names * len(spans), "days": days, "vehicles_at_least": vehicles}
        optional = of_estimates | product_column | of_places
        geometries = dict(zip(names, place_facts.geometries, strict=False))  # () if places are H3 cells
    columns = _columns(estimates, list(spans), names, optional, policy.on(slots[0].period))
    times = [(slots[first].start, slots[last].end) for first, last in spans.values() for _ in names]
    hats = replace(columns, spans=times, geometries=geometries)
    start, end = slots[0].start, slots[-1].end
    return SlotEstimates(policy.spec_id, start, end, policy.value.unit, ("mean",), hats, product=product)


def _columns(
    estimates: HatEstimates,
    slots_of_rows: Sequence[int],
    cell_names: Sequence[str],
    optional: Mapping[str, list[Any]],
    policy: LevelsPolicy,
) -> HatColumns:
    """Builds the result's columns, all cells slot after slot; slots_of_rows: indices of slots."""
    matrices = (estimates.value, estimates.lower95, estimates.upper95, estimates.sd)  # (cells, slots)
    value, lower, upper, sd = (column[:, slots_of_rows].T.ravel() for column in matrices)
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
        optional={**optional, "model": [VERSION] * value.size},
    )


def _optional_columns(estimates: HatEstimates, slots: Sequence[int]) -> dict[str, list[Any]]:
    """Builds optional columns by name, with None for nan and empty text."""
    columns = {name: estimates.optional[name] for name in _OPTIONAL if name in estimates.optional}
    lists = {name: column[:, slots].T.ravel().tolist() for name, column in columns.items()}
    return {name: [None if x == "" or x != x else x for x in values] for name, values in lists.items()}  # x != x: nan


SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string(), nullable=False)
            for name in ["spec_id", "period", "level", "cell", "slot_start", "slot_end"]
        ),
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
    """Yields a stage's noisy sums. sequence: the stage's number, counted by `counted`."""
    released = read_unit(unit, policy.region, policy.public_places)
    for level in released.levels:
        layout, groups = level.level, level.level.groups
        slot_groups = groups.shape[1]
        # Several kinds are classes of speed: then all slots are one group, and groups ascend by (cell, class).
        kinds, cell_names = policy.names_of(layout)
        slots_of = [np.flatnonzero(groups.slots == group) for group in range(slot_groups)]
        hats = groups.totals(np.ones(groups.index.shape))  # number of HATs in each group
        centres = groups.totals(released.stage.laid.centres.astype(np.float64)) / hats * float(CENTRE_STEP_KMH)
        sums = zip(level.weights.tolist(), level.speeds.tolist(), centres.ravel().tolist(), strict=True)
        for group, (weight, speed, centre) in enumerate(sums):
            slot_indices = slots_of[group % slot_groups]
            weights, speeds = _with_sd(weight, level.weight_sd), _with_sd(speed, level.speed_sd)
            yield {
                "spec_id": policy.spec_id,
                "period": unit.period,
                "level": kinds[group % len(kinds)],
                "cell": cell_names[group // slot_groups],
                "slot_start": slots[slot_indices[0]].start,
                "slot_end": slots[slot_indices[-1]].end,
                "stage": unit.stage,
                "sequence": sequence,
                **dict(zip(("weight", "weight_sd"), weights, strict=True)),
                **dict(zip(("speed", "speed_sd"), speeds, strict=True)),
                "centre_kmh": round(centre, 6),
            }


def _with_sd(value: float, sd: float) -> tuple[float | None, float | None]:
    """Rounds a sum and its deviation; None where infinite, as nothing was released."""
    return (round(value, 9), round(sd, 9)) if np.isfinite(sd) else (None, None)
