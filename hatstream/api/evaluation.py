"""In-memory releases of counted days, for tests and evaluations.

Counts are true, hence not private. The account is in memory, its limit is not enforced and its noise may be seeded;
plans, noise, learning and rows are those of `hatstream release`. Slots have public facts, by start, ascending; those
that are drawn together are a group, named by the start of its first slot. With places, cells of tallies are pieces:
places' parts in H3 cells.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from dpops.noise import Noise
from dpops.statistics import SUMS, Column, Histogram
from dpops.types import Int64s
from pipelines.errors import InputError, Report, UsageError, ignore
from pipelines.inputs import input_paths, range_of
from pipelines.job import request_of, slot_facts
from pipelines.runs.estimates import RecordedStages, estimate_by_all, forecast_of
from pipelines.specification import Specification
from transforms import wire
from transforms.count.tally import derived_events, tally
from transforms.ledger.ledger import Ledger
from transforms.ledger.recording import LedgerAccount
from transforms.observe.parse import FROM_US, TO_US
from transforms.observe.vehicle_ids import Secret
from transforms.places.ground import texts_of
from transforms.public import EntryNumber
from transforms.recorded.units import LiveEntry, Sequenced, StageEntry, Unit
from transforms.records import RecordedSlot, SlotEstimates
from transforms.releases import KINDS, SlotFacts
from transforms.releases.base import History, ReleaseKind
from transforms.releases.periods.publish import estimates_of_period
from transforms.releases.periods.release import PeriodRelease
from transforms.releases.periods.states import learned_from
from transforms.sinks.rows import Shape, columns_of, schema_of, shown_names
from transforms.tasks import observed
from transforms.time.calendar import Calendar


def release_days(
    spec: Specification, counts: pa.Table, *, seed: int | None = None, whole: bool = False, forecasts: bool = False
) -> dict[str, pa.Table]:
    """Releases counted days in memory, for tests and evaluations.

    Args:
        counts: Table of `count_days`; rows may be removed, changed or invented.
        seed: Seed of the noise; None for the random noise of a release.
        whole: Whether to estimate every day again at the end, from all days. UsageError without mechanism `levels`.
        forecasts: Whether to forecast every day but the first beforehand, from the days before. Errors as for `whole`.

    Returns:
        Result tables by "hats" (HATs of unknown value included), product names, "whole" and "forecast". Further
        columns: `period`, and `slot` and `last_slot`, numbers of the first and last slot; null for rows over several
        periods. HATs with public counts also have `vehicles` and `reports`.

    >>> from hatstream import load
    >>> release_days(load("examples/hourly-means.toml"), pa.table({"period": pa.array([], pa.string())}))
    {}
    """
    days = _days_of(spec, counts)
    if not days:
        return {}
    slots = {slot_s: facts for day in days.values() for slot_s, facts in day.facts.items()}  # of all days, by start
    account, noise = _MemoryAccount.of(spec), Noise() if seed is None else Noise(np.random.default_rng(seed).bytes)
    run = _EvaluatedDays(spec, account, _release_of(spec, slots, account), noise)
    for number, day in enumerate(days.values()):
        facts = list(day.facts.values())
        if forecasts and number:
            run.show("forecast", estimates_of_period(forecast_of(run.recorded, facts), facts, run.recorded.policy))
        groups = list(map(run.release.group, day.facts))  # of each slot, ascending: start of its group's first slot
        group_of_row = np.array(groups, np.int64)[np.searchsorted(np.array(list(day.facts)), day.table.slot_s)]
        for first_s in dict.fromkeys(groups):
            run.draw(first_s, day.table.take(group_of_row == first_s))
    if whole:
        recorded = run.recorded
        model = learned_from(recorded.entries, recorded.policy, least_recent=None)  # keeps old days one by one
        for period, day in days.items():
            facts = list(day.facts.values())
            estimates = estimate_by_all(recorded, model, period, facts)
            run.show("whole", estimates_of_period(estimates, facts, recorded.policy))
    # Learned rows have estimated vehicles and reports, which are no public counts.
    shape = Shape(counts=spec.counts_are_public and not spec.is_learned, unknown=True)
    return {name: _rows(days, estimates, shape) for name, estimates in run.shown.items()}


class _Day(NamedTuple):
    """Facts of a counted period's slots, and all of its counts."""

    facts: dict[int, SlotFacts]
    table: wire.Tally


