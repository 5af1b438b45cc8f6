"""The scheduled job: a closed range of slots on one machine, in memory-bounded parts.

The processes of a crew read files, count slots and draw releases; a bounded pipeline on Beam's FnApiRunner records and
publishes them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from pipelines.build import publish
from pipelines.job import Job
from pipelines.progress import Report
from pipelines.scheduled import counting
from pipelines.scheduled.asked import asked_of
from pipelines.scheduled.crew import crew_of
from pipelines.scheduled.outcome import Outcome, count_in, is_refused
from pipelines.scheduled.spool import Spool
from pipelines.scheduled.tasks import EXPOSED, SEALED
from transforms import counters
from transforms.records import KeyedUnit, SlotShard
from transforms.release.recorded import Debit
from transforms.time.calendar import Slot

Wanted = dict[str, list[Debit]]
"""Debits of the units of each period."""


def run(
    job: Job,
    paths: Sequence[str],
    slots: Sequence[Slot],
    needed: Collection[str] | None,
    workers: int | None,
    progress: Report,
) -> Outcome:
    """Releases the slots. Of an outcome with refused periods, `periods_released` are those that were released anyway.

    needed: periods that must have rows. With `periods_empty` among them, or an outcome that is `unusable`, nothing was
    recorded or published. None where the input may not decide that. workers: as `crew_of` has them.
    """
    outcome = Outcome()
    road = counting.road_of(job, job.cap, job.policy.columns)
    with crew_of(road, paths, workers) as crew:
        events = counting.observe_files(crew, road, paths, outcome, progress)
        if is_refused(outcome, needed, {slot.period for slot in slots if counting.rows_in(slot, events)}):
            return outcome
        shards = job.policy.release_shards
        tallies = counting.count_slots(crew, slots, events, outcome, progress, shards=shards)
        released = counting.draw_plans(crew, road, slots, tallies, outcome, progress)
        return _record(job, slots, released, outcome, progress)


def _record(job: Job, slots: Sequence[Slot], released: Spool, outcome: Outcome, progress: Report) -> Outcome:
    """All periods, or none if one of them asks for more than the account has left."""
    periods: dict[str, list[int]] = {}
    for slot in slots:
        periods.setdefault(slot.period, []).append(slot.start_s)
    wanted: Wanted = {}
    for period, starts in periods.items():
        sealed = (data for slot_s in starts for data in released.read((slot_s, SEALED)))
        asked = asked_of(sealed, lambda slot_s: released.read((slot_s, EXPOSED)), job.policy.shares)
        wanted[period], outcome.debits[period], outcome.spent[period] = asked.wanted, asked.total, asked.spent
    ledger = job.account.open()
    if excess := ledger.excess(job.account.name, job.account.limit, wanted):
        outcome.periods_refused = excess
        return outcome
    count_in(outcome, _publish(job, periods, released))
    if outcome.units_lost_to_the_limit:  # another process spent the budget since it was looked at
        outcome.periods_refused = ledger.excess(job.account.name, job.account.limit, wanted)
    progress("periods recorded and published", len(wanted), len(wanted))
    return outcome


def unspooled(p: beam.Pipeline, keys: Sequence[SlotShard], spool: Spool, element: Any) -> PCollection[Any]:
    """Elements of that type: a key and the bytes that the spool has of it."""
    unspool = beam.FlatMap(_read_back, spool).with_output_types(element)
    return p | "keys" >> beam.Create(list(keys), reshuffle=False) | "unspool" >> unspool


def _publish(job: Job, periods: Mapping[str, Sequence[int]], released: Spool) -> Mapping[str, int]:
    keys = [(period, (slot_s, SEALED)) for period, starts in periods.items() for slot_s in starts]
    unspool = beam.FlatMap(_sealed_of, released).with_output_types(KeyedUnit)
    with pipeline() as p:
        publish(p | "slots" >> beam.Create(keys, reshuffle=False) | "unspool" >> unspool, job)
    return counts_of(p.result)


def _sealed_of(keyed: tuple[str, SlotShard], released: Spool) -> Iterator[tuple[str, bytes]]:
    period, key = keyed
    return ((period, data) for data in released.read(key))


def pipeline() -> beam.Pipeline:
    """Beam's name `DirectRunner` would choose a runner by itself, download one, or run twice; this one is named."""
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))


def counts_of(result: Any) -> Mapping[str, int]:
    """The road's counters of a pipeline that has run."""
    counts = Counter[str]()
    for counter in result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))["counters"]:
        counts[counter.key.metric.name] += counter.result
    return counts


def _read_back(key: Any, spool: Spool) -> Iterator[tuple[Any, bytes]]:
    for data in spool.read(key):
        yield key, data
