"""The scheduled job of a `levels` release: period by period, stage by stage, each around what is recorded before."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from dpops.accountant import Accountant
from pipelines.job import Job
from pipelines.outcome import Outcome, count_in, is_refused
from pipelines.progress import Report
from pipelines.runs.crew import counting
from pipelines.runs.crew.crew import crew_of
from pipelines.runs.crew.spool import Spool
from pipelines.runs.publish import publish
from transforms import wire
from transforms.ledger.recording import record_units
from transforms.recorded.units import Debit, Unit, UnitKey
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases.base import Stopped, release_group
from transforms.releases.periods.release import PeriodRelease
from transforms.releases.periods.stages import LevelsPolicy
from transforms.time.calendar import Slot
from transforms.wire import Tally


def run(
    job: Job,
    release: PeriodRelease,
    paths: Sequence[str],
    slots: Sequence[Slot],
    needed: Collection[str] | None,
    workers: int | None,
    progress: Report,
) -> Outcome:
    """Releases whole periods: all, or none where the account refuses one.

    needed: periods that must have rows, or nothing is recorded. None where counts are secret: then nothing that is
    released, refused or spent depends on the input. workers: as `crew_of` has them.
    """
    periods = {slot.period: job.slots[slot.start_s].plan for slot in slots}
    outcome = asked_of_the_account(job, release.policy)
    if outcome.periods_refused:
        return outcome
    road = counting.road_of(job, None, release.columns)
    with crew_of(road, paths, workers) as crew:
        events = counting.observe_files(crew, road, paths, outcome, progress)
        having = {slot.period for slot in slots if counting.rows_in(slot, events)}
        if is_refused(outcome, len(paths), needed, having):
            return outcome
        shards = counting.parts_for(events.total_rows)  # of vehicles: their sums are the same however they are parted
        if job.rules.derived is None:
            tallies = counting.count_slots(crew, slots, events, outcome, progress, shards=shards, by_vehicle=True)
        else:
            tallies = counting.count_derived(crew, periods, events, outcome, progress, shards=shards)
        keys = {period: [(plan[0], shard) for shard in range(shards)] for period, plan in periods.items()}
        publish(_estimates(job, release, keys, tallies, outcome, progress), job.outputs)
    if outcome.units_lost_to_the_limit:  # another process spent the budget since it was looked at
        outcome.periods_refused = asked_of_the_account(job, release.policy).periods_refused
    return outcome


def asked_of_the_account(job: Job, policy: LevelsPolicy) -> Outcome:
    """What the periods will be debited, which no input decides, and those that the account refuses."""
    ledger = job.account.open()
    periods = {facts.period: facts.plan for facts in job.slots.values()}
    wanted = _wanted(periods, policy, is_first=not ledger.stages(job.account.name, policy.spec_id))
    return Outcome(
        debits={period: Accountant().compose(each.claim for each in debits) for period, debits in wanted.items()},
        periods_refused=ledger.excess(job.account.name, job.account.limit, wanted),
    )


def _wanted(periods: Mapping[str, Sequence[int]], policy: LevelsPolicy, *, is_first: bool) -> dict[str, list[Debit]]:
    """What the periods' ends will be debited. is_first: nothing of the specification is recorded yet."""
    found = {}
    for period, plan in periods.items():
        cost = policy.cost_of_period(is_first)
        found[period], is_first = [Debit(UnitKey(policy.spec_id, plan[0], 0), cost)], False
    return found


def _estimates(
    job: Job,
    release: PeriodRelease,
    keys: Mapping[str, Sequence[SlotShard]],
    tallies: Spool,
    outcome: Outcome,
    progress: Report,
) -> Iterator[SlotEstimates]:
    """Of period after period, once the ledger has it. keys: of each period's tallies, by shard of vehicles."""

    def record(units: Sequence[Unit]) -> Sequence[RecordedSlot]:
        done = record_units(units, job.account)
        count_in(outcome, done.counts)
        return done.slots

    for number, mine in enumerate(keys.values(), 1):
        read = partial(_tallies, mine, tallies, release)
        try:
            yield from release_group(release, mine[0], read, job.account, record)
        except Stopped as stopped:
            outcome.periods_stopped += stopped.args
            return
        progress("periods recorded and published", number, len(keys))


def _tallies(keys: Sequence[SlotShard], tallies: Spool, release: PeriodRelease) -> Iterator[Tally]:
    """One shard of vehicles after the other, so that their number does not matter."""
    return (wire.unpack_tally(tallies.read(key), release.columns) for key in keys)
