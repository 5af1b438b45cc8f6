"""A period released by `levels`, stage by stage, and the estimates of its slots once the ledger has it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpops.levels import Stage, Sums
from dpops.noise import Noise
from transforms.failpoints import failpoint
from transforms.ledger.ledger_account import LedgerAccount
from transforms.recorded.stage_plan import plan_of
from transforms.recorded.units import Sealed
from transforms.records import RecordedSlot, SlotEstimates
from transforms.releases.periods.order import CentresOf, hours_of, plan_for
from transforms.releases.periods.publish import Estimator, estimates_of_slot
from transforms.releases.periods.stages import LevelsPolicy, seal_stage
from transforms.releases.slots import SlotFacts


@dataclass(frozen=True)
class PeriodPolicy:
    """How periods are released. periods: facts of every slot, whose `plan` is all slots of its period. zone: of local
    hours. centres_of, estimator: what is learned of recorded stages, as vectors and rows need it."""

    levels: LevelsPolicy
    periods: Mapping[int, SlotFacts]
    zone: str
    centres_of: CentresOf
    estimator: Estimator


AddUp = Callable[[Stage], Sums]
"""The sum of a period's vehicles' vectors as a stage looks at them."""
RecordUnits = Callable[[Sequence[Sealed]], Sequence[RecordedSlot]]
"""What the ledger returned for units of one transaction; nothing where it refused them."""


def release_period(
    add_up: AddUp, first_s: int, account: LedgerAccount, policy: PeriodPolicy, record: RecordUnits
) -> Iterator[SlotEstimates]:
    """The estimates of the period that begins at first_s; none where the account's limit refuses it."""
    done = _last_stage(add_up, first_s, account, policy, record)
    if done is not None:
        yield from _estimates(done, account, policy)


def _last_stage(
    add_up: AddUp, first_s: int, account: LedgerAccount, policy: PeriodPolicy, record: RecordUnits
) -> RecordedSlot | None:
    """Stage after stage, each around what the ones before recorded, whoever recorded them."""
    slots = policy.periods[first_s].plan
    facts, hours = [policy.periods[at] for at in slots], hours_of(slots, policy.zone)
    ledger, stage, stages, done = account.open(), 0, 1, None
    while stage < stages:
        entries = ledger.stages(account.name, policy.levels.spec_id)
        plan = plan_for(entries, facts[0].period, stage, hours, policy.levels, policy.centres_of)
        sums = add_up(plan.read(policy.levels.region))
        failpoint("before-noise")
        unit = seal_stage(sums, plan, facts, first_s, policy.levels, Noise())
        failpoint("after-noise")
        found = record([unit])
        if not found:
            return None
        done = found[0]
        stage, stages = stage + 1, plan_of(done.units[0]).stages
    return done


def _estimates(last: RecordedSlot, account: LedgerAccount, policy: PeriodPolicy) -> Iterator[SlotEstimates]:
    """Of a period's slots, and its products: from its last recorded stage and what stands before it."""
    (unit,), (sequence,) = last.units, last.sequences
    stages = account.open().stages(account.name, unit.spec_id)
    facts = [policy.periods[slot_s] for slot_s in policy.periods[unit.slot_s].plan]
    known = [entry for entry in stages if entry.sequence <= sequence]
    estimates = policy.estimator(known, policy.levels, facts)
    for at, each in enumerate(facts):
        yield estimates_of_slot(estimates, at, each, unit.unit, policy.levels)
    yield from estimates.products
