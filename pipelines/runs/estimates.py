"""Repeated or future estimates from the ledger alone.

Entries are a specification's recorded stages, in ledger order. `learned_from` fits a model, `Learned`, to them, which
estimates HATs and products of a released or a coming period. Its field holds means of HATs, (cells, slots).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpops.learning import Field, Learned, Status, published
from dpops.learning.expected import MEAN_ABSOLUTE_NORMAL
from dpops.types import Float64s
from pipelines.account.location import AccountLocation
from pipelines.errors import Report, UsageError
from pipelines.inputs import range_of
from pipelines.job import Outputs, ledger_account_of, make_writable, request_of, slot_facts
from pipelines.outcome import hundredths
from pipelines.specification import Specification
from transforms.atomic_files import write_whole
from transforms.observe.vehicle_ids import Secret
from transforms.places.ground import texts_of
from transforms.recorded.stage_plan import is_complete, of_period
from transforms.recorded.units import StageEntry, counted
from transforms.records import SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.learned import day_estimates, hat_estimates, product_estimates
from transforms.releases.periods.products import Product
from transforms.releases.periods.publish import SCHEMA, HatEstimates, estimates_of_period, sums_of
from transforms.releases.periods.release import PeriodRelease
from transforms.releases.periods.stages import LevelsPolicy
from transforms.releases.periods.states import learned_from, period_order
from transforms.sinks.rows import FORMATS, columns_in, file_of, file_stem, publish_slot
from transforms.time.calendar import WEEKDAYS, Calendar, Weekday, hours_of

SUMS = "released"  # begins the names of files that hold the noisy sums themselves


@dataclass(frozen=True)
class RecordedStages:
    """Recorded stages of a `levels` specification, in ledger order."""

    spec: Specification
    policy: LevelsPolicy
    entries: Sequence[StageEntry]

    @property
    def periods(self) -> set[str]:
        """Periods with all of their stages recorded."""
        return {period for period in period_order(self.entries) if is_complete(self.entries, period)}

    def until(self, period: str) -> list[StageEntry]:
        """Lists the entries up to a period's last one."""
        last = max(entry.sequence for entry in self.entries if entry.unit.period == period)
        return [entry for entry in self.entries if entry.sequence <= last]


def recorded(spec: Specification, location: AccountLocation, products: Sequence[Product] = ()) -> RecordedStages:
    """Reads recorded stages. Raises UsageError for other mechanisms, AccountRefusal without a ledger."""
    if not spec.is_learned:
        raise UsageError(
            "estimates are learned from statistics by mechanism = 'levels'; rows of others are made again by "
            "`hatstream release`, which spends nothing on released days"
        )
    book = location.read()
    account = ledger_account_of(spec, location, signs=False)  # reads no key: estimates need none
    account = replace(account, signature=book.signature)  # where there is a key, entries are verified
    policy = PeriodRelease.of(request_of(spec, {}, Secret(b""), account)).policy  # needs neither slots nor a secret
    if policy.lacks_places(products):
        raise UsageError("--product of places goes with a specification that has [places]")
    wanted = {product.name: product for product in (*policy.products, *products)}
    policy = replace(policy, products=tuple(wanted.values()))
    return RecordedStages(spec, policy, book.stages(spec.account.name, spec.spec_id))


def estimate_again(
    recorded: RecordedStages, calendar: Calendar, outputs: Outputs, progress: Report, *, whole: bool, sums: bool
) -> tuple[list[Path], list[str]]:
    """Writes estimates of a range's released periods; returns files, and periods not released.

    whole: whether to use all recorded entries, else those up to the period's. sums: whether to write released sums too.
    """
    make_writable(outputs.folder)
    facts, policy, released_periods = slot_facts(recorded.spec, calendar), recorded.policy, recorded.periods
    missing, written = list[str](), list[Path]()
    # least_recent=None: old days are kept one by one, none is folded into a mean day.
    everything = learned_from(recorded.entries, policy, least_recent=None) if whole and recorded.entries else None
    for number, (period, period_slots) in enumerate(groupby(calendar.slots, key=lambda slot: slot.period)):
        progress("periods estimated", number, len(calendar.periods))
        slots = [facts[slot.start_s] for slot in period_slots]
        if period not in released_periods:
            missing.append(period)
            continue
        if everything is None:
            entries = recorded.until(period)
            estimates = day_estimates(learned_from(entries, policy), policy, slots, entries)
        else:
            estimates = estimate_by_all(recorded, everything, period, slots)
        written += _published(estimates_of_period(estimates, slots, policy), outputs)
        if sums:
            numbers = counted(recorded.entries)  # shown number of an entry, by its sequence number in the ledger
            stages, stem = of_period(recorded.entries, period), file_stem(policy.spec_id, slots[0].start, SUMS)
            rows = [row for stage in stages for row in sums_of(stage.unit, numbers[stage.sequence], policy, slots)]
            for kind in outputs.formats:
                path = outputs.folder / file_of(policy.spec_id, slots[0].start, kind, outputs.shape, SUMS)
                path.parent.mkdir(exist_ok=True)
                write_whole(path, FORMATS[kind](columns_in(rows, SCHEMA), SCHEMA, stem))
                written.append(path)
    progress("periods estimated", len(calendar.periods), len(calendar.periods))
    return written, missing


