"""The scheduled job of a `levels` release: period by period, stage by stage, each around what is recorded before."""

from collections.abc import Collection, Mapping, Sequence

import apache_beam as beam

from dpops.accountant import Accountant
from dpops.claims import claim_of
from pipelines.build import sinks_of
from pipelines.job import Job
from pipelines.scheduled import counting
from pipelines.scheduled.crew import crew_of
from pipelines.scheduled.outcome import Outcome, Progress, count_in, is_refused
from pipelines.scheduled.parts import counts_of, pipeline, unspooled
from pipelines.scheduled.spool import Spool
from transforms.ledger import Ledger
from transforms.records import KeyedTally, SlotShard
from transforms.release.levels import LevelsPolicy, StagePlan
from transforms.release.levels_order import CentresOf, hours_of, plan_for
from transforms.release.levels_publish import Estimator
from transforms.release.levels_steps import COLUMNS, AddUpVectors, EstimatePeriod, ReleaseStage
from transforms.release.recorded import Debit
from transforms.steps import Record
from transforms.time.calendar import Slot


def run(
    job: Job,
    policy: LevelsPolicy,
    zone: str,
    paths: Sequence[str],
    slots: Sequence[Slot],
    needed: Collection[str] | None,
    learned: tuple[CentresOf, Estimator],
    workers: int | None,
    progress: Progress,
) -> Outcome:
    """Releases whole periods.

    needed: periods that must have rows, or nothing is recorded. None where counts are secret: then nothing that is
    released, refused or spent depends on the input.

    learned: what makes centres, and estimates, of recorded stages. workers: as `crew_of` has them.
    """
    outcome, ledger = asked_beforehand(job, policy), job.account.open()
    if outcome.periods_refused:
        return outcome
    periods = {slot.period: job.slots[slot.start_s].plan for slot in slots}
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
            _release_period(job, policy, period, keys, hours_of(plan, zone), ledger, tallies, learned, outcome)
            progress("periods recorded and published", done, len(periods))
    return outcome


def asked_beforehand(job: Job, policy: LevelsPolicy) -> Outcome:
    """What the periods ask of the account, which no input decides, and which of them are over its limit."""
    outcome, ledger = Outcome(), job.account.open()
    periods = {facts.period: facts.plan for facts in job.slots.values()}
    wanted = _wanted(periods, policy, is_first=not ledger.stages(job.account.name, policy.spec_id))
    outcome.debits = {period: Accountant().compose(each.claim for each in debits) for period, debits in wanted.items()}
    outcome.periods_refused = ledger.excess(job.account.name, job.account.limit, wanted)
    return outcome


def _wanted(periods: Mapping[str, Sequence[int]], policy: LevelsPolicy, *, is_first: bool) -> dict[str, list[Debit]]:
    """What the periods' ends will be debited. is_first: nothing of the specification is recorded yet."""
    found = {}
    for period, plan in periods.items():
        cost = policy.cost_of_period(len(policy.first if is_first else policy.later))
        found[period], is_first = [Debit((policy.spec_id, plan[0], 0), claim_of(cost))], False
    return found


def _release_period(
    job: Job,
    policy: LevelsPolicy,
    period: str,
    keys: Sequence[SlotShard],
    hours: Sequence[int],
    ledger: Ledger,
    tallies: Spool,
    learned: tuple[CentresOf, Estimator],
    outcome: Outcome,
) -> None:
    """Stage after stage until the period is complete; each sees what the one before recorded, whoever recorded it.

    keys: of the period's tallies.
    """
    stage, stages = 0, 1
    while stage < stages:
        entries = ledger.stages(job.account.name, policy.spec_id)
        plan = plan_for(entries, period, stage, hours, policy, learned[0])
        count_in(outcome, _release_stage(job, policy, keys, plan, tallies, learned[1]))
        stages = plan_for(ledger.stages(job.account.name, policy.spec_id), period, 0, hours, policy, learned[0]).stages
        stage += 1


def _release_stage(
    job: Job, policy: LevelsPolicy, keys: Sequence[SlotShard], plan: StagePlan, tallies: Spool, estimator: Estimator
) -> Mapping[str, int]:
    plans = {keys[0][0]: plan}
    with pipeline() as p:
        sums = unspooled(p, keys, tallies, KeyedTally) | "by vehicle" >> AddUpVectors(policy, job.slots, plans)
        beats = p | "heartbeat" >> beam.Create([(first_s, b"") for first_s in plans], reshuffle=False)
        both = (sums, beats) | "with heartbeat" >> beam.Flatten()
        recorded = both | "stage" >> ReleaseStage(policy, job.slots, plans) | "record" >> Record(job.account)
        estimates = recorded | "publish/estimate" >> EstimatePeriod(job.account, policy, job.slots, estimator)
        for name, sink in sinks_of(job).items():
            _ = estimates | name >> sink
    return counts_of(p.result)
