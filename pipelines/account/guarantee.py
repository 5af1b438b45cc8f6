"""Privacy guarantee of a release, vehicles' spending, and missing slots of a verified ledger.

An Accountant adds up claims, and a limit of an account bounds their sum; a Loss shows that as epsilon and delta. A
window is as many consecutive periods as a span has days. `bounds` are those of all spans, the shortest first: `most`,
the loss that no window exceeds, and `since`, the date from which windows keep the limit, empty if all do.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

from dpops.accountant import Accountant, DeltaLimit, Limit
from dpops.claims import ZERO
from dpops.loss import chance_beyond
from pipelines.outcome import Outcome, Spend
from pipelines.specification import Specification
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import Spent, windows
from transforms.recorded.stage_plan import is_complete
from transforms.recorded.units import Debit, UnitKey
from transforms.time.calendar import Calendar

LITTLE_PROTECTION = 10  # an epsilon above which the sentence warns that it hardly protects
LARGEST_IN_DIGITS = 30  # an epsilon above which its factor is written as a power of ten
STANDING_DAYS = (1, 28)  # days of a vehicle that is at one place of a map every day
DAYS = (1, 7, 30)  # numbers of consecutive days whose cost is published
NOT_PROTECTED = (
    "Not protected under counts-public: that a vehicle reported, when, where, how often, and whether a report carried "
    "a speed. Only the speeds are."
)
_ABOUT_BY_UNIT = {"vehicle-day": " about one day", "vehicle-week": " about one week", "vehicle-ever": ""}
_OF_RELEASE = {unit: f"{about} of this release" if about else "" for unit, about in _ABOUT_BY_UNIT.items()}
_OTHER_VALUES = "with any other {} of it"


class Loss(NamedTuple):
    """Privacy loss of a vehicle and period, as epsilon and delta."""

    epsilon: Fraction = ZERO
    delta: Fraction = ZERO
    chance: float = 0.0  # `chance_beyond`: that noise raises the odds of a true guess by more than e^epsilon

    @property
    def chance_text(self) -> str:
        """The chance with two digits, rounded up."""
        return f"{float(Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(self.chance)):g}"

    def rounded_up(self) -> "Loss":
        """Rounds the loss's epsilon up to hundredths."""
        return self._replace(epsilon=Fraction(math.ceil(100 * self.epsilon), 100))

    def factor_text(self) -> str:
        """Describes the bound: a factor of e^epsilon, exceeded with a chance."""
        warning = ", so large that the vehicle is hardly protected" if self.epsilon > LITTLE_PROTECTION else ""
        but = f", but for a chance of {self.chance_text} under the noise that is drawn" if self.delta else ""
        return f"at most a factor of {_factor(self.epsilon)} (epsilon {float(self.epsilon):g}){warning}{but}"

    def definition(self, neighbour: str) -> str:
        """Returns the (epsilon, delta) definition as a sentence, if any. neighbour: adjacent input."""
        if not self.delta:
            return ""
        delta = f"{float(self.delta):g}"
        return (
            f" By definition (epsilon {float(self.epsilon):g}, delta {delta}), any set of such figures is at most "
            f"{_factor(self.epsilon)} times as likely with the vehicle as {neighbour}, plus {delta}, and vice versa."
        )


class Cost(NamedTuple):
    """Privacy loss of a vehicle that drives alike on consecutive days."""

    days: int
    loss: Loss


def loss_of(spent: Accountant, limit: Limit, *, steered: bool = False) -> Loss:
    """Converts spending to a limit's terms. steered: mechanisms follow earlier results. Raises ClaimError."""
    shown = limit.shown(spent)
    return Loss(shown.epsilon, shown.delta, chance_beyond(shown.epsilon, spent, steered=steered))


class SpanBound(NamedTuple):
    """Bound of a vehicle's loss in a number of consecutive periods, over all specifications.

    most: maximum of the limit in force and of every window's spending. over: spending of windows above the limit, by
    first period. since: date from which windows keep the limit; empty if all do.
    """

    days: int
    limit: Limit
    most: Loss
    over: Mapping[str, Loss]
    since: str


