"""The scheduled job: a closed range of slots on one machine, on Beam's FnApiRunner, in memory-bounded parts."""

import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
import numpy as np
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from dpops.accountant import Accountant
from pipelines.build import VEHICLE_SHARDS, HexagonOutputs, Job, count, draw, observe, publish
from pipelines.scheduled.input_size import rows_about
from pipelines.scheduled.spool import Spool
from transforms import counters
from transforms.count.wire import unpack_exposure
from transforms.observe.parse import REASONS
from transforms.records import KeyedEvents, KeyedTally, KeyedUnit, PackedEvents, SlotShard, TallyBytes
from transforms.release.recorded import Debit, Spending, debit, debits_by_slot
from transforms.steps import Read
from transforms.time.calendar import Slot

PART_ROWS = 4_000_000
"""Events that one pipeline shuffles at a time: bounds memory whatever the length of the range."""

Progress = Callable[[str, int, int | None], None]
"""Called with a phase, what is done of it, and its whole if that is known. Never sees a vehicle's data."""


ELSEWHERE = ("parse/outside-range", "parse/outside-service", "assign/outside-region")
"""Reasons that say only that a row belongs to another release."""

Wanted = dict[str, list[Debit]]
"""Debits of the units of each period."""


class Spend(NamedTuple):
    """What vehicles spent in a period: the most of any, and what half and nine tenths of them did not exceed."""

    most: Fraction
    median: Fraction
    p90: Fraction


@dataclass
class Outcome:
    """What a run did. By period: new units recorded, debits asked for, what vehicles spent in this run."""

    rows: int = 0
    duplicates: int = 0
    capped: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    new: dict[str, int] = field(default_factory=dict)
    units_changed: int = 0
    units_redrawn: int = 0
    units_lost_to_the_limit: int = 0
    periods_refused: list[str] = field(default_factory=list)
    periods_empty: list[str] = field(default_factory=list)
    debits: dict[str, Accountant] = field(default_factory=dict)
    spent: dict[str, Spend] = field(default_factory=dict)

    @property
    def observations(self) -> int:
        return self.rows - self.duplicates - sum(self.refused.values())

    @property
    def periods_released(self) -> list[str]:
        """Of a refused run: periods that were recorded and published before another process spent the rest."""
        lost_some = self.units_lost_to_the_limit > 0
        return [period for period in self.debits if lost_some and period not in self.periods_refused]

    @property
    def unusable(self) -> bool:
        """No row was usable, though some lay in the range, or most could not even be placed: it is the wrong input.

        An input without rows, or with rows of other days and the usual few bad ones, is a day when nothing happened.
        """
        if self.rows > sum(self.refused.values()):
            return False
        elsewhere = sum(self.refused.get(reason, 0) for reason in ELSEWHERE)
        placed = sum(
            self.refused.get(f"parse/{reason}", 0) for reason in REASONS[REASONS.index("outside-service") + 1 :]
        )
        return placed > 0 or self.rows > 2 * elsewhere


def run(
    job: Job, paths: Sequence[str], slots: Sequence[Slot], needed: Collection[str] | None, progress: Progress
) -> Outcome:
    """Releases the slots. Of an outcome with refused periods, `periods_released` are those that were released anyway.

    needed: periods that must have rows. With `periods_empty` among them, or an outcome that is `unusable`, nothing was
    recorded or published. None where the input may not decide that.
    """
    with Spool() as events, Spool() as tallies, Spool() as exposures, Spool() as units:
        return _run(job, paths, slots, needed, progress, events, tallies, exposures, units)


