"""Repeated or future estimates from the ledger alone, without data or spending."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path

import numpy as np

from dpops.learning import Learned
from pipelines.account.location import AccountLocation
from pipelines.errors import Report, UsageError
from pipelines.inputs import range_of
from pipelines.job import Outputs, asked_of, ledger_account_of, slot_facts
from pipelines.outputs import make_writable
from pipelines.specification import Specification
from transforms.atomic_files import write_whole
from transforms.ledger import AccountRefusal
from transforms.observe.vehicle_ids import Secret
from transforms.recorded.stage_plan import is_complete, of_period
from transforms.recorded.units import StageEntry, counted
from transforms.records import SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.learned import day_estimates, hat_estimates, product_estimates, taught_of
from transforms.releases.periods.products import Product
from transforms.releases.periods.publish import HatEstimates, estimates_of_slot
from transforms.releases.periods.release import PeriodRelease
from transforms.releases.periods.stages import LevelsPolicy
from transforms.releases.periods.states import learned_from, period_order
from transforms.releases.periods.sums import SCHEMA, sums_of
from transforms.sinks.files import FORMATS, file_of, file_stem, publish_slot
from transforms.sinks.rows import columns_in
from transforms.time.calendar import Calendar
from transforms.time.days_off import hours_of

SUMS = "released"
"""Of the files that hold what was released itself."""


@dataclass(frozen=True)
class RecordedStages:
    """Recorded stages of a `levels` specification in ledger order, with their reader."""

    spec: Specification
    policy: LevelsPolicy
    entries: Sequence[StageEntry]

    @property
    def periods(self) -> set[str]:
        """Periods with all of their stages recorded."""
        return {entry.unit.period for entry in self.entries if is_complete(self.entries, entry.unit.period)}


def recorded(spec: Specification, location: AccountLocation, products: Sequence[Product] = ()) -> RecordedStages:
    """Reads recorded stages. Raises UsageError for other mechanisms, AccountRefusal without a ledger."""
    if not spec.is_learned:
        raise UsageError(
            "estimates are learned from statistics by mechanism = 'levels'; rows of others are made again by "
            "`hatstream release`, which spends nothing on released days"
        )
    if not location.ledger.exists():
        raise AccountRefusal(f"there is no ledger at {location.shown}: name it with --ledger")
    account = replace(ledger_account_of(spec, location, signs=False), signature=location.signature)
    policy = PeriodRelease.of(asked_of(spec, {}, Secret(b""), account)).policy  # nothing is recorded: no digest is made
    if policy.places is None and any(product.is_of_places for product in products):
        raise UsageError("--product of places goes with a specification that has [places]")
    wanted = {product.name: product for product in (*policy.products, *products)}
    policy = replace(policy, products=tuple(wanted.values()))
    return RecordedStages(spec, policy, location.ledger.stages(spec.account.name, spec.spec_id))


def estimate_again(
    recorded: RecordedStages,
    calendar: Calendar,
    outputs: Outputs,
    progress: Report,
    *,
    whole: bool,
    sums: bool = False,
) -> tuple[list[Path], list[str]]:
    """Writes estimates of a range's released periods; returns files, and periods not released.

    whole: whether to use all recorded entries. sums: whether to write released sums too.
    """
    make_writable(outputs.folder)
    facts, policy = slot_facts(recorded.spec, calendar), recorded.policy
    missing, written = list[str](), list[Path]()
    everything = learned_from(recorded.entries, policy, None) if whole and recorded.entries else None
    for number, (period, group) in enumerate(groupby(calendar.slots, key=lambda slot: slot.period)):
        progress("periods estimated", number, len(calendar.periods))
        slots = [facts[slot.start_s] for slot in group]
        if period not in recorded.periods:
            missing.append(period)
            continue
        if everything is None:
            last = max(entry.sequence for entry in recorded.entries if entry.unit.period == period)
            entries = [entry for entry in recorded.entries if entry.sequence <= last]
            estimates = day_estimates(learned_from(entries, policy), policy, slots, taught_of(entries, policy))
        else:
            estimates = whole_of(recorded, everything, period, slots)
        written += _published(slots_of(estimates, slots, policy), outputs)
        if sums:
            written += _sums(recorded, period, slots, outputs)
    progress("periods estimated", len(calendar.periods), len(calendar.periods))
    return written, missing


def _sums(recorded: RecordedStages, period: str, slots: Sequence[SlotFacts], outputs: Outputs) -> Iterator[Path]:
    """Writes the noisy sums of a period's stages, one file of each format."""
    places = counted(recorded.entries)
    stages = of_period(recorded.entries, period)
    rows = [row for entry in stages for row in sums_of(entry.unit, places[entry.sequence], recorded.policy, slots)]
    spec_id, start = recorded.policy.spec_id, slots[0].start
    for kind in outputs.formats:
        path = outputs.folder / file_of(spec_id, start, kind, outputs.shape, SUMS)
        path.parent.mkdir(exist_ok=True)
        write_whole(path, FORMATS[kind](columns_in(rows, SCHEMA), SCHEMA, file_stem(spec_id, start, SUMS)))
        yield path


def whole_of(recorded: RecordedStages, everything: Learned, period: str, slots: Sequence[SlotFacts]) -> HatEstimates:
    """Estimates a released period from all entries. everything: their state, not folded in."""
    order = period_order(recorded.entries)
    taught = taught_of(recorded.entries, recorded.policy)
    return day_estimates(everything, recorded.policy, slots, taught, len(order) - 1 - order.index(period))


def forecast(recorded: RecordedStages, first: date, days: int, outputs: Outputs) -> list[Path]:
    """Writes forecasts of days from `first` on, released or not."""
    if not recorded.entries:
        raise UsageError("nothing is released yet: there is nothing to forecast from")
    make_writable(outputs.folder)
    last = first + timedelta(days=days - 1)
    calendar = range_of(recorded.spec.timetable, first.isoformat(), last.isoformat())
    facts, written = slot_facts(recorded.spec, calendar), list[Path]()
    for _, group in groupby(calendar.slots, key=lambda slot: slot.period):
        slots = [facts[slot.start_s] for slot in group]
        written += _published(slots_of(forecast_of(recorded, slots), slots, recorded.policy), outputs)
    return written


def _published(slots: Iterable[SlotEstimates], outputs: Outputs) -> Iterator[Path]:
    for slot in slots:
        yield from publish_slot(slot, outputs.folder, outputs.formats, outputs.shape)


def forecast_of(recorded: RecordedStages, slots: Sequence[SlotFacts]) -> HatEstimates:
    """Estimates a period that is not released. slots: all of it."""
    policy, zone = recorded.policy, recorded.spec.timetable.zone
    learned = learned_from(recorded.entries, policy)
    belief = learned.forecast(np.array(hours_of(slots[0].plan, zone), np.int64))
    products = product_estimates(learned, belief, policy, slots, taught_of(recorded.entries, policy), forecast=True)
    return hat_estimates(belief, policy, forecast=True)._replace(products=products)


def slots_of(estimates: HatEstimates, slots: Sequence[SlotFacts], policy: LevelsPolicy) -> Iterator[SlotEstimates]:
    """Yields estimates slot by slot."""
    for index, facts in enumerate(slots):
        yield estimates_of_slot(estimates, index, facts, policy)
    yield from estimates.products
