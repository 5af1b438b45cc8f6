"""The scheduled job: a closed range of slots on one machine, in memory-bounded parts.

The processes of a crew read files, count slots and draw releases; this one records and publishes them, a period at a
time. What rests on recorded entries is drawn here too, period by period.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from pipelines.job import Job, Outputs
from pipelines.outcome import Outcome, count_in, is_refused
from pipelines.progress import Report
from pipelines.runs.crew import counting
from pipelines.runs.crew.counting import CrewedJob
from pipelines.runs.crew.crew import crew_of
from pipelines.runs.crew.spool import Spool
from pipelines.runs.crew.tasks import EXPOSED, SEALED
from pipelines.runs.period_demand import asked_of, asked_of_the_account
from transforms import tasks, wire
from transforms.ledger.recording import decoded
from transforms.recorded.units import Debit
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases.base import ReleaseKind, Tallies
from transforms.sinks.files import publish_recorded
from transforms.time.calendar import Slot
from transforms.wire import Tally


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
    outcome = asked_of_the_account(job)
    if outcome.periods_refused:
        return outcome
    with crew_of(counting.road_of(job), paths, workers) as crew:
        work = CrewedJob(job, crew, outcome, progress)
        events = counting.observe_files(work, paths)
        having = {slot.period for slot in slots if counting.rows_in(slot, events)}
        if is_refused(outcome, len(paths), needed, having):
            return outcome
        if job.release.in_order:
            return _in_order(work, slots, events)
        tallies = counting.count_slots(work, slots, events, shards=job.release.shards)
        released = counting.draw_plans(work, slots, tallies)
        crew.rest()
        return _record(work, slots, released)


def _record(work: CrewedJob, slots: Sequence[Slot], released: Spool) -> Outcome:
    """Records and publishes all periods, or none if one of them asks for more than the account has left."""
    job, outcome = work.job, work.outcome
    periods: dict[str, list[int]] = {}
    for slot in slots:
        periods.setdefault(slot.period, []).append(slot.start_s)
    wanted: dict[str, list[Debit]] = {}
    for period, starts in periods.items():
        sealed = (data for slot_s in starts for data in released.read((slot_s, SEALED)))
        asked = asked_of(sealed, lambda slot_s: released.read((slot_s, EXPOSED)), job.release.shares)
        wanted[period], outcome.debits[period], outcome.spent[period] = asked.wanted, asked.total, asked.spent
    ledger = job.account.open()
    if excess := ledger.excess(job.account.name, job.account.limit, wanted):
        outcome.periods_refused = excess
        return outcome
    recorded = _recorded(work, periods, released)
    publish(_estimates(recorded, job), job.outputs)
    if outcome.units_lost_to_the_limit:  # another process spent the budget since it was looked at
        outcome.periods_refused = ledger.excess(job.account.name, job.account.limit, wanted)
    return outcome


def _recorded(work: CrewedJob, periods: Mapping[str, Sequence[int]], released: Spool) -> Iterator[RecordedSlot]:
    """Yields the slots of period after period, as the ledger returned them."""
    for number, starts in enumerate(periods.values(), 1):
        units = decoded(data for slot_s in starts for data in released.read((slot_s, SEALED)))
        yield from tasks.recorded(units, work.job.account, partial(_count, work.outcome))
        work.progress("periods recorded and published", number, len(periods))


def _count(outcome: Outcome, name: str, number: int) -> None:
    count_in(outcome, {name: number})


def _estimates(recorded: Iterable[RecordedSlot], job: Job) -> Iterator[SlotEstimates]:
    """Yields values, intervals and status."""
    estimator = job.release.estimator(job.account)
    for slot in recorded:
        yield from estimator.of(slot)
    estimator.keep()


def _in_order(work: CrewedJob, slots: Sequence[Slot], events: Spool) -> Outcome:
    """Draws, records and publishes group after group."""
    job, crew, outcome, progress = work
    periods = {slot.period: job.slots[slot.start_s].plan for slot in slots}
    shards = counting.parts_for(events.total_rows)  # of vehicles: their sums are the same however they are parted
    if job.rules.need_whole_periods:
        tallies = counting.count_derived(work, periods, events, shards=shards)
    else:
        tallies = counting.count_slots(work, slots, events, shards=shards, by_vehicle=True)
    crew.rest()
    groups = dict.fromkeys(job.release.group(slot.start_s) for slot in slots)
    keys = [[(group, shard) for shard in range(shards)] for group in groups]
    read = _groups(job, keys, tallies, progress)
    publish(tasks.released(read, job.release, job.account, partial(_count, outcome)), job.outputs)
    if outcome.units_lost_to_the_limit:  # another process spent the budget since it was looked at
        outcome.periods_refused = asked_of_the_account(job).periods_refused
    return outcome


def _groups(
    job: Job, keys: Sequence[Sequence[SlotShard]], tallies: Spool, progress: Report
) -> Iterator[tuple[SlotShard, Tallies]]:
    """Yields group after group, with what reads its tallies. keys: of each group's tallies, by shard of vehicles."""
    for number, group in enumerate(keys, 1):
        yield group[0], partial(_tallies, group, tallies, job.release)
        progress("periods recorded and published", number, len(keys))


def _tallies(keys: Sequence[SlotShard], tallies: Spool, release: ReleaseKind) -> Iterator[Tally]:
    """Reads one shard of vehicles after the other, so that their number does not matter."""
    return (wire.unpack_tally(tallies.read(key), release.columns) for key in keys)


def publish(estimates: Iterable[SlotEstimates], outputs: Outputs) -> None:
    """Publishes each slot when it is there; all messages are confirmed at the end. Raises StepError."""
    if outputs.topic is None:
        sender = None
    else:
        from transforms.sinks.kafka import Sender

        sender = Sender(outputs.topic, outputs.shape)
    for slot in estimates:
        publish_recorded(slot, outputs.folder, outputs.formats, outputs.shape)
        if sender:
            sender.put(slot)
    if sender:
        sender.wait()
