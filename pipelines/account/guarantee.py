"""The guarantee of a release: in one sentence that a newspaper could print, and translated from unit to unit."""

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from dpops.accountant import Accountant, DeltaLimit, Limit, Span
from dpops.claims import ZERO, ApproxDP, Claim
from dpops.loss import chance_beyond
from pipelines.account.cost import Cost, costs, said
from pipelines.kinds import of_kind
from transforms.ledger import Ledger
from transforms.ledger.spending import windows

if TYPE_CHECKING:
    from pipelines.specification import Specification
    from pipelines.specification.levels import LevelsRelease

LITTLE_PROTECTION = 10
"""An epsilon above which the sentence says what the number means."""

NOT_PROTECTED = (
    "Not protected under counts-public: that a vehicle reported, when, where, how often, and whether a report carried "
    "a speed. Only the speeds are."
)


STANDING_DAYS = (1, 28)
"""Of somebody who is at one place of a map every day."""

_SPAN = {"vehicle-day": " about one day", "vehicle-week": " about one week", "vehicle-ever": ""}
_OF_RELEASE = {unit: f"{about} of this release" if about else "" for unit, about in _SPAN.items()}
_OTHER_SPEEDS = "with any other speeds of it"


class Loss(NamedTuple):
    """What somebody may learn of a vehicle and period. epsilon, delta: the guarantee, by its definition.

    chance: that the noise nevertheless raises the odds of a true guess by more than e^epsilon, as `chance_beyond` says.
    """

    epsilon: Fraction = ZERO
    delta: Fraction = ZERO
    chance: float = 0.0

    @property
    def chance_said(self) -> str:
        return said(self.chance)

    def most(self) -> str:
        """Writes the bound as people read it."""
        warning = ", which is little protection" if self.epsilon > LITTLE_PROTECTION else ""
        but = f", but for a chance of {said(self.chance)} under the noise that is drawn" if self.delta else ""
        return f"at most a factor of {_factor(self.epsilon)} (epsilon {float(self.epsilon):g}{warning}){but}"

    def covering(self, other: "Loss") -> "Loss":
        """Takes the larger of both, part by part: it holds of whatever either holds of."""
        return Loss(max(self.epsilon, other.epsilon), max(self.delta, other.delta), max(self.chance, other.chance))

    def definition(self, other: str) -> str:
        """Says the definition in a further sentence where there is a delta. other: the inputs that are compared, in
        words."""
        if not self.delta:
            return ""
        delta = f"{float(self.delta):g}"
        return (
            f" By definition (epsilon {float(self.epsilon):g}, delta {delta}), any set of such figures is at most "
            f"{_factor(self.epsilon)} times as likely with the vehicle as {other}, plus {delta}, and vice versa."
        )


def loss_of(spent: Accountant, limit: Limit, *, steered: bool = False) -> Loss:
    """Tells the loss of what was spent, in the limit's terms. steered: see `chance_beyond`.

    Raises:
        ClaimError: the limit's terms cannot say it.
    """
    shown = limit.shown(spent)
    return Loss(shown.epsilon, shown.delta, chance_beyond(shown.epsilon, spent, steered=steered))


class SpanBound(NamedTuple):
    """Bounds what a vehicle loses in any so many consecutive periods of an account, whatever its specifications say.

    limit: the account's, in force now. most: the larger of the limit and of what any window spent. over: windows that
    spent more than the limit, before it was set, by their first period. since: windows from this date on are within the
    limit; empty where all are, and where the period never ends.
    """

    days: int
    limit: Limit
    most: Loss
    over: Mapping[str, Loss]
    since: str


def span_bounds(limit: Limit, by_period: Mapping[str, Accountant]) -> tuple[SpanBound, ...]:
    """Bounds every span of an account, shortest first. limit: in force. by_period: all that was debited, sorted."""
    return tuple(_span_bound(span, limit, by_period) for span in limit.spans)


def bounds_of_account(book: Ledger, account: str) -> tuple[SpanBound, ...]:
    """Bounds every span of an account by its ledger. Raises LedgerError and AccountRefusal."""
    return span_bounds(book.limit(account), book.debited(account))


def _span_bound(span: Span, limit: Limit, by_period: Mapping[str, Accountant]) -> SpanBound:
    sums = windows(by_period, span.days)
    fits = {spent: span.limit.fits(spent) for spent in {*sums.values()}}
    over = {first: _spent_in(span, spent, limit) for first, spent in sums.items() if not fits[spent]}
    most = reduce(Loss.covering, over.values(), _most_loss(span.limit))
    is_dated = over and max(over) != "ever"
    since = (date.fromisoformat(max(over)) + timedelta(days=1)).isoformat() if is_dated else ""
    return SpanBound(span.days, span.limit, most, over, since)


def _spent_in(span: Span, spent: Accountant, limit: Limit) -> Loss:
    """Tells the loss of one window in its span's terms, else in those of the account's limit, rounded up."""
    loss = loss_of(spent, span.limit if span.limit.adds_up(spent) else limit, steered=span.days > 1)
    return loss._replace(epsilon=Fraction(math.ceil(100 * loss.epsilon), 100))


def sentence(spec: "Specification", bounds: Sequence[SpanBound], hat: Fraction, spent: Loss) -> str:
    """Says what a release promises a vehicle.

    bounds: of the account. hat: the largest epsilon of a HAT in the release. spent: bounds what a vehicle spent in any
    period of it. Where the specification gives one total, that alone is said.
    """
    said_of_kind: str = of_kind(spec, "promise")(spec, bounds, hat, spent)
    return said_of_kind