def _run(
    job: Job,
    paths: Sequence[str],
    slots: Sequence[Slot],
    needed: Collection[str] | None,
    progress: Progress,
    events: Spool,
    tallies: Spool,
    exposures: Spool,
    units: Spool,
) -> Outcome:
    outcome = Outcome()
    count_in(outcome, read_input(job, paths, events, progress))
    if is_refused(outcome, slots, needed, events):
        return outcome
    done = 0
    for part in parts_of(slots, events):
        count_in(outcome, _release(job, part, events, tallies, exposures, units))
        done += len(part)
        progress("slots released", done, len(slots))
    if job.policy.allocation.whole_periods:
        plans = dict.fromkeys(job.slots[slot.start_s].plan[0] for slot in slots)
        count_in(outcome, _seal(job, list(plans), tallies, exposures, units))
    wanted = _spending(slots, exposures, units, outcome)
    ledger = job.account.open()
    if excess := ledger.excess(job.account.name, job.account.limit, wanted):
        outcome.periods_refused = excess
        return outcome
    count_in(outcome, _publish(job, list(wanted), units))
    if outcome.units_lost_to_the_limit:  # another process spent the budget since it was looked at
        outcome.periods_refused = ledger.excess(job.account.name, job.account.limit, wanted)
    progress("periods recorded and published", len(wanted), len(wanted))
    return outcome


def is_refused(outcome: Outcome, slots: Sequence[Slot], needed: Collection[str] | None, events: Spool) -> bool:
    """Whether the input is none of these slots. Notes the needed periods that it has no row of."""
    if needed is None:
        return False
    having = {slot.period for slot in slots if rows_in(slot, events)}
    outcome.periods_empty = [period for period in needed if period not in having]
    return bool(outcome.periods_empty) or outcome.unusable


def read_input(job: Job, paths: Sequence[str], events: Spool, progress: Progress) -> Any:
    """As `observe_files`, with its progress."""
    phase, about = "observations read", rows_about(paths)
    with reporting(lambda: progress(phase, events.total_rows, about)):
        result = observe_files(job, paths, events)
    progress(phase, events.total_rows, events.total_rows)  # the rest was refused
    return result


def observe_files(job: Job, paths: Sequence[str], events: Spool) -> Any:
    with pipeline() as p:
        names = [os.fsencode(path) for path in paths]  # which need not be UTF-8, as texts between steps must
        read = p | "paths" >> beam.Create(names, reshuffle=False) | "read" >> Read(job.layout)
        _ = observe(read, job) | "spool" >> beam.Map(_keep_events, events)
    return p.result


def _release(job: Job, part: Sequence[Slot], events: Spool, tallies: Spool, exposures: Spool, units: Spool) -> Any:
    """Counts the part's slots and seals them; with scope "period" their tallies wait for the rest of the period."""
    keys = [(slot.start_s, shard) for slot in part for shard in range(VEHICLE_SHARDS)]
    with pipeline() as p:
        counted = count(unspooled(p, keys, events, KeyedEvents), job)
        if job.policy.allocation.whole_periods:
            _ = counted | "keep tallies" >> beam.Map(_keep, tallies)
        else:
            _keep_sealed(draw(counted, _heartbeat(p, [slot.start_s for slot in part], job), job), exposures, units)
    return p.result


def _seal(job: Job, plans: Sequence[int], tallies: Spool, exposures: Spool, units: Spool) -> Any:
    with pipeline() as p:
        counted = unspooled(p, [(plan_s, 0) for plan_s in plans], tallies, KeyedTally)
        _keep_sealed(draw(counted, _heartbeat(p, plans, job), job), exposures, units)
    return p.result


def _heartbeat(p: beam.Pipeline, plans: Sequence[int], job: Job) -> PCollection[KeyedTally]:
    beats = [((plan_s, shard), TallyBytes(b"")) for plan_s in plans for shard in range(job.policy.release_shards)]
    return p | "heartbeat" >> beam.Create(beats, reshuffle=False).with_output_types(KeyedTally)


def unspooled(p: beam.Pipeline, keys: Sequence[SlotShard], spool: Spool, element: Any) -> PCollection[Any]:
    """Elements of that type: a key and the bytes that the spool has of it."""
    unspool = beam.FlatMap(_read_back, spool).with_output_types(element)
    return p | "keys" >> beam.Create(list(keys), reshuffle=False) | "unspool" >> unspool


def _keep_sealed(released: HexagonOutputs, exposures: Spool, units: Spool) -> None:
    _ = released.sealed | "keep sealed" >> beam.Map(_keep, units)
    _ = released.exposure | "keep exposure" >> beam.Map(_keep, exposures)


def _publish(job: Job, periods: Sequence[str], units: Spool) -> Any:
    unspool = beam.FlatMap(_read_back, units).with_output_types(KeyedUnit)
    with pipeline() as p:
        publish(p | "periods" >> beam.Create(list(periods), reshuffle=False) | "unspool" >> unspool, job)
    return p.result