def _days_of(spec: Specification, counts: pa.Table) -> dict[str, _Day]:
    """Reads rows of `count_days` as tallies, by period, ascending. Raises UsageError."""
    periods, days = sorted(set(counts["period"].to_pylist())), dict[str, _Day]()
    if not periods:
        return days
    if spec.timetable.unit != "vehicle-day":
        raise UsageError("an evaluation releases days: account.unit must be 'vehicle-day'")
    sums = {column.name for column in _columns_of(spec, _release_of(spec, facts={}, account=_MemoryAccount.of(spec)))}
    columns = {name: _int64s(counts[name].combine_chunks()) for name in ("slot", "vehicle", "reports", *sums)}
    columns["cell"], period_of = _cell_keys(spec, counts), np.array(counts["period"].to_pylist())
    for period in periods:
        facts = slot_facts(spec, range_of(spec.timetable, period, period))
        inside = np.flatnonzero((period_of == period) & (columns["cell"] >= 0))  # below 0: outside the region
        inside = inside[np.lexsort([columns[name][inside] for name in ("cell", "vehicle", "slot")])]  # a tally's order
        rows = {name: column[inside] for name, column in columns.items()}
        days[period] = _Day(
            facts,
            wire.Tally(
                slot_s=np.array(list(facts), np.int64)[rows["slot"]],  # "slot": its number in the period
                vehicle=rows["vehicle"],
                cell=rows["cell"],
                kept=rows["reports"],
                dropped=np.zeros(inside.size, np.int64),
                sums={name: rows[name] for name in sums},
            ),
        )
    return days


@dataclass(frozen=True)
class _MemoryAccount(LedgerAccount):
    """In-memory account without a limit, never persisted."""

    entries: list[Sequenced[Any]] = field(default_factory=list)

    @classmethod
    def of(cls, spec: Specification) -> "_MemoryAccount":
        return cls("", Path("none"), spec.account.name, spec.account.limit, spec.name, spec.text)

    def open(self) -> Ledger:
        return cast("Ledger", self)

    def stages(self, _account: str, _spec_id: str) -> list[StageEntry]:
        return [entry for entry in self.entries if not entry.unit.is_live]

    def live(self, _account: str, _spec_id: str, period: str) -> list[LiveEntry]:
        of_slots = (entry for entry in self.entries if entry.unit.is_live)
        return [entry for entry in of_slots if entry.unit.period == period]

    def stop(self, *_unit: str) -> bool:
        """Continues after a period of few vehicles, as if a person attended."""
        return False

    def record(self, units: Sequence[Unit]) -> list[RecordedSlot]:
        """Stores units, and returns them as recorded slots."""
        slots: dict[int, RecordedSlot] = {}
        for unit in units:
            sequence = len(self.entries) + 1
            self.entries.append(Sequenced(EntryNumber(sequence), unit))
            slot = slots.setdefault(unit.slot_s, RecordedSlot(units=[], sequences=[]))
            slot.units.append(unit)
            slot.sequences.append(sequence)
        return list(slots.values())


@dataclass(frozen=True)
class _EvaluatedDays:
    """One release of all days. shown: estimates by product."""

    spec: Specification
    account: _MemoryAccount
    release: ReleaseKind
    noise: Noise
    shown: dict[str, list[SlotEstimates]] = field(default_factory=dict)

    @property
    def recorded(self) -> RecordedStages:
        """Stages so far, for estimates by all of them. Raises UsageError unless learned."""
        if not self.spec.is_learned:
            raise UsageError("forecasts=True and whole=True need a mean by mechanism 'levels'")
        stages = self.account.stages("", "")  # it has one account and one specification, of any name
        return RecordedStages(self.spec, cast("PeriodRelease", self.release).policy, stages)

    def show(self, name: str, estimates: Iterable[SlotEstimates]) -> None:
        """Adds estimates to those of `name`, or of "name product"."""
        for slot in estimates:
            self.shown.setdefault(f"{name} {slot.product}".strip(), []).append(slot)

    def draw(self, first_s: int, table: wire.Tally) -> None:
        """Draws a group of slots, in shard 0 alone, and estimates it. first_s: start."""
        release, recorded = self.release, list[RecordedSlot]()
        # Where stages are drawn in order, each depends on those recorded before: one is drawn at a time, to the last.
        groups = {(first_s, 0): lambda: [table]}  # tallies by (slot, shard), in a function, as others load them
        while drawn := release.draw(groups, History(self.account, recorded), self.noise):
            recorded += self.account.record([unit for unit, _ in drawn])
            if not release.draws_in_order:
                break
        for slot in recorded[-1:] if release.draws_in_order else recorded:  # the last stage stands for all
            for estimates in release.estimates(slot, History(self.account)):
                self.show(estimates.product or "hats", [estimates._replace(product="")])  # else `show` appends it again


