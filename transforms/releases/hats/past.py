"""What a ledger's per-HAT entries teach: beside each mean a model value, from its own entry and those before it.

Everything here is a function of recorded entries in their order, where counts are public. No data is seen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np

from dpops.learning import Design, HatErrors, HatMeans, HatState, LearnedHats, Smoothness, learned_hats
from dpops.learning.interval import LEAST_VEHICLES
from dpops.mechanism import Plan
from dpops.mechanisms import registered
from transforms.places.hexagons import cell_text
from transforms.places.hierarchy import design_of
from transforms.recorded.units import HatEntry, HatUnit, Released
from transforms.records import SlotEstimates

STATISTIC = "mean"
MODEL = ("model_value", "model_lower95", "model_upper95", "model_status")
"""The columns that rows of the mean have besides."""

Note = Mapping[str, float | str | None]


@dataclass(frozen=True, slots=True)
class Past:
    """What entries up to one of them taught. sequence: of the last one; 0 before the first."""

    sequence: int
    state: HatState

    @staticmethod
    def none(*, keeps_all: bool = False) -> "Past":
        """Begins before the first entry. keeps_all: every day stays as released, so that each can be estimated."""
        return Past(0, HatState.new(None) if keeps_all else HatState.new())

    def after(self, entries: Iterable[HatEntry]) -> "Past":
        """Learns from further entries. entries: the following ones of the specification, in the order of the ledger."""
        past = self
        for sequence, unit in entries:
            past = Past(int(sequence), past.state.after(day_of(unit), means_of(unit)))
        return past


class Fitter:
    """Fits the model entry by entry: how smooth the city is, days before the newest tell, so it is learned once a day.

    On a first day the entries tell it themselves. Fits are functions of the entries; what is kept here saves time.
    """

    def __init__(self) -> None:
        self._cells = np.zeros(0, np.int64)
        self._design: Design | None = None
        self._before: HatState | None = None
        self._smoothness: Smoothness | None = None

    def fitted(self, past: Past) -> LearnedHats | None:
        """Fits the model, as smooth as days before the newest tell; None where no HAT was released yet."""
        before = past.state.before
        if self._before is None or not before.is_same(self._before):
            fitted = self._learned(before, None)
            self._before, self._smoothness = before, None if fitted is None else fitted.smoothness
        return self._learned(past.state, self._smoothness)

    def _learned(self, state: HatState, smoothness: Smoothness | None) -> LearnedHats | None:
        cells = state.whole.cells
        if not cells.size:
            return None
        if self._design is None or not np.array_equal(cells, self._cells):
            self._cells, self._design = cells, design_of(cells.tolist())
        return learned_hats(state, self._design, smoothness)


def day_of(unit: HatUnit) -> str:
    """Tells the local day that a slot begins on."""
    return unit.slot_start[:10]


def means_of(unit: HatUnit) -> HatMeans:
    """Reads the HATs of a unit whose mean is released, as they are learned from."""
    means = [release for release in unit.released if release.statistic == STATISTIC and release.plan is not None]
    plans = _Plans()
    rows = np.array([plans.row(release) for release in means], np.float64).reshape(-1, len(_Row._fields))
    cells = np.array([int(release.cell, 16) for release in means], np.int64)
    order = np.argsort(cells)
    vehicles, reports, heaviest, values, noise, bias_kmh, pull_kmh, pull_sd_kmh, is_clipped = rows[order].T
    return HatMeans(
        cells=cells[order],
        hour=int(unit.slot_start[11:13]),
        vehicles=vehicles.astype(np.int64),
        reports=reports.astype(np.int64),
        heaviest=heaviest.astype(np.int64),
        values=values,
        errors=HatErrors(noise, bias_kmh, pull_kmh, pull_sd_kmh, is_clipped.astype(np.bool_)),
    )


class _Row(NamedTuple):
    """A HAT as its plan and integers have it. value: km/h, not clamped. The rest are those of `HatErrors`."""

    vehicles: float
    reports: float
    heaviest: float
    value: float
    noise: float
    bias_kmh: float
    pull_kmh: float
    pull_sd_kmh: float
    is_clipped: float


class _Plans:
    """Reads plans, each once: many HATs share one."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, bytes], Plan] = {}

    def row(self, released: Released) -> _Row:
        """Reads a released mean as one row; of a plan without noise, which rests on no data, it says nothing."""
        key = released.mechanism, msgspec.json.encode(released.plan)
        if key not in self._read:
            self._read[key] = Plan.from_public(released.mechanism, released.plan or {})
        plan, integers, mechanism = self._read[key], released.integers or [], registered()[released.mechanism]
        users, samples, heaviest = (plan.facts[name] for name in ("users", "samples", "heaviest"))
        resolved = mechanism.resolve(integers, plan)
        if not resolved.scale:
            return _Row(users, samples, heaviest, 0.0, np.inf, 0.0, 0.0, 0.0, False)
        value, noise, bias = float(integers[-1] * resolved.step), resolved.noise_std() ** 2, resolved.stated_bias()
        # Reports that suppression leaves out are whole vehicles', no slower than others.
        without = float(plan.upper) * (1 - samples / plan.facts["reported"])
        pull, unit = mechanism.pull, max(bias - without, 0.0) ** 2 / float(plan.upper)
        pulls = pull.usual * unit, pull.sd * unit
        return _Row(users, samples, heaviest, value, noise, bias, *pulls, pull.clips)


def with_model(
    slot: SlotEstimates, units: Sequence[HatUnit], learned: LearnedHats | None, upper_kmh: Fraction
) -> SlotEstimates:
    """Puts the columns of MODEL beside the slot's rows. learned: what its own entries and earlier ones taught."""
    notes: dict[str, Note] = {}
    for unit in units:
        means = means_of(unit)
        if learned is not None and means.cells.size:
            notes |= _notes(learned, day_of(unit), means, float(upper_kmh))
    hats = slot.hats
    nothing: Note = {}
    own_means = [
        notes.get(cell, nothing) if statistic == STATISTIC else nothing
        for cell, statistic in zip(hats.cell, hats.statistic, strict=True)
    ]
    columns = {name: [note.get(name) for note in own_means] for name in MODEL}
    return slot._replace(hats=replace(hats, notes={**hats.notes, **columns}))


def _notes(learned: LearnedHats, day: str, means: HatMeans, upper_kmh: float) -> dict[str, Note]:
    """Writes the notes of means by cell; without a value where the city is not known."""
    belief = learned.belief(day, means, upper_kmh)
    cells = map(cell_text, means.cells.tolist())
    if not belief.is_known:
        return {cell: {"model_status": "held-back"} for cell in cells}
    status = np.where(means.vehicles >= LEAST_VEHICLES, "ok", "unreliable").tolist()
    columns = [column.tolist() for column in (belief.values, belief.lower95, belief.upper95)]
    return {cell: dict(zip(MODEL, row, strict=True)) for cell, *row in zip(cells, *columns, status, strict=True)}
