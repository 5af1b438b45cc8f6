"""The scheduled job: a closed range of slots on one machine, in memory-bounded parts.

The processes of a crew read files, count slots and draw releases; this one records and publishes them, a period at a
time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pipelines.job import Job
from pipelines.outcome import Outcome, count_in, is_refused
from pipelines.progress import Report
from pipelines.runs.crew import counting
from pipelines.runs.crew.crew import crew_of
from pipelines.runs.crew.spool import Spool
from pipelines.runs.crew.tasks import EXPOSED, SEALED
from pipelines.runs.period_demand import asked_of
from pipelines.runs.publish import publish
from transforms.ledger.recording import decoded, record_units
from transforms.recorded.units import Debit
from transforms.records import RecordedSlot, SlotEstimates
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
        having = {slot.period for slot in slots if counting.rows_in(slot, events)}
        if is_refused(outcome, len(paths), needed, having):
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
    recorded = _recorded(job, periods, released, outcome, progress)
    publish(_estimates(recorded, job), job.outputs)
    if outcome.units_lost_to_the_limit:  # another process spent the budget since it was looked at
        outcome.periods_refused = ledger.excess(job.account.name, job.account.limit, wanted)
    return outcome


def _recorded(
    job: Job, periods: Mapping[str, Sequence[int]], released: Spool, outcome: Outcome, progress: Report
) -> Iterator[RecordedSlot]:
    """The slots of period after period, as the ledger returned them."""
    for number, starts in enumerate(periods.values(), 1):
        units = decoded(data for slot_s in starts for data in released.read((slot_s, SEALED)))
        done = record_units(units, job.account)
        count_in(outcome, done.counts)
        yield from done.slots
        progress("periods recorded and published", number, len(periods))


def _estimates(recorded: Iterable[RecordedSlot], job: Job) -> Iterator[SlotEstimates]:
    """Values, intervals and status; where it is asked for, also what the past teaches."""
    estimator = job.hats.estimator(job.account)
    for slot in recorded:
        yield from estimator.of(slot)
    estimator.keep()
