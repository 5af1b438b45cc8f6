"""Releases of counted days in memory, beside what truly was: for tests and evaluations, and never for publishing.

Counted days are true values of vehicles: not private. A release here has an account in memory, whose limit nobody
keeps; its noise may have a seed. All else is what `hatstream release` runs: plans, noise, learning, rows.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from dpops.noise import Noise
from hatstream.api.counted import counted_columns, int64s, keys_of
from pipelines.assembly import asked_of, slot_facts
from pipelines.errors import UsageError
from pipelines.ranges import range_of
from pipelines.runs.estimates import RecordedStages, forecast_of, slots_of, whole_of
from pipelines.specification import Specification
from transforms import wire
from transforms.ledger import Ledger
from transforms.ledger.recording import LedgerAccount
from transforms.observe.vehicle_ids import Secret
from transforms.public import EntryNumber
from transforms.recorded.units import LiveEntry, Sequenced, StageEntry, Unit
from transforms.records import RecordedSlot, SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.base import Asked, Before, ReleaseKind
from transforms.releases.periods.release import PeriodRelease
from transforms.releases.periods.states import learned_from
from transforms.releases.registry import KINDS
from transforms.sinks.rows import Shape, columns_of, noted, schema_of


def release_days(
    spec: Specification,
    counted: pa.Table,
    *,
    seed: int | None = None,
    live: bool = False,
    whole: bool = False,
    forecasts: bool = False,
) -> dict[str, pa.Table]:
    """Releases counted days, the oldest first, on an account in memory: for tests and evaluations only.

    Args:
        spec: What is released; of the same cells, slots and cap as what was counted.
        counted: As `count_days` gives it; rows may be left out, changed or made up.
        seed: Of the noise; None for that of a release.
        live: Also releases the slots of every period but the first while it lasts, as a stream does.
        whole: Also estimates every day by all that is known in the end.
        forecasts: Also estimates every day but the first before anything is known of it.

    Returns:
        Rows of the result table by what they are of: "hats", the names of products, "live", "whole", "forecast".
        Beside its columns a row has `period`, and `slot` and `last_slot`, the numbers of its first and last slot; of
        what rests on several periods these are null. HATs whose counts are public have `vehicles` and `reports` too.

    Raises:
        UsageError: The account's unit is no day.

    >>> from hatstream import load
    >>> release_days(load("examples/hourly-means.toml"), pa.table({"period": pa.array([], pa.string())}))
    {}
    """
    days = _Days.of(spec, counted)
    if not days.facts:
        return {}
    run = _EvaluatedDays.of(spec, days.facts, Noise() if seed is None else Noise(np.random.default_rng(seed).bytes))
    for number, (period, tallies) in enumerate(days.tallies.items()):
        facts = days.facts_of(period)
        if forecasts and number:
            run.show("forecast", slots_of(forecast_of(run.recorded, facts), facts, run.recorded.policy))
        if live and number:
            for slot_s, of_slot in tallies.items():
                run.draw(run.live, slot_s, [of_slot], "live")
        groups: dict[int, list[wire.Tally]] = {}
        for slot_s, of_slot in tallies.items():
            groups.setdefault(run.release.group(slot_s), []).append(of_slot)
        for first_s, of_group in groups.items():
            run.draw(run.release, first_s, of_group)
    if whole:
        run.show("whole", run.by_all(days))
    shape = Shape(counts=spec.counts_are_public and not spec.is_learned)
    return {name: _rows(days, estimates, shape) for name, estimates in run.shown.items()}


class _Days(NamedTuple):
    """Facts of the slots of all counted periods, and tallies by period and slot; of a slot without reports too."""

    facts: dict[int, SlotFacts]
    tallies: dict[str, dict[int, wire.Tally]]

    @classmethod
    def of(cls, spec: Specification, counted: pa.Table) -> "_Days":
        facts, tallies = dict[int, SlotFacts](), dict[str, dict[int, wire.Tally]]()
        periods = sorted(set(counted["period"].to_pylist()))
        if not periods:
            return cls(facts, tallies)
        if spec.timetable.unit != "vehicle-day":
            raise UsageError("an evaluation releases days: account.unit must be 'vehicle-day'")
        columns = {column.name for column in counted_columns(spec, 0)}
        whole = {name: counted[name].combine_chunks() for name in ("slot", "vehicle", "reports", *columns)}
        keys, period_of = keys_of(spec, counted), np.array(counted["period"].to_pylist())
        for period in periods:
            of_period = slot_facts(spec, range_of(spec.timetable, period, period))
            facts |= of_period
            inside = np.flatnonzero((period_of == period) & (keys >= 0))
            slot, vehicle, reports = (int64s(whole[name])[inside] for name in ("slot", "vehicle", "reports"))
            key = keys[inside]
            order = np.lexsort((key, vehicle, slot))
            starts = np.array(list(of_period), np.int64)
            table = wire.Tally(
                slot_s=starts[slot[order]],
                vehicle=vehicle[order],
                cell=key[order],
                kept=reports[order],
                dropped=np.zeros(order.size, np.int64),
                sums={name: int64s(whole[name])[inside][order] for name in columns},
            )
            first = np.searchsorted(slot[order], np.arange(starts.size + 1)).tolist()
            tallies[period] = {
                slot_s: table.take(slice(first[number], first[number + 1])) for number, slot_s in enumerate(of_period)
            }
        return cls(facts, tallies)

    def facts_of(self, period: str) -> list[SlotFacts]:
        return [self.facts[slot_s] for slot_s in self.tallies[period]]


@dataclass(frozen=True)
class _MemoryAccount(LedgerAccount):
    """An account whose entries are a list in memory. Its limit is not kept, and it is nowhere written."""

    entries: list[Sequenced[Any]] = field(default_factory=list)

    def open(self) -> Ledger:
        return cast("Ledger", self)

    def stages(self, _account: str, _spec_id: str) -> list[StageEntry]:
        return [entry for entry in self.entries if entry.unit.stands_for_period]

    def live(self, _account: str, _spec_id: str, period: str) -> list[LiveEntry]:
        of_slots = (entry for entry in self.entries if not entry.unit.stands_for_period)
        return [entry for entry in of_slots if entry.unit.period == period]

    def stop(self, *_unit: str) -> bool:
        """Lets a run go on after a period of few vehicles, as one does that somebody attends to."""
        return False

    def record(self, units: Sequence[Unit]) -> list[RecordedSlot]:
        """Keeps units, and answers as a ledger does, by slot."""
        slots: dict[int, RecordedSlot] = {}
        for unit in units:
            sequence = len(self.entries) + 1
            self.entries.append(Sequenced(EntryNumber(sequence), unit))
            slot = slots.setdefault(unit.slot_s, RecordedSlot([], []))
            slot.units.append(unit)
            slot.sequences.append(sequence)
        return list(slots.values())


@dataclass(frozen=True)
class _EvaluatedDays:
    """One release of all days. shown: what was estimated, by what it is of."""

    spec: Specification
    account: _MemoryAccount
    asked: Asked
    release: ReleaseKind
    noise: Noise
    shown: dict[str, list[SlotEstimates]] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Specification, facts: Mapping[int, SlotFacts], noise: Noise) -> "_EvaluatedDays":
        terms = spec.account
        account = _MemoryAccount("", Path("none"), terms.name, terms.limit, spec.name, spec.text)
        asked = asked_of(spec, facts, Secret(os.urandom(32)), account)
        return cls(spec, account, asked, KINDS[spec.kind].of(asked), noise)

    @property
    def live(self) -> ReleaseKind:
        return KINDS[self.spec.kind].of_slots(self.asked)

    @property
    def recorded(self) -> RecordedStages:
        if not self.spec.is_learned:
            raise UsageError("forecasts, and estimates by all that is known, are of means by 'levels'")
        return RecordedStages(self.spec, cast("PeriodRelease", self.release).policy, self.account.stages("", ""))

    def show(self, name: str, estimates: Iterable[SlotEstimates]) -> None:
        for slot in estimates:
            self.shown.setdefault(f"{name} {slot.product}".strip() if slot.product else name, []).append(slot)

    def draw(self, release: ReleaseKind, first_s: int, tallies: Sequence[wire.Tally], name: str = "hats") -> None:
        """Draws a group to its end, keeps it and estimates it."""
        recorded: list[RecordedSlot] = []
        table = wire.joined(tallies)
        while drawn := release.draw({(first_s, 0): lambda: [table]}, Before(self.account, recorded), self.noise):
            recorded += self.account.record([unit for unit, _ in drawn])
            if not release.in_order:
                break
        for slot in recorded[-1:] if release.in_order else recorded:
            for estimates in release.estimates(slot, Before(self.account)):
                self.show(estimates.product or name, [estimates._replace(product="")])

    def by_all(self, days: _Days) -> Iterator[SlotEstimates]:
        recorded = self.recorded
        everything = learned_from(recorded.entries, recorded.policy, None)
        for period in days.tallies:
            facts = days.facts_of(period)
            yield from slots_of(whole_of(recorded, everything, period, facts), facts, recorded.policy)


def _rows(days: _Days, estimates: Sequence[SlotEstimates], shape: Shape) -> pa.Table:
    """Writes estimates as rows of the result table, with their period and slots."""
    first, last = {}, {}
    for period in days.tallies:
        for number, facts in enumerate(days.facts_of(period)):
            first[facts.start], last[facts.end] = (period, number), (period, number)
    tables = []
    for slot in estimates:
        columns = columns_of(slot, shape)
        schema = schema_of(slot.statistics, shape, noted(slot.hats.notes, shape))
        starts = [first.get(str(start)) for start in columns["slot_start"]]
        ends = [last.get(str(end)) for end in columns["slot_end"]]
        spans = [a if a and b and a[0] == b[0] else None for a, b in zip(starts, ends, strict=True)]
        table = pa.table({name: columns[name] for name in schema.names}, schema)
        for name, values in (
            ("period", [span and span[0] for span in spans]),
            ("slot", [span and span[1] for span in spans]),
            ("last_slot", [end[1] if span and end else None for span, end in zip(spans, ends, strict=True)]),
        ):
            kind = pa.string() if name == "period" else pa.int64()
            table = table.append_column(name, pa.array(values, kind))
        tables.append(table)
    return pa.concat_tables(tables, promote_options="default")
