"""The scheduled job of a `levels` release: period by period, stage by stage, each around what is recorded before."""

from collections.abc import Collection, Mapping, Sequence

import apache_beam as beam

from dpops.accountant import Accountant
from dpops.claims import claim_of
from pipelines.build import sinks_of
from pipelines.job import Job
from pipelines.progress import Report
from pipelines.scheduled import counting
from pipelines.scheduled.crew import crew_of
from pipelines.scheduled.outcome import Outcome, count_in, is_refused
from pipelines.scheduled.parts import counts_of, pipeline, unspooled
from pipelines.scheduled.spool import Spool
from transforms.records import KeyedTally, SlotShard
from transforms.release.levels import LevelsPolicy, StagePlan
from transforms.release.levels_order import hours_of, plan_for
from transforms.release.levels_steps import COLUMNS, AddUpVectors, EstimatePeriod, ReleaseStage
from transforms.release.period_steps import PeriodPolicy
from transforms.release.recorded import Debit
from transforms.steps import Record
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
        if is_refused(outcome, needed, {slot.period for slot in slots if counting.rows_in(slot, events)}):
            return outcome
        shards = counting.parts_for(events.total_rows)  # of vehicles: their sums are the same however they are parted
        if job.rules.derived is None:
            tallies = counting.count_slots(crew, slots, events, outcome, progress, shards=shards, by_vehicle=True)
        else:
            tallies = counting.count_derived(crew, periods, events, outcome, progress, shards=shards)
        for done, (period, plan) in enumerate(periods.items(), 1):
            keys = [(plan[0], shard) for shard in range(shards)]
            _release_period(job, policy, period, keys, tallies, outcome)
            progress("periods recorded and published", done, len(periods))
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


def _release_period(
    job: Job, policy: PeriodPolicy, period: str, keys: Sequence[SlotShard], tallies: Spool, outcome: Outcome
) -> None:
    """Stage after stage until the period is complete; each sees what the one before recorded, whoever recorded it.

    keys: of the period's tallies.
    """
    ledger, hours = job.account.open(), hours_of(job.slots[keys[0][0]].plan, policy.zone)

    def planned(stage: int) -> StagePlan:
        entries = ledger.stages(job.account.name, policy.levels.spec_id)
        return plan_for(entries, period, stage, hours, policy.levels, policy.centres_of)

    stage, stages = 0, 1
    while stage < stages:
        count_in(outcome, _release_stage(job, policy, keys, planned(stage), tallies))
        stage, stages = stage + 1, planned(0).stages


def _release_stage(
    job: Job, policy: PeriodPolicy, keys: Sequence[SlotShard], plan: StagePlan, tallies: Spool
) -> Mapping[str, int]:
    levels, plans = policy.levels, {keys[0][0]: plan}
    with pipeline() as p:
        sums = unspooled(p, keys, tallies, KeyedTally) | "by vehicle" >> AddUpVectors(levels, job.slots, plans)
        beats = p | "heartbeat" >> beam.Create([(first_s, b"") for first_s in plans], reshuffle=False)
        both = (sums, beats) | "with heartbeat" >> beam.Flatten()
        recorded = both | "stage" >> ReleaseStage(levels, job.slots, plans) | "record" >> Record(job.account)
        estimates = recorded | "publish/estimate" >> EstimatePeriod(job.account, levels, job.slots, policy.estimator)
        for name, sink in sinks_of(job.outputs).items():
            _ = estimates | name >> sink
    return counts_of(p.result)