def _rows(days: Mapping[str, _Day], estimates: Sequence[SlotEstimates], shape: Shape) -> pa.Table:
    """Converts estimates to result rows, with period and numbers of first and last slot."""
    first, last = {}, {}  # (period, number) of the slot that starts, or ends, at an ISO time
    for period, day in days.items():
        for number, facts in enumerate(day.facts.values()):
            first[facts.start], last[facts.end] = (period, number), (period, number)
    tables = []
    for slot in estimates:
        columns = columns_of(slot, shape)
        schema = schema_of(slot.statistics, shape, shown_names(slot.hats.optional, shape))
        ends = zip(columns["slot_start"], columns["slot_end"], strict=True)
        spans = [(first.get(str(start), (None, 0)), last.get(str(end), ("", 0))) for start, end in ends]
        # Period and numbers of both slots; None for rows over several periods, and for unknown times (None, "").
        numbers = [(period, start, end) if period == until else (None,) * 3 for (period, start), (until, end) in spans]
        table = pa.table({name: columns[name] for name in schema.names}, schema)
        added = (("period", pa.string()), ("slot", pa.int64()), ("last_slot", pa.int64()))
        for index, (name, kind) in enumerate(added):
            table = table.append_column(name, pa.array([row[index] for row in numbers], kind))
        tables.append(table)
    return pa.concat_tables(tables, promote_options="default")


def count_days(
    spec: Specification, pattern: str, dates: tuple[str, str] | None = None, *, bins: int = 0, report: Report = ignore
) -> pa.Table:
    """Counts each vehicle's reports; the counts are not private.

    Raises InputError without an observation, or for a file that cannot be decoded.

    Args:
        pattern: Input files, such as `feed/*.csv`.
        dates: First and last local day or time; all days of the files if None.
        bins: Number of equally wide bins of values, counted in the column `histograms`.

    Returns:
        One row per vehicle, slot and cell (or piece of one): `period`, `slot` (number in the period, from 0), `cell`
        (hexadecimal, or a key), `place` (null outside of places), `vehicle`, `reports` (after the cap), `sums` (of
        values in grid steps), and further columns of its release.
    """
    paths = input_paths(pattern)
    calendar = _all_days(spec, paths) if dates is None else range_of(spec.timetable, *dates)
    rules = spec.rules(calendar, os.urandom(32))  # any key: hashes of vehicles are only compared here
    # It needs no facts of slots, as only the release's cap and columns are used.
    release = _release_of(spec, facts={}, account=_MemoryAccount.of(spec))
    packed_by_slot: dict[int, list[bytes]] = {}
    for number, path in enumerate(paths, 1):
        for batch in spec.input.layout.read(path):
            observations, cell, _refused = observed(batch, rules, spec.ground)
            for packed in wire.split(observations, cell, shards=1):
                packed_by_slot.setdefault(packed.key[0], []).append(packed.data)  # key: start of the slot, and shard
        report("files read", number, len(paths))
    tables = []
    for period, period_slots in groupby(calendar.slots, key=lambda slot: slot.period):
        starts = [slot.start_s for slot in period_slots]
        slots = {slot_s: wire.unpack_events(packed_by_slot[slot_s]) for slot_s in starts if slot_s in packed_by_slot}
        if slots and rules.need_whole_periods:
            slots = derived_events(slots, rules, spec.ground)[0].by_slot()  # [0]: events with their derived values
        for slot_s, events in slots.items():
            counted, _duplicates = tally(events, slot_s, release.cap, _columns_of(spec, release, bins))
            tables.append(_rows_of(spec, period, starts.index(slot_s), counted))
    if not tables:
        raise InputError("no row of the input became an observation")
    return pa.concat_tables(tables)