def pipeline() -> beam.Pipeline:
    """Beam's name `DirectRunner` would choose a runner by itself, download one, or run twice; this one is named."""
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))


def _keep_events(packed: PackedEvents, spool: Spool) -> None:
    spool.append(packed.key, packed.data, packed.rows)


def _keep(element: tuple[Any, bytes], spool: Spool) -> None:
    spool.append(*element)


def _read_back(key: Any, spool: Spool) -> Iterator[tuple[Any, bytes]]:
    for data in spool.read(key):
        yield key, data


def parts_of(slots: Sequence[Slot], events: Spool) -> Iterator[list[Slot]]:
    """Consecutive slots of at most PART_ROWS events together (or one slot that is larger by itself)."""
    part: list[Slot] = []
    size = 0
    for slot in slots:
        rows = rows_in(slot, events)
        if part and size + rows > PART_ROWS:
            yield part
            part, size = [], 0
        part.append(slot)
        size += rows
    if part:
        yield part


def rows_in(slot: Slot, events: Spool) -> int:
    return sum(events.rows((slot.start_s, shard)) for shard in range(VEHICLE_SHARDS))


def _spending(slots: Sequence[Slot], exposures: Spool, units: Spool, outcome: Outcome) -> Wanted:
    """The debits that are asked of each period. Notes their sum, and exactly what vehicles spend, per period."""
    wanted: Wanted = {}
    for period in dict.fromkeys(slot.period for slot in slots):
        sealed = [msgspec.json.decode(data, type=Spending) for data in units.read(period)]
        wanted[period] = list(map(debit, sealed))
        outcome.debits[period] = sum(debits_by_slot(wanted[period]).values(), Accountant())
        rates = {unit.slot_s: Fraction(unit.epsilon_hat) for unit in sealed}
        outcome.spent[period] = _spend(rates, exposures)
    return wanted


def _spend(rates: dict[int, Fraction], exposures: Spool) -> Spend:
    """Of each vehicle the sum over slots of cells times the epsilon of a HAT there. rates: that epsilon by slot."""
    found = [(rate, unpack_exposure(exposures.read(slot_s))) for slot_s, rate in rates.items()]
    vehicles = np.unique(np.concatenate([exposure.vehicle for _, exposure in found]))
    parts = math.lcm(*(rate.denominator for rate in rates.values()))
    spent = np.zeros(vehicles.size, object)  # in parts of 1, as Python integers
    for rate, exposure in found:
        np.add.at(spent, np.searchsorted(vehicles, exposure.vehicle), exposure.cells.astype(object) * int(rate * parts))
    ordered = np.sort(spent) if spent.size else np.zeros(1, object)
    ranks = (ordered.size - 1, (ordered.size - 1) // 2, -(-9 * ordered.size // 10) - 1)
    return Spend(*(Fraction(int(ordered[rank]), parts) for rank in ranks))


@contextmanager
def reporting(report: Callable[[], None]) -> Iterator[None]:
    """Calls `report` a few times a second while a pipeline runs, and once at its end."""
    done = threading.Event()

    def poll() -> None:
        while not done.wait(0.3):
            report()

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        report()


def count_in(outcome: Outcome, result: Any) -> None:
    """Adds a pipeline's counters to the outcome."""
    found = result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))["counters"]
    counts = Counter[str]()
    for counter in found:
        counts[counter.key.metric.name] += counter.result
    outcome.rows += counts[counters.ROWS]
    outcome.duplicates += counts[counters.DUPLICATES]
    outcome.capped += counts[counters.CAPPED]
    outcome.units_changed += counts[counters.UNITS_CHANGED]
    outcome.units_redrawn += counts[counters.UNITS_REDRAWN]
    outcome.units_lost_to_the_limit += counts[counters.UNITS_LOST]
    for prefix, numbers in ((counters.REFUSED, outcome.refused), (counters.NEW, outcome.new)):
        for name, number in counts.items():
            if name.startswith(prefix):
                key = name.removeprefix(prefix)
                numbers[key] = numbers.get(key, 0) + number
