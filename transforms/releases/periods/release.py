"""Release of whole periods by `levels`, stage by stage.

`entries`: recorded stages in ledger order. A stage measures around centres that the newest entries teach; `rests_on` is
the last one's number. A first stage may count vehicles alone. `joint_slots_s`: starts of a period's slots, in order.
`bare_stage` reads a recorded stage without the HATs that it was laid on.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Self

import numpy as np

from dpops.estimate import OK
from dpops.levels.parts import is_too_few
from dpops.levels.stages import Stage
from dpops.noise import Noise
from dpops.statistics import COUNT, Column
from dpops.types import Int64s
from transforms.failpoints import failpoint
from transforms.public import EntryNumber
from transforms.recorded.stage_plan import bare_stage, is_complete, of_period, stage_of
from transforms.recorded.units import Debit, StageEntry, StageUnit, UnitKey, all_of
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases import SlotFacts
from transforms.releases.base import DrawnUnit, History, Request, Tallies
from transforms.releases.periods.learned import day_estimates, learned_centres, learned_differences
from transforms.releases.periods.publish import HatEstimates, estimates_of_period
from transforms.releases.periods.stages import LevelsPolicy, add_up, draw_stage, first_centres, laid_stage, read_unit
from transforms.releases.periods.states import StateFile, learned_from
from transforms.time.calendar import hours_of


@dataclass(frozen=True)
class VectorRelease:
    """Base of period and live releases, planned by period."""

    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    zone: str  # of local hours
    cap: None = None
    shards = 1
    shares: tuple[Fraction, ...] = ()
    learns = True
    keeps_late = False

    @classmethod
    def of(cls, request: Request) -> Self:
        """Creates the release of a specification."""
        policy = request.options.policy(request.spec_id, request.region or (), request.value, request.digest_key)
        # The model's state is cached in a signed file; no result depends on it.
        state_file = StateFile.of_head(request.account.head, request.spec_id, request.account.signature)
        return cls(replace(policy, cache_file=state_file), request.slots, request.zone)

    @property
    def spec_id(self) -> str:
        """Id of the specification."""
        return self.policy.spec_id

    def with_digest_form(self, _digest: str | None) -> Self:
        """Returns itself: no older digest matters."""
        return self


@dataclass(frozen=True)
class PeriodRelease(VectorRelease):
    """Release of periods by one run."""

    run: str = field(default_factory=partial(secrets.token_hex, 8), compare=False)
    draws_in_order = True
    centres = staticmethod(learned_centres)  # of a stage, (cells, slots), from at least one entry

    def claims(self, history: History) -> dict[str, list[Debit]]:
        """Computes each period's debit, for all stages, under its first stage's key."""
        policy, claims = self.policy, dict[str, list[Debit]]()
        is_first = not history.stages(policy.spec_id)  # a specification's first period has other stages, and costs
        for period, joint_slots_s in {facts.period: facts.joint_slots_s for facts in self.slots.values()}.items():
            cost = policy.on(period).cost_of_period(is_first)
            claims[period], is_first = [Debit(UnitKey(policy.spec_id, joint_slots_s[0], shard=0), cost)], False
        return claims

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of tallies."""
        return self.policy.columns

    def group(self, slot_s: int) -> int:
        """Returns the first slot of a slot's period."""
        return self.slots[slot_s].joint_slots_s[0]

    def draw(self, groups: Mapping[SlotShard, Tallies], history: History, noise: Noise) -> list[DrawnUnit]:
        """Draws a period's next stage; [] after the last. Raises MustStop."""
        (((first_s, _), tallies),) = groups.items()  # a period is one group, under its first slot
        number = len(history.recorded)  # of the next stage, from 0
        if number:
            unit = all_of(StageUnit, history.recorded[-1].units)[0]
            stage = bare_stage(unit)  # the newest recorded one
            if stage.counts_vehicles and is_too_few(read_unit(unit, self.policy.region), self.policy.fleet.vehicles):
                history.stop_once(unit, self.run)  # MustStop in the first run, and unattended ones
            if stage.number + 1 == stage.stages:
                return []
        slots = self.slots[first_s].joint_slots_s
        facts, hours = [self.slots[slot_s] for slot_s in slots], hours_of(slots, self.zone)
        entries = history.stages(self.policy.spec_id)
        laid, is_first = self.plan(entries, facts[0].period, number, hours)
        sums = add_up(tallies(), self.policy, slots, laid)  # `tallies` is a call that reads them
        failpoint("before-noise")
        unit = draw_stage(sums, laid, facts, first_s, self.policy, noise, is_first=is_first)
        failpoint("after-noise")
        return [DrawnUnit(unit)]

    def plan(self, entries: Sequence[StageEntry], period: str, number: int, hours: Sequence[int]) -> tuple[Stage, bool]:
        """Plans a period's stage `number`, from 0, or reads the recorded one.

        Also returns whether the period is planned as a first one: without a complete earlier one, unless its recorded
        stages say otherwise. Vehicles are counted first as in the last period. Centres rest on entries of other
        complete periods and of its own, in ledger order: its own may come first, if it waited for its operator.
        """
        policy, recorded = self.policy, of_period(entries, period)  # recorded: this period's stages so far
        earlier = known_before(entries, period)
        precedent = recorded or of_period(earlier, earlier[-1].unit.period if earlier else "")
        has_count = bare_stage(precedent[0].unit).counts_vehicles if precedent else policy.count is not None
        # A first period differs by its number of stages, less the one that counts vehicles.
        is_first = bare_stage(recorded[0].unit).stages - has_count == len(policy.first) if recorded else not earlier
        if number < len(recorded):
            return stage_of(recorded[number].unit, policy.region, policy.public_places), is_first
        stages = policy.on(period).stages(is_first=is_first, counts=has_count)  # on: with that day's share of the total
        evidence = (  # a count alone teaches no centres: the stage after it rests on earlier periods
            earlier if has_count and number == 1 else sorted([*earlier, *recorded], key=lambda entry: entry.sequence)
        )
        if not evidence or not stages[number].has_speeds:
            centres, rests_on = first_centres(len(policy.region), len(hours)), EntryNumber(0)  # 0: on none
        else:
            centres, rests_on = self.centres(evidence, policy, hours), evidence[-1].sequence
        differences = learned_differences(evidence, policy, stages[number])
        return laid_stage(policy, stages, number, hours, centres, rests_on, differences), is_first

    def estimates(self, recorded: RecordedSlot, history: History) -> Iterator[SlotEstimates]:
        """Estimates a period from its last and earlier entries."""
        (unit,), (sequence,) = recorded.units, recorded.sequences
        entries = [entry for entry in history.stages(unit.spec_id) if entry.sequence <= sequence]
        facts = [self.slots[slot_s] for slot_s in self.slots[unit.slot_s].joint_slots_s]
        estimates = day_estimates(learned_from(entries, self.policy), self.policy, facts, entries)
        yield from estimates_of_period(estimates, facts, self.policy)