def span_bounds(limit: Limit, by_period: Mapping[str, Accountant]) -> tuple[SpanBound, ...]:
    """Bounds every span of an account, shortest first. by_period: all debits, in order."""
    bounds = []
    for span in limit.spans:
        sums, over = windows(by_period, span.days), dict[str, Loss]()  # spending of each window, by its first period
        fits = {spent: span.limit.fits(spent) for spent in {*sums.values()}}  # once each, as many windows are alike
        for first, spent in sums.items():
            if not fits[spent]:
                terms = span.limit if span.limit.can_add(spent) else limit  # a new limit may not add old claims up
                # In a span of several days, results of earlier ones may have steered what later ones released.
                over[first] = loss_of(spent, terms, steered=span.days > 1).rounded_up()
        # The largest epsilon, delta and chance, each by itself: together they bound every window's loss.
        largest = Loss(*map(max, zip(*over.values(), _most_loss(span.limit), strict=True)))
        is_dated = over and max(over) != "ever"  # "ever" is the one period of an account by vehicle-ever
        # Windows that begin after the last one over the limit keep it.
        since = (date.fromisoformat(max(over)) + timedelta(days=1)).isoformat() if is_dated else ""
        bounds.append(SpanBound(days=span.days, limit=span.limit, most=largest, over=over, since=since))
    return tuple(bounds)


def bounds_of_account(book: Ledger, account: str) -> tuple[SpanBound, ...]:
    """Bounds every span of an account by its ledger. Raises LedgerError and AccountRefusal."""
    return span_bounds(book.limit(account), book.debited(account))


def sentence(spec: Specification, bounds: Sequence[SpanBound], hat: Fraction, spent: Loss) -> str:
    """Returns a release's promise. hat: largest epsilon of a HAT. spent: largest period's loss."""
    if spec.is_learned:  # one total per period, whatever HATs have
        return levels_sentence(spec, bounds)
    total = spec.privacy.allocation.total  # a period's, even if it is not all spent yet
    period = spent if total is None or spent.epsilon >= total else Loss(total)
    changes, values = "raises those of a true one by" if period.delta else "changes them by", spec.value.plural
    return (
        f"No single figure of this release changes the odds of any guess about the {values} of one vehicle by more "
        f"than a factor of {_factor(hat)} (epsilon {float(hat):g}); somebody who combines all figures that the account "
        f"has released{_OF_RELEASE[spec.account.unit]} {changes} {period.factor_text()}; "
        f"that a vehicle drove, when and where is treated as public.{period.definition(_OTHER_VALUES.format(values))}"
        + _of_spans(spec, bounds)
    )


def levels_sentence(spec: Specification, bounds: Sequence[SpanBound]) -> str:
    """Returns the promise of a release with one total per period."""
    levels, values = spec.by_levels, spec.value.plural
    how = "how fast" if values == "speeds" else f"with which {values}"
    subject = f"the {values} of one vehicle" if spec.counts_are_public else "one vehicle"
    hidden = (
        "that a vehicle drove, when and where is treated as public"
        if spec.counts_are_public
        else f"that it drove at all, when, where and {how} included"
    )
    spent = Accountant().compose([levels.claim])
    loss = Loss(levels.epsilon, levels.delta or ZERO, chance_beyond(levels.epsilon, spent))  # P(loss > epsilon)
    neighbour = _OTHER_VALUES.format(values) if spec.counts_are_public else "without it"
    sentences = (
        f"All figures of this release{_ABOUT_BY_UNIT[spec.account.unit]} together {_change(loss)} about {subject} by "
        f"{loss.factor_text()}; {hidden}.{loss.definition(neighbour)}{_of_spans(spec, bounds)}"
    )
    for several in costs_at_places(spec, bounds)[-1:]:  # the longest stay
        loss = several.loss.rounded_up()
        sentences += (
            f" The map of places adds days up: of a vehicle that is at one place every day, such as a van at its "
            f"depot, {several.days} days {_change(loss)} by {loss.factor_text()}."
        )
    if spec.region_tells:
        sentences += (
            " Not protected: the region itself, whose cells were taken from a sample of reports; that a vehicle drove "
            "in a cell at the time of the sample can be seen from it."
        )
    if spec.files_tell:
        sentences += (
            " Not protected: which input files there are; each is of one vehicle and named by it, so whether a release "
            "fails for want of a file, or names one, can show that a vehicle drove."
        )
    return sentences


