"""The scheduled job of a `levels` release: period by period, stage by stage, each around what is recorded before."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from dpops.accountant import Accountant
from dpops.claims import claim_of
from dpops.levels import Stage, Sums
from pipelines.job import Job
from pipelines.outcome import Outcome, count_in, is_refused
from pipelines.progress import Report
from pipelines.runs.crew import counting
from pipelines.runs.crew.crew import crew_of
from pipelines.runs.crew.spool import Spool
from pipelines.runs.publish import publish
from transforms import wire
from transforms.ledger.recording import record_units
from transforms.recorded.units import Debit, Sealed
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases.periods.period import PeriodPolicy, release_period
from transforms.releases.periods.stages import COLUMNS, LevelsPolicy, add_up
from transforms.time.calendar import Slot


def run(
    job: Job,
    policy: PeriodPolicy,
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
    outcome = asked_of_the_account(job, policy.levels)
    if outcome.periods_refused:
        return outcome
    road = counting.road_of(job, None, COLUMNS)
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
        publish(_estimates(job, policy, keys, tallies, outcome, progress), job.outputs)
    if outcome.units_lost_to_the_limit:  # another process spent the budget since it was looked at
        outcome.periods_refused = asked_of_the_account(job, policy.levels).periods_refused
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
        cost = policy.cost_of_period(len(policy.first if is_first else policy.later))
        found[period], is_first = [Debit((policy.spec_id, plan[0], 0), claim_of(cost))], False
    return found


def _estimates(
    job: Job,
    policy: PeriodPolicy,
    keys: Mapping[str, Sequence[SlotShard]],
    tallies: Spool,
    outcome: Outcome,
    progress: Report,
) -> Iterator[SlotEstimates]:
    """Of period after period, once the ledger has it. keys: of each period's tallies, by shard of vehicles."""

    def record(units: Sequence[Sealed]) -> Sequence[RecordedSlot]:
        done = record_units(units, job.account)
        count_in(outcome, done.counts)
        return done.slots

    for number, mine in enumerate(keys.values(), 1):
        first_s = mine[0][0]
        yield from release_period(
            partial(_add_up, mine, tallies, job, policy.levels), first_s, job.account, policy, record
        )
        progress("periods recorded and published", number, len(keys))


def _add_up(keys: Sequence[SlotShard], tallies: Spool, job: Job, policy: LevelsPolicy, stage: Stage) -> Sums:
    """One shard of vehicles after the other, so that their number does not matter."""
    shards = (wire.unpack_tally(tallies.read(key), COLUMNS) for key in keys)
    return add_up(shards, policy.region, job.slots[keys[0][0]].plan, stage)