def answer_afterwards(spec: Specification, account: AccountLocation, hats: pa.Table, days: pa.Table) -> str:
    """Describes usable shares of released rows and reports; empty without released days.

    hats, days: rows of HATs, and of places' whole days, with cell, slot_start and status. Without a row: not usable.
    """
    released = days.filter(pc.not_equal(days["status"], "forecast"))  # one row per cell and released day
    if not released.num_rows:
        return ""
    hats_by_status, days_by_status = Counter(hats["status"].to_pylist()), Counter(released["status"].to_pylist())
    hat_count = len(spec.timetable.service_minutes) * released.num_rows  # service_minutes: starts of a day's slots
    if spec.trips is not None:  # then HATs with a trip alone count; 1 if the timetable has none, as it is a divisor
        cells_by_weekday = dict[Weekday, list[str]]()  # a cell once for each of its rows
        for cell, start in zip(released["cell"].to_pylist(), released["slot_start"].to_pylist(), strict=True):
            cells_by_weekday.setdefault(WEEKDAYS[date.fromisoformat(start[:10]).weekday()], []).append(cell)
        tables = ((cells, replace(spec.timetable, weekdays=(weekday,))) for weekday, cells in cells_by_weekday.items())
        hat_count = sum(spec.trips.count_hats(cells, table) for cells, table in tables) or 1
    usable = hats.filter(pc.equal(hats["status"], "ok"))
    keys = {*zip(usable["cell"].to_pylist(), usable["slot_start"].to_pylist(), strict=True)}
    newest, held_back = newest_day(spec, account, keys), days_by_status["held-back"] / released.num_rows
    about_reports = "" if newest is None else f" (those of {newest.period} {newest.worth})"
    waiting = f", and {hundredths(held_back)} are held back until more days tell of them" if held_back else ""
    return (
        f"Of 100 rows, a place in a slot{' with a trip' if spec.trips else ''} each, "
        f"{hundredths(hats_by_status['ok'] / hat_count)} are usable by themselves{about_reports} and "
        f"{hundredths(hats_by_status['parent'] / hat_count)} by the area around; of 100 places' whole days "
        f"{hundredths(days_by_status['ok'] / released.num_rows)} are{waiting}."
    )


def _expected(entries: Sequence[StageEntry], recorded: RecordedStages) -> tuple[Field, Float64s, float, float]:
    """Estimates the newest period's field, and mean absolute errors weighted by reports.

    Returns:
        The field; each HAT's share of all reports, (cells, slots); and expected errors, in the value's unit: of the
        field's means, and of the period's mean taken everywhere; both as if errors had one normal distribution.
    """
    models = learned_from(entries, recorded.policy)
    # The learned spread: `field.spread` is a multiple, for cautious intervals. field.vehicles: (cells, slots, NODES).
    field, spread = models.estimate(), models.speeds.spread
    share, vehicles = field.weights / field.weights.sum(), np.maximum(field.vehicles, 1.0)
    # Posterior variances of HATs' own means around the field, after noisy sums of single HATs (`precisions`).
    own_variances = spread.of_reports(vehicles, field.values[..., None], field.precisions[..., None])
    variances = field.variances + own_variances.mean(axis=-1)  # over NODES equally likely numbers of vehicles
    from_mean = (field.values - np.sum(share * field.values)) ** 2
    mean_squares = (float(np.sum(share * squares)) for squares in (variances, variances + from_mean))
    error, constant = (recorded.spec.value.width(MEAN_ABSOLUTE_NORMAL * square**0.5) for square in mean_squares)
    return field, share, error, constant