def _change(loss: Loss) -> str:
    return "raise the odds of a true guess" if loss.delta else "change the odds of any guess"


def costs_at_places(spec: Specification, bounds: Sequence[SpanBound]) -> list[Cost]:
    """Computes the cost of staying at one place of a map on consecutive days.

    A tighter bound of an equally long or longer span caps it. Empty without places, and if a limit cannot add up a
    period's claim, as nothing is released then.
    """
    (period_claim, _epsilon_and_delta), capped = spec.least, list[Cost]()  # a release's total, of which a map is a part
    period = Accountant().compose([period_claim])
    if not any(part.adds_days_up for part in spec.parts) or not all(bound.limit.can_add(period) for bound in bounds):
        return capped
    for cost in costs(spec.account.unit, bounds[0].limit, {"": period}, STANDING_DAYS):  # "": any date; [0]: shortest
        # Bounds of spans at least as long cap the cost; one day's needs none, as no claim above a limit is released.
        tightest = min((bound.most for bound in bounds if bound.days >= cost.days > 1), default=None)
        capped.append(cost if tightest is None or tightest.epsilon >= cost.loss.epsilon else Cost(cost.days, tightest))
    return capped


def _of_spans(spec: Specification, bounds: Sequence[SpanBound]) -> str:
    """Describes the bounds of spans of several days, with a leading space; or empty."""
    guess, sentences = f"its {spec.value.plural} on them" if spec.counts_are_public else "them", ""
    for bound in bounds:
        if bound.days > 1:
            change = "raises the odds of a true guess" if bound.most.delta else "changes the odds of any guess"
            since = f"; about days that begin on {bound.since} or later, by {_most_loss(bound.limit).factor_text()}"
            sentences += (
                f" Everything that the account releases about any {bound.days} consecutive days of one vehicle "
                f"{change} about {guess} by {bound.most.factor_text()}, on however many of them it drove"
                f"{since if bound.since else ''}."
            )
    return sentences


def _most_loss(limit: Limit) -> Loss:
    """Computes the loss of an exhausted account, each day's mechanism chosen from earlier releases."""
    if not isinstance(limit, DeltaLimit):
        return Loss(limit.epsilon)
    return Loss(limit.epsilon, limit.delta, chance_beyond(limit.epsilon, limit.most, steered=True))


def _factor(epsilon: Fraction) -> str:
    """Writes e^epsilon to three digits, rounded up where large."""
    if epsilon > LARGEST_IN_DIGITS:
        return f"10^{math.ceil(epsilon / Fraction(math.log(10)))}"
    factor = math.exp(epsilon)
    if factor < 999.5:  # from here on three digits would be written with an exponent
        return f"{factor:.3g}"
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal(factor):,f}"