def hats_sentence(spec: "Specification", bounds: Sequence[SpanBound], hat: Fraction, spent: Loss) -> str:
    """Says the promise of a release that gives each HAT an epsilon."""
    total = spec.privacy.allocation.total
    period = spent if total is None or spent.epsilon >= total else Loss(total)
    changes = "raises those of a true one by" if period.delta else "changes them by"
    return (
        f"No single figure of this release changes the odds of any guess about the speeds of one vehicle by more than "
        f"a factor of {_factor(hat)} (epsilon {float(hat):g}); somebody who combines all figures that the account has "
        f"released{_OF_RELEASE[spec.account.unit]} {changes} {period.most()}; "
        f"that a vehicle drove, when and where is treated as public.{period.definition(_OTHER_SPEEDS)}"
        + _of_spans(spec, bounds)
    )


def levels_sentence(spec: "Specification", bounds: Sequence[SpanBound], *_: object) -> str:
    """Says the promise of a release that gives a vehicle and period one total."""
    levels = spec.by_levels
    what = "the speeds of one vehicle" if spec.counts_are_public else "one vehicle"
    hidden = (
        "that a vehicle drove, when and where is treated as public"
        if spec.counts_are_public
        else "that it drove at all, when, where and how fast included"
    )
    spent = Accountant().compose([levels.claim])
    loss = Loss(levels.epsilon, levels.delta or ZERO, chance_beyond(levels.epsilon, spent))
    change = "raise the odds of a true guess" if loss.delta else "change the odds of any guess"
    return (
        f"All figures of this release{_SPAN[spec.account.unit]} together {change} about {what} by {loss.most()}; "
        f"{hidden}.{loss.definition(_OTHER_SPEEDS if spec.counts_are_public else 'without it')}"
        + _of_spans(spec, bounds)
        + _of_places(spec, bounds, levels)
        + _of_region(spec)
        + _of_files(spec)
    )


def _of_places(spec: "Specification", bounds: Sequence[SpanBound], levels: "LevelsRelease") -> str:
    """Tells what a map that fills day by day adds up to, of somebody who always is at one place of it."""
    if levels.places is None:
        return ""
    of_days = standing_costs(spec.account.unit, bounds, levels.claim)
    if not of_days:
        return ""
    several = of_days[-1]
    epsilon = Fraction(math.ceil(100 * several.total.epsilon), 100)
    loss = Loss(epsilon, several.total.delta, several.chance)
    change = "raise the odds of a true guess" if loss.delta else "change the odds of any guess"
    return (
        f" The map of places adds days up: of a vehicle that is at one place every day, such as a van at its depot, "
        f"{several.days} days {change} by {loss.most()}."
    )


def _of_region(spec: "Specification") -> str:
    """Tells what is not hidden where the region, which is published, was made from reports."""
    if not spec.region_tells:
        return ""
    return (
        " Not protected: the region itself, whose cells were taken from a sample of reports; that a vehicle drove in a "
        "cell at the time of the sample can be seen from it."
    )


def _of_files(spec: "Specification") -> str:
    """Tells what is not hidden where each input file, whose name is public, is of one vehicle."""
    if not spec.files_tell:
        return ""
    return (
        " Not protected: which input files there are; each is of one vehicle and named by it, so whether a release "
        "fails for want of a file, or names one, can show that a vehicle drove."
    )


def costs_at_places(spec: "Specification", bounds: Sequence[SpanBound]) -> list[Cost]:
    """Tells the costs, by `standing_costs`, of the specification's own total; none where it has no places."""
    return [] if spec.places is None else standing_costs(spec.account.unit, bounds, spec.by_levels.claim)


def standing_costs(unit: str, bounds: Sequence[SpanBound], claim: Claim) -> list[Cost]:
    """Adds up what a map of places tells of somebody at one every day: all that so many days in a row may spend.

    bounds: of the account. claim: of one period of the release. A span of so many days or more that is bounded by less
    bounds it. None where a limit adds up no such claim: then nothing is released.
    """
    whole = Accountant().compose([claim])
    if not all(bound.limit.adds_up(whole) for bound in bounds):
        return []
    return [_bounded(cost, bounds) for cost in costs(unit, bounds[0].limit, {"": whole}, STANDING_DAYS)]


def _bounded(cost: Cost, bounds: Sequence[SpanBound]) -> Cost:
    least = min((bound.most for bound in bounds if bound.days >= cost.days > 1), default=None)
    if least is None or least.epsilon >= cost.total.epsilon:
        return cost
    return Cost(cost.days, ApproxDP(least.epsilon, least.delta), least.chance)


def _of_spans(spec: "Specification", bounds: Sequence[SpanBound]) -> str:
    """Tells what bounds spans of several days, after a space; nothing where there are none."""
    guess = "its speeds on them" if spec.counts_are_public else "them"
    return "".join(_of_span(bound, guess) for bound in bounds if bound.days > 1)


def _of_span(bound: SpanBound, guess: str) -> str:
    change = "raises the odds of a true guess" if bound.most.delta else "changes the odds of any guess"
    since = (
        f"; about days that begin on {bound.since} or later, by {_most_loss(bound.limit).most()}" if bound.since else ""
    )
    return (
        f" Everything that the account releases about any {bound.days} consecutive days of one vehicle {change} about "
        f"{guess} by {bound.most.most()}, on however many of them it drove{since}."
    )


def _most_loss(limit: Limit) -> Loss:
    """Tells the loss of an account that spends all that the limit allows, each day around what earlier days gave."""
    if not isinstance(limit, DeltaLimit):
        return Loss(limit.epsilon)
    return Loss(limit.epsilon, limit.delta, chance_beyond(limit.epsilon, limit.most, steered=True))


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{float(epsilon):g}"