class NewestDay(msgspec.Struct, frozen=True, kw_only=True):
    """Newest released period, estimated by all ledger entries."""

    period: str
    days: int  # released until then
    rows: float  # share of HATs, with a trip, that are `ok`
    reports: float  # share of reports in these
    error: float  # expected mean absolute one, by reports
    constant: float  # of the period's mean everywhere
    unit: str

    @property
    def answer(self) -> str:
        """The result in words, for planning further days."""
        return (
            f"This account's released days ({self.days}) say more: on {self.period} {hundredths(self.rows)} of 100 "
            f"rows are usable by themselves, which {self.worth}."
        )

    @property
    def worth(self) -> str:
        """What the usable rows hold, and the expected errors, in words."""
        return (
            f"hold {hundredths(self.reports)} of 100 reports, by released weights; an error of {self.error:.1f} "
            f"{self.unit} is expected by reports, {self.constant:.1f} with the period's mean everywhere"
        )


def newest_day(
    spec: Specification, location: AccountLocation, usable: Set[tuple[str, str]] | None = None
) -> NewestDay | None:
    """Estimates an account's newest released period; None without one.

    usable: cells and slots' starts of the only HATs to count, and of whose periods the newest is taken.
    """
    if not spec.is_learned:
        return None
    book = location.reader()
    if not book.exists() or spec.account.name not in {account.name for account in book.accounts()}:
        return None
    stages = recorded(spec, location)
    periods, table = stages.periods, spec.timetable
    if usable is not None:
        periods = periods & {table.period_of(date.fromisoformat(day)) for day in {start[:10] for _, start in usable}}
    if (period := max(periods, default=None)) is None:
        return None
    *_, newest = entries = stages.until(period)
    # share: each HAT's of all reports. Expected errors of the HATs' estimates, and of the day's mean in their place.
    field, share, error, constant = _expected(entries, stages)
    cells = texts_of(stages.policy.region)
    slots = spec.slots_of_period(newest.unit.slot_s)
    served = map(spec.served_cells, slots)
    has_trip = np.array([[trips is None or cell in trips for cell in cells] for trips in served]).T  # (cells, slots)
    is_ok = (published(field, float(spec.value.standard.upper)).status == Status.OK) & has_trip  # upper: in km/h
    if usable is not None:
        starts = list(map(table.text, slots))
        is_ok = np.array([[(cell, start) in usable for start in starts] for cell in cells])
    return NewestDay(
        period=period,
        days=len(stages.periods.intersection(period_order(entries))),  # complete ones, the newest included
        rows=float(is_ok.sum() / max(has_trip.sum(), 1)),
        reports=float(share[is_ok].sum()),
        error=error,
        constant=constant,
        unit=spec.value.unit,
    )


def estimate_by_all(recorded: RecordedStages, model: Learned, period: str, slots: Sequence[SlotFacts]) -> HatEstimates:
    """Estimates a released period from all entries. model: learned from them."""
    order = period_order(recorded.entries)
    days_back = len(order) - 1 - order.index(period)  # from the newest released period
    return day_estimates(model, recorded.policy, slots, recorded.entries, days_back)


def forecast(recorded: RecordedStages, first: date, days: int, outputs: Outputs) -> list[Path]:
    """Writes forecasts of days from `first` on; returns files. Raises UsageError without releases."""
    if not recorded.entries:
        raise UsageError("nothing is released yet: there is nothing to forecast from")
    make_writable(outputs.folder)
    last = first + timedelta(days=days - 1)
    calendar = range_of(recorded.spec.timetable, first.isoformat(), last.isoformat())
    facts, written = slot_facts(recorded.spec, calendar), list[Path]()
    for _, period_slots in groupby(calendar.slots, key=lambda slot: slot.period):
        slots = [facts[slot.start_s] for slot in period_slots]
        written += _published(estimates_of_period(forecast_of(recorded, slots), slots, recorded.policy), outputs)
    return written


def _published(slots: Iterable[SlotEstimates], outputs: Outputs) -> Iterator[Path]:
    for slot in slots:
        yield from publish_slot(slot, outputs.folder, outputs.formats, outputs.shape)


def forecast_of(recorded: RecordedStages, slots: Sequence[SlotFacts]) -> HatEstimates:
    """Estimates all slots of an unreleased period."""
    policy, zone = recorded.policy, recorded.spec.timetable.zone
    learned = learned_from(recorded.entries, policy)
    joint_slots_s = slots[0].joint_slots_s  # starts of all slots of the period, which each of them names
    posterior = learned.forecast(np.array(hours_of(joint_slots_s, zone), np.int64))  # by each slot's local hour
    products = product_estimates(learned, posterior, policy, slots, recorded.entries, forecast=True)
    numbers = published(posterior, float(policy.value.standard.upper), forecast=True)
    return hat_estimates(numbers)._replace(products=products)
