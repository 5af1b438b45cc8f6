"""Estimates of HATs as rows: post-processing of recorded stages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.estimate import Estimates
from dpops.learning.state import VERSION
from dpops.types import Float64s
from transforms.places.hierarchy import texts_of
from transforms.recorded.units import VECTOR
from transforms.records import ABOUT, TRAFFIC, HatColumns, SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.products import ProductGroups
from transforms.releases.periods.stages import LevelsPolicy
from transforms.value import Value

_BESIDE = ("parent_value", "parent_lower95", "parent_upper95")


class HatEstimates(NamedTuple):
    """Estimates of a period's HATs, km/h; nan: no value."""

    value: Float64s
    lower95: Float64s
    upper95: Float64s
    sd: Float64s
    status: NDArray[np.str_]
    traffic: tuple[Float64s, Float64s] | None = None  # bounds of the mean of very many vehicles
    leans: Float64s | None = None  # weight of the day's slots in a live value
    parent: NDArray[np.str_] | None = None  # cell of an unknown HAT, if known
    beside: tuple[Float64s, ...] | None = None  # the parent's value and bounds
    products: tuple[SlotEstimates, ...] = ()
    notes: Mapping[str, NDArray[Any]] | None = None  # further columns
    about: tuple[Float64s, Float64s, Float64s, NDArray[np.str_]] | None = None  # vehicles, bounds, status

    def slot(self, number: int) -> "HatEstimates":
        """Selects the estimates of one slot, (cells, 1)."""
        leans = None if self.leans is None else self.leans[:, [number]]
        value, lower, upper, sd = (column[:, [number]] for column in self[:4])
        traffic = None if self.traffic is None else (self.traffic[0][:, [number]], self.traffic[1][:, [number]])
        return HatEstimates(value, lower, upper, sd, self.status[:, [number]], traffic, leans)

    def shown(self, value: Value) -> "HatEstimates":
        """Converts from the standard scale."""
        if value.scale == 1 and not value.lower:
            return self
        notes = {
            name: value.shown(column) if column.dtype.kind == "f" else column
            for name, column in (self.notes or {}).items()
        }
        return self._replace(
            value=value.shown(self.value),
            lower95=value.shown(self.lower95),
            upper95=value.shown(self.upper95),
            sd=value.width(self.sd),
            traffic=None if self.traffic is None else (value.shown(self.traffic[0]), value.shown(self.traffic[1])),
            beside=None if self.beside is None else tuple(map(value.shown, self.beside)),
            notes=notes,
        )


class Behind(NamedTuple):
    """Facts behind places' rows: days, vehicles and geometries."""

    days: int
    vehicles: Sequence[int | None]
    geometries: Sequence[Any]


def estimates_of_slot(estimates: HatEstimates, slot: int, facts: SlotFacts, policy: LevelsPolicy) -> SlotEstimates:
    """Estimates one slot of a period for every cell."""
    places, estimates = texts_of(policy.region), estimates.shown(policy.value)
    hats = _columns(estimates, [slot], places, _notes(estimates, [slot]), policy.on(facts.period))
    return SlotEstimates(policy.spec_id, facts.start, facts.end, policy.value.unit, ("mean",), hats)


def estimates_of_product(
    estimates: HatEstimates,
    product: str,
    grouped: ProductGroups,
    slots: Sequence[SlotFacts],
    policy: LevelsPolicy,
    behind: Behind | None = None,
) -> SlotEstimates:
    """Estimates a product's places and times in a period.

    Column `cell` holds a place's id too, so maps and joins work unchanged; `behind` is set for products of places.
    """
    estimates = estimates.shown(policy.value)
    names, spans = grouped.places, {number: span for number, span in enumerate(grouped.spans) if span is not None}
    named: dict[str, list[Any]] = {"product": [product] * len(names) * len(spans)}
    said = _notes(estimates, list(spans))
    notes, geometries = named | said, dict[str, Any]()
    if behind is not None:
        days, vehicles = [behind.days] * len(names) * len(spans), [*behind.vehicles] * len(spans)
        notes = said | named | {"place": names * len(spans), "days": days, "vehicles_at_least": vehicles}
        geometries = dict(zip(names, behind.geometries, strict=False))
    columns = _columns(estimates, list(spans), names, notes, policy.on(slots[0].period))
    times = [(slots[first].start, slots[last].end) for first, last in spans.values() for _ in names]
    hats = replace(columns, spans=times, geometries=geometries)
    start, end = slots[0].start, slots[-1].end
    return SlotEstimates(policy.spec_id, start, end, policy.value.unit, ("mean",), hats, product=product)


def _columns(
    estimates: HatEstimates,
    slots_of_rows: Sequence[int],
    places: Sequence[str],
    notes: Mapping[str, list[Any]],
    policy: LevelsPolicy,
) -> HatColumns:
    """Builds columns of consecutive slots, each by place."""
    value, lower, upper, sd = (column[:, slots_of_rows].T.ravel() for column in estimates[:4])
    nothing = np.full(value.size, np.nan)
    of_cells = Estimates(
        numbers=np.where(np.isnan(value), np.nan, [value, lower, upper])[None],
        lists=[],
        noise_std=np.where(np.isnan(value), np.nan, sd),
        bias_bound=nothing,
        epsilon=nothing,
        status=estimates.status[:, slots_of_rows].T.ravel().tolist(),
    )
    return HatColumns(
        cell=[*places] * len(slots_of_rows),
        statistic=["mean"] * value.size,
        mechanism=[VECTOR] * value.size,
        epsilon_slot=[str(policy.epsilon)] * value.size,
        estimates=of_cells,
        vehicles=[None] * value.size,
        reports=[None] * value.size,
        notes={**notes, "model": [VERSION] * value.size},
    )


def _notes(estimates: HatEstimates, slots: Sequence[int]) -> dict[str, list[Any]]:
    """Builds optional columns by name, None without a value."""
    columns = {
        "leans_on_day": estimates.leans,
        "parent": estimates.parent,
        **dict(zip(_BESIDE, estimates.beside or (), strict=False)),
        **dict(zip(TRAFFIC, estimates.traffic or (), strict=False)),
        **dict(zip(ABOUT, estimates.about or (), strict=False)),
        **(estimates.notes or {}),
    }
    texts = {name: column[:, slots].T.ravel().tolist() for name, column in columns.items() if column is not None}
    return {name: [None if x == "" or x != x else x for x in values] for name, values in texts.items()}