def _all_days(spec: Specification, paths: Sequence[str]) -> Calendar:
    """Returns the calendar from the first to the last plausible day in files."""
    first, last, units = TO_US, FROM_US, spec.input.layout.units
    for path in paths:
        for batch in spec.input.layout.read(path):
            time = units.instants(batch.table.column("time"))
            us = time.us[time.valid & (time.us >= FROM_US) & (time.us < TO_US)]
            if us.size:
                first, last = min(first, int(us.min())), max(last, int(us.max()))
    if first > last:
        raise InputError("no row of the input has a plausible time")
    ends = (spec.timetable.day_of(us // 1_000_000).isoformat() for us in (first, last))
    return range_of(spec.timetable, *ends)


def _release_of(spec: Specification, facts: Mapping[int, SlotFacts], account: LedgerAccount) -> ReleaseKind:
    """Makes the release of slots, with a random secret: nothing outlives it."""
    return KINDS[spec.kind].of(request_of(spec, facts, Secret(os.urandom(32)), account))


def _columns_of(spec: Specification, release: ReleaseKind, bins: int = 0) -> tuple[Column, ...]:
    """Lists the columns that a release sums."""
    further = [Histogram(bins, spec.value.grid.upper_steps)] if bins else []
    return tuple({column.name: column for column in (SUMS, *release.columns, *further)}.values())


def _rows_of(spec: Specification, period: str, slot: int, counted: wire.Tally) -> pa.Table:
    """Writes a slot's tally as rows of `count_days`. slot: its number in the period."""
    size, cell = counted.vehicle.size, counted.cell  # with places, cells are pieces' indices
    names: list[str | None] = [None] * size
    if spec.places is not None:
        pieces = spec.places.pieces
        names = [None if place < 0 else pieces.places.names[place] for place in pieces.place[cell].tolist()]
        cell = pieces.region[pieces.cell[cell]]  # from indices of pieces to H3 cells
    columns: dict[str, Any] = {
        "period": [period] * size,
        "slot": np.full(size, slot),
        "cell": texts_of(spec.keys, cell),
        "place": pa.array(names, pa.string()),
        "vehicle": counted.vehicle,
        "reports": counted.kept,
    }
    for name, column in counted.sums.items():
        is_flat = column.ndim == 1
        columns[name] = column if is_flat else pa.FixedSizeListArray.from_arrays(column.ravel(), column.shape[1])
    return pa.table(columns)


def _int64s(column: pa.Array) -> Int64s:
    """Reads a column of integers, (rows,), or of lists equally long, (rows, K)."""
    if pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.flatten().to_numpy(), np.int64).reshape(len(column), -1)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def _cell_keys(spec: Specification, counts: pa.Table) -> Int64s:
    """Finds each row's counting key, (rows,): hexagon, key or piece; negative outside the region."""
    if spec.places is not None:
        pieces = spec.places.pieces
        # region=None: texts of hexagons, as no keys replace them. The last name is of place -1, nowhere.
        cells, places = texts_of(region=None, cells=pieces.region), [*pieces.places.names, None]
        pairs = zip(pieces.cell.tolist(), pieces.place.tolist(), strict=True)
        piece_of = {(cells[cell], places[place]): number for number, (cell, place) in enumerate(pairs)}
        rows = zip(counts["cell"].to_pylist(), counts["place"].to_pylist(), strict=True)
        return np.array([piece_of.get(row, -1) for row in rows], np.int64)
    encoded = counts["cell"].combine_chunks().dictionary_encode()
    texts, number_of = encoded.dictionary.to_pylist(), {} if spec.keys is None else spec.keys.number
    numbers = [int(text, 16) if spec.keys is None else number_of.get(text.encode(), -1) for text in texts]
    # `ground.keys` makes hexagons outside the region negative; numbers of keys stay.
    return np.asarray(spec.ground.keys(np.array(numbers, np.int64))[encoded.indices.to_numpy()])