def known_before(stages: Sequence[StageEntry], period: str, sequence: int | None = None) -> list[StageEntry]:
    """Lists the stages of complete periods but `period`, recorded before `sequence` (None: so far)."""
    earlier = [entry for entry in stages if sequence is None or entry.sequence < sequence]
    complete = {name for name in {entry.unit.period for entry in earlier} if is_complete(earlier, name)}
    return [entry for entry in earlier if entry.unit.period in complete - {period}]


Z95 = 1.959963984540054  # 97.5 % quantile of the normal law; dpops.spread rounds it, and published bounds must stay


@dataclass(frozen=True)
class CountRelease(PeriodRelease):
    """Counts of a period, with intervals of their noise."""

    learns = False

    @staticmethod
    def why_no_stream(_allocation: object, _options: object) -> str:
        """Explains why slots cannot be released singly."""
        return "statistic 'count' is released of whole periods, which a stream never holds: use `hatstream release`"

    @staticmethod
    def centres(_entries: Sequence[StageEntry], policy: LevelsPolicy, hours: Sequence[int]) -> Int64s:
        """Returns constant centres, as a count has no values."""
        return first_centres(len(policy.region), len(hours))

    def estimates(self, recorded: RecordedSlot, _history: History) -> Iterator[SlotEstimates]:
        """Reads a period's counts from its single stage."""
        value = replace(self.policy.value, lower=Fraction(0), scale=Fraction(1), unit="1")  # counts are not converted
        (unit,), policy = all_of(StageUnit, recorded.units), replace(self.policy, value=value)
        read = read_unit(unit, policy.region)
        (level,), bound = read.levels, read.stage.least_norm  # weights are counts over the bound of their norm
        counts, sd = level.weights.reshape(len(policy.region), -1) * bound, level.weight_sd * bound
        counts, lower, upper = np.maximum([counts, counts - Z95 * sd, counts + Z95 * sd], 0.0)  # no count is less
        shown = HatEstimates(counts, lower, upper, np.full_like(counts, sd), np.full(counts.shape, OK))
        facts = [self.slots[slot_s] for slot_s in self.slots[unit.slot_s].joint_slots_s]
        for slot in estimates_of_period(shown, facts, policy):
            hats = replace(slot.hats, statistic=[COUNT.name] * len(slot.hats.cell))
            yield slot._replace(statistics=(COUNT.name,), hats=hats)
