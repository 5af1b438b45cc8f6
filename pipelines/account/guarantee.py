"""The guarantee of a release: in one sentence that a newspaper could print, and translated from unit to unit."""

import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dpops.accountant import Accountant, DeltaLimit, Limit, Span
from dpops.claims import ZERO, ApproxDP, Claim
from dpops.loss import chance_beyond
from pipelines.account.cost import Cost, costs
from pipelines.kinds import of_kind

if TYPE_CHECKING:
    from pipelines.specification import AccountTerms, Specification
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
_OTHER_SPEEDS = "with any other speeds of it"


class Loss(NamedTuple):
    """What somebody may learn of a vehicle and period. epsilon, delta: the guarantee, by its definition.

    chance: that the noise nevertheless raises the odds of a true guess by more than e^epsilon, as `chance_beyond` says.
    """

    epsilon: Fraction = ZERO
    delta: Fraction = ZERO
    chance: float = 0.0

    def most(self) -> str:
        """Writes the bound as people read it."""
        warning = ", which is little protection" if self.epsilon > LITTLE_PROTECTION else ""
        but = f", but for a chance of {said(self.chance)} under the noise that is drawn" if self.delta else ""
        return f"at most a factor of {_factor(self.epsilon)} (epsilon {float(self.epsilon):g}{warning}){but}"

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


def loss_of(spent: Accountant, limit: Limit) -> Loss:
    """Tells the loss of what a period spent, in the limit's terms. Raises ClaimError where these cannot say it."""
    shown = limit.shown(spent)
    return Loss(shown.epsilon, shown.delta, chance_beyond(shown.epsilon, spent))


def sentence(spec: "Specification", hat: Fraction, spent: Loss) -> str:
    """Says what a release promises a vehicle.

    hat: the largest epsilon of a HAT in the release. spent: bounds what a vehicle spent in any period of it. Where the
    specification gives one total, that alone is said.
    """
    said_of_kind: str = of_kind(spec, "promise")(spec, hat, spent)
    return said_of_kind


def hats_sentence(spec: "Specification", hat: Fraction, spent: Loss) -> str:
    """Says the promise of a release that gives each HAT an epsilon."""
    total = spec.privacy.allocation.total
    period = spent if total is None or spent.epsilon >= total else Loss(total)
    changes = "raises those of a true one by" if period.delta else "changes them by"
    return (
        f"No single figure of this release changes the odds of any guess about the speeds of one vehicle by more than "
        f"a factor of {_factor(hat)} (epsilon {float(hat):g}); somebody who combines all figures that the account has "
        f"released{_SPAN[spec.account.unit]} {changes} {period.most()}; "
        f"that a vehicle drove, when and where is treated as public.{period.definition(_OTHER_SPEEDS)}"
        + spans_sentence(spec.account)
    )


def levels_sentence(spec: "Specification", *_: object) -> str:
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
        + spans_sentence(spec.account)
        + _of_places(spec, levels)
        + _of_region(spec)
    )


def _of_places(spec: "Specification", levels: "LevelsRelease") -> str:
    """Tells what a map that fills day by day adds up to, of somebody who always is at one place of it."""
    if levels.places is None:
        return ""
    of_days = standing_costs(spec.account, spec.account.limit, levels.claim)
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


def costs_at_places(spec: "Specification", limit: Limit) -> list[Cost]:
    """Tells the costs, by `standing_costs`, of the specification's own total; none where it has no places."""
    return [] if spec.places is None else standing_costs(spec.account, limit, spec.by_levels.claim)


def standing_costs(account: "AccountTerms", limit: Limit, claim: Claim) -> list[Cost]:
    """Adds up what a map of places tells of somebody at one every day: all that so many days in a row may spend.

    claim: of one period of the release. A span of so many days or more whose limit is smaller bounds it. None where the
    limit adds up no such claim: then nothing is released.
    """
    whole = Accountant().compose([claim])
    if not limit.adds_up(whole):
        return []
    return [_bounded(cost, limit) for cost in costs(account.unit, limit, {"": whole}, STANDING_DAYS)]


def _bounded(cost: Cost, limit: Limit) -> Cost:
    spans = [span.limit for span in limit.spans if span.days >= cost.days > 1]
    least = min(spans, key=lambda of_span: of_span.epsilon, default=None)
    if least is None or least.epsilon >= cost.total.epsilon:
        return cost
    loss = _most_loss(least)
    return Cost(cost.days, ApproxDP(loss.epsilon, loss.delta), loss.chance)


def spans_sentence(account: "AccountTerms") -> str:
    """Tells what the account's limits promise for spans of several days, after a space; nothing where it has none."""
    return "".join(_of_span(span) for span in account.limit.spans if span.days > 1)


def _of_span(span: Span) -> str:
    loss = _most_loss(span.limit)
    change = "raises the odds of a true guess" if loss.delta else "changes the odds of any guess"
    return (
        f" Everything that the account releases about any {span.days} consecutive days of one vehicle {change} about "
        f"them by {loss.most()}, on however many of them it drove."
    )


def _most_loss(limit: Limit) -> Loss:
    """Tells the loss of an account that spends all that the limit allows, each day around what earlier days gave."""
    if not isinstance(limit, DeltaLimit):
        return Loss(limit.epsilon)
    return Loss(limit.epsilon, limit.delta, chance_beyond(limit.epsilon, limit.most, steered=True))


def said(chance: float) -> str:
    """Writes a chance with two digits, rounded up."""
    return f"{float(Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(chance)):g}"


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{float(epsilon):g}"