def costs(privacy_unit: str, limit: Limit, debits: Mapping[str, Accountant], days: Sequence[int]) -> list[Cost]:
    """Computes costs of consecutive days at the dearest period's debits, by kind of claim."""
    claims = reduce(Accountant.largest, debits.values(), Accountant()).claims()  # a list, which covers any one period
    by_days = []
    for number in days:
        # The most periods that the days touch, each of which spends all claims; weeks: if the first day is a Sunday.
        periods = {"vehicle-day": number, "vehicle-week": (number + 5) // 7 + 1, "vehicle-ever": 1}[privacy_unit]
        by_days.append(Cost(number, loss_of(Accountant().compose(claims * periods), limit)))
    return by_days


def note_spending(ledger: Ledger, spec: Specification, outcome: Outcome) -> None:
    """Records vehicles' spending if counts are public and this run completed a period alone."""
    if not spec.counts_are_public or not outcome.spent:
        return
    for period, new in outcome.new.items():
        # Else the run does not know what others' units cost a vehicle.
        if _units(ledger.spent(spec.account.name, period), spec) == new:
            spend = {name: str(value) for name, value in outcome.spent[period]._asdict().items()}
            ledger.note(spec.account.name, spec.spec_id, period, spend | {"units": str(new)})


def spending(ledger: Ledger, spec: Specification, period: str) -> tuple[Loss, Spend | None]:
    """Sums a period's debits; with vehicles' exact spending if recorded and still current."""
    limit, spent = ledger.limit(spec.account.name), ledger.spent(spec.account.name, period)
    debits = loss_of(sum((entry.debited for entry in spent), Accountant()), limit)
    noted = ledger.noted(spec.account.name, spec.spec_id, period)  # as `note_spending` wrote it
    if noted is None or noted.pop("units") != str(_units(spent, spec)):  # units recorded since are not in it
        return debits, None
    return debits, Spend(**{name: Fraction(value) for name, value in noted.items()})


def fits_again(ledger: Ledger, spec: Specification, bounds: Sequence[SpanBound]) -> str | None:
    """Finds the first day, after windows over a limit, whose least debit fits."""
    # A window of n days begins on the day before `since`, so it ends n - 2 days after `since`.
    ends = [date.fromisoformat(bound.since) + timedelta(days=bound.days - 2) for bound in bounds if bound.since]
    if not ends or spec.account.unit != "vehicle-day":
        return None
    # After as many days as the longest span has, no day lies in a window that is over a limit.
    days = [(max(ends) + timedelta(days=step)).isoformat() for step in range(1, bounds[-1].days + 1)]
    # The least debit of each day. `excess` tries the earliest first; a day that fits counts against later ones.
    least_claim, _ = spec.least
    debit = Debit(UnitKey(spec.spec_id, slot_s=0, shard=0), least_claim)  # any slot that is not recorded yet
    refused = ledger.excess(spec.account.name, spec.account.limit, {day: [debit] for day in days})
    return next((day for day in days if day not in refused), None)


def _units(spent: Sequence[Spent], spec: Specification) -> int | None:
    """Counts a period's recorded units; None if another specification has some."""
    if {entry.spec_id for entry in spent} - {spec.spec_id}:
        return None
    return sum(entry.units for entry in spent) * spec.privacy.release_shards  # a debit is for all of a slot's shards


class LedgerRecord(NamedTuple):
    """Verified ledger. newest: hash of the specification's newest release, audit events aside."""

    newest: str
    is_signed: bool
    signatures: str
    head: str


def verify_record(book: Ledger, spec: Specification) -> LedgerRecord:
    """Verifies the ledger and returns its record. Raises LedgerError if it is damaged."""
    verified = book.verify()
    periods = {spent.period for spent in book.spent(spec.account.name)}
    sequence = max((book.last_of(spec.spec_id, period) for period in periods), default=0)  # of the newest release
    newest_hash = book.hash_of(sequence).partition(".")[0] if sequence else ""  # without the signature after the dot
    is_signed = verified.checked == verified.entries  # each has a signature that was compared
    return LedgerRecord(newest_hash, is_signed, signatures=verified.describe(), head=book.describe_head())


class Gap(NamedTuple):
    """Due slot without a complete release, in ISO times."""

    period: str
    slot_start: str
    slot_end: str
    shards: tuple[int, ...]


def is_due(spec: Specification, slot_s: int, now_s: int) -> bool:
    """Checks whether a slot and its allowed lateness are over; in seconds since 1970."""
    return slot_s + spec.timetable.slot_s + spec.input.allowed_lateness_s <= now_s


def gaps(spec: Specification, calendar: Calendar, ledger: Ledger, now_s: int) -> list[Gap]:
    """Lists missing slots of a range that are due at `now_s`. Raises AccountRefusal."""
    if spec.is_learned:  # a whole period is one release without shards
        stages = ledger.stages(spec.account.name, spec.spec_id)
        recorded = {(slot.start_s, 0) for slot in calendar.slots if is_complete(stages, slot.period)}
    else:
        recorded = ledger.recorded_slots(spec.account.name, spec.spec_id, calendar.from_s, calendar.to_s)
    missing = []
    for slot in calendar.slots:
        lacking = tuple(shard for shard in range(spec.privacy.release_shards) if (slot.start_s, shard) not in recorded)
        if lacking and is_due(spec, slot.start_s, now_s):
            start, end = (spec.timetable.text(edge) for edge in (slot.start_s, slot.start_s + calendar.slot_s))
            missing.append(Gap(slot.period, start, end, lacking))
    return missing
