"""Sums of draws' claims, checked against an account's limit.

`spent` sums claims by kind. Noise is the sum of rho: of zero-concentrated and Gaussian claims, and of pure ones where
no part is reserved for them. NOISE_CLAIMS has the kind of claim in which an accounting adds noise up: `within` makes
the largest claim that costs (epsilon, delta), `approx` converts one at a delta.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from dpops.claims import NOISE_CLAIMS, ZCDP, ZERO, Accounting, ApproxDP, Claim, ClaimError, GaussianDP, PureDP

_SHOWN_DENOMINATOR = 10**9  # epsilons are shown as multiples of a billionth, rounded up


class Accountant(NamedTuple):
    """Exact sums of claims by kind; accountants add up.

    pure: sum of epsilons of pure claims. rho: of zero-concentrated, not Gaussian ones. epsilon, delta: of approximate
    ones. gaussian: sum of rho of Gaussian ones.

    >>> Accountant().compose([PureDP(Fraction(1, 2)), PureDP(Fraction(1, 3))]).claims()
    [PureDP(epsilon=Fraction(5, 6))]
    """

    pure: Fraction = ZERO
    rho: Fraction = ZERO
    epsilon: Fraction = ZERO
    delta: Fraction = ZERO
    gaussian: Fraction = ZERO

    def compose(self, claims: Iterable[Claim]) -> "Accountant":
        """Adds claims by kind: sequential composition, adaptive as well."""
        pure, rho, epsilon, delta, gaussian = self
        for claim in claims:
            match claim:
                case PureDP():
                    pure += claim.epsilon
                case GaussianDP():
                    gaussian += claim.rho
                case ZCDP():
                    rho += claim.rho
                case ApproxDP():
                    epsilon, delta = epsilon + claim.epsilon, delta + claim.delta
        return Accountant(pure, rho, epsilon, delta, gaussian)

    @property
    def concentrated(self) -> Fraction:
        """The sum of rho, of Gaussian claims too."""
        return self.rho + self.gaussian

    def claims(self) -> list[Claim]:
        """Lists sums above 0 as claims, one per kind."""
        claims: list[Claim] = [PureDP(self.pure)] if self.pure else []
        claims += [ZCDP(self.rho)] if self.rho else []
        claims += [GaussianDP(self.gaussian)] if self.gaussian else []
        return claims + ([ApproxDP(self.epsilon, self.delta)] if self.epsilon or self.delta else [])

    def __add__(self, account: "Accountant") -> "Accountant":  # type: ignore[override]  # sums, no longer tuple
        return self.compose(account.claims())

    def largest(self, account: "Accountant") -> "Accountant":
        """Computes the maximum by kind, which covers both accountants."""
        return Accountant(*map(max, self, account))

    def covers(self, account: "Accountant") -> bool:
        """Checks that each sum is at least `account`'s."""
        return all(ours >= theirs for ours, theirs in zip(self, account, strict=True))


def most_of(groups: Mapping[Accountant, int], group_limit: int) -> Accountant:
    """Bounds a vehicle's claims over at most `group_limit` groups.

    groups: numbers of groups (such as HATs) by cost of one. A bound: each kind of claim has its own costliest groups.
    """
    totals = []
    for costs in zip(*groups, strict=True):  # of one kind, by group
        total, remaining = ZERO, group_limit
        for cost, number in sorted(zip(costs, groups.values(), strict=True), reverse=True):
            group_count = min(number, remaining)
            total, remaining = total + group_count * cost, remaining - group_count
        totals.append(total)
    return Accountant(*totals)


def sums_over(days: Sequence[Accountant], length: int) -> list[Accountant]:
    """Sums claims over each window of `length` consecutive days, by differences of running sums."""
    columns = [list(accumulate(column, initial=ZERO)) for column in zip(*days, strict=True)]
    windows = range(len(days) - length + 1)
    return [Accountant(*(sums[first + length] - sums[first] for sums in columns)) for first in windows]


class Limit(ABC):
    """Limit of a vehicle's spending per account and period.

    >>> PureLimit(Fraction(3)).fits(Accountant(pure=Fraction(4)))
    False
    """

    __slots__ = ()

    epsilon: Fraction

    @property
    def spans(self) -> "tuple[Span, ...]":
        """Limits by span of periods, shortest first; by default one period."""
        return (Span(days=1, limit=self),)

    @abstractmethod
    def describe(self) -> str:
        """Writes the limit for people."""

    def describe_fully(self) -> str:
        """Writes the limit for people, with any gdp accounting."""
        in_mu = any(isinstance(span.limit, DeltaLimit) and span.limit.accounting == "gdp" for span in self.spans)
        return self.describe() + (", accounting gdp" if in_mu else "")

    @abstractmethod
    def fits(self, spent: Accountant) -> bool:
        """Checks spending against the limit."""

    @abstractmethod
    def can_add(self, spent: Accountant) -> bool:
        """Checks that the limit can add up claims of all the spent kinds."""

    @abstractmethod
    def fraction(self, spent: Accountant) -> float:
        """Computes the spent fraction; 1 where the limit's exceeded."""

    @abstractmethod
    def shown(self, spent: Accountant) -> ApproxDP:
        """Converts spending to epsilon and delta, rounded up. Raises ClaimError."""

    def text(self, spent: Accountant) -> str:
        """Writes spending for people, as epsilon or as claims."""
        try:
            return self.shown(spent).describe()
        except ClaimError:  # these claims do not add up to one epsilon under this limit
            return " and ".join(map(str, spent.claims()))

    @abstractmethod
    def lowers(self, limit: "Limit") -> bool:
        """Checks that this limit is no looser than `limit`."""


@dataclass(frozen=True, slots=True)
class PureLimit(Limit):
    """Limit of epsilon, which only pure claims can fit.

    >>> PureLimit(Fraction(3)).fits(Accountant(pure=Fraction(3)))
    True
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        _above_zero("epsilon", self.epsilon)

    def __str__(self) -> str:
        return str(self.epsilon)

    def describe(self) -> str:
        """Formats the limit for messages."""
        return f"{float(self.epsilon):g}"

    def fits(self, spent: Accountant) -> bool:
        """Checks pure claims against the limit."""
        return self.can_add(spent) and spent.pure <= self.epsilon

    def can_add(self, spent: Accountant) -> bool:
        """Checks that all claims are pure."""
        return not (spent.concentrated or spent.epsilon or spent.delta)

    def fraction(self, spent: Accountant) -> float:
        """Computes the spent fraction, 1 if over."""
        return float(spent.pure / self.epsilon) if self.fits(spent) else 1.0

    def shown(self, spent: Accountant) -> ApproxDP:
        """Converts spending to approximate DP. Raises ClaimError if impure."""
        if not self.can_add(spent):  # it has claims besides pure ones
            raise ClaimError("the account's limit names no delta: only pure epsilon can be spent on it")
        return ApproxDP(spent.pure, ZERO)

    def lowers(self, limit: "Limit") -> bool:
        """Checks that the limit is no higher than another."""
        return isinstance(limit, PureLimit) and self.epsilon <= limit.epsilon


@dataclass(frozen=True, slots=True)
class DeltaLimit(Limit):
    """Limit of (epsilon, delta), kept in rho or mu^2.

    pure: the part of epsilon that is reserved for pure claims; None: they count epsilon^2 / 2 in rho. accounting: with
    "gdp" all others must be Gaussian claims, kept in mu^2. Both are fixed beforehand: a choice between two sums that is
    made after some results would need a proof. `can_add` refuses other kinds. `_noise`: all in rho; mu^2 is 2 rho.

    >>> limit = DeltaLimit(Fraction(264, 100), Fraction(1, 10**6))
    >>> limit.fits(Accountant(rho=Fraction(12, 100))), limit.fits(Accountant(rho=Fraction(15, 100)))
    (True, False)
    >>> DeltaLimit(limit.epsilon, limit.delta, accounting="gdp").fits(Accountant(gaussian=Fraction(15, 100)))
    True
    """

    epsilon: Fraction
    delta: Fraction
    pure: Fraction | None = None
    accounting: Accounting = "zcdp"

    def __post_init__(self) -> None:
        _above_zero("epsilon", self.epsilon)
        if not 0 < self.delta < 1:
            raise ClaimError(f"delta must be above 0 and below 1, got {self.delta}")
        if self.pure is not None and not 0 <= self.pure < self.epsilon:
            raise ClaimError(f"pure must be at least 0 and below epsilon = {self.epsilon}, got {self.pure}")

    def __str__(self) -> str:
        pure = "" if self.pure is None else f",pure={self.pure}"
        accounting = "" if self.accounting == "zcdp" else f",accounting={self.accounting}"
        return f"epsilon={self.epsilon},delta={self.delta}{pure}{accounting}"

    def describe(self) -> str:
        """Formats the limit for messages."""
        pure_text = "" if self.pure is None else f", {float(self.pure):g} of it for pure claims"
        return f"{float(self.epsilon):g} at delta {float(self.delta):g}{pure_text}"

    @property
    def most(self) -> Accountant:
        """Largest spending that fits, in pure claims and noise."""
        pure = self.pure or ZERO
        noise = NOISE_CLAIMS[self.accounting].within(self.epsilon - pure, self.delta)  # claim of the largest rho
        return Accountant(pure=pure).compose([noise])

    def fits(self, spent: Accountant) -> bool:
        """Checks spending against epsilon, delta and the pure part."""
        pure = self.pure or ZERO
        if not self.can_add(spent) or spent.delta > self.delta or (self.pure is not None and spent.pure > pure):
            return False
        noise, epsilon = self._noise(spent), self.epsilon - pure - spent.epsilon  # epsilon: what noise may take
        if noise.rho == 0:  # nothing to convert, which would take a delta above 0
            return epsilon >= 0
        return spent.delta < self.delta and noise.rho <= noise.within(epsilon, self.delta - spent.delta).rho

    def fraction(self, spent: Accountant) -> float:
        """Computes the largest spent fraction of any kind of claim; 1 beyond the limit."""
        if not self.fits(spent):
            return 1.0
        pure, noise = self.pure or ZERO, self._noise(spent)
        epsilon = self.epsilon - pure
        fractions = [spent.epsilon / epsilon, spent.delta / self.delta, spent.pure / pure if pure else ZERO]
        if noise.rho:  # of the largest rho beside what approximate claims spent
            fractions.append(noise.rho / noise.within(epsilon - spent.epsilon, self.delta - spent.delta).rho)
        return float(max(fractions))

    def shown(self, spent: Accountant) -> ApproxDP:
        """Converts spending at the limit's delta; epsilon rounds up."""
        if not self.can_add(spent):
            raise ClaimError("the account adds up Gaussian claims alone, and pure ones in what is set apart for them")
        pure = ZERO if self.pure is None else spent.pure
        noise = self._noise(spent)
        if noise.rho == 0:  # neither noise nor pure claims that are counted as such
            return ApproxDP(pure + spent.epsilon, spent.delta)  # spent.epsilon: of approximate claims
        epsilon = pure + spent.epsilon + noise.approx(self.delta - spent.delta).epsilon
        rounded = Fraction(math.ceil(epsilon * _SHOWN_DENOMINATOR), _SHOWN_DENOMINATOR)
        # What fits is not shown above the limit.
        return ApproxDP(min(rounded, self.epsilon) if epsilon <= self.epsilon else rounded, self.delta)

    def lowers(self, limit: "Limit") -> bool:
        """Checks that the limit is no higher than another of its kind and accounting."""
        if not isinstance(limit, DeltaLimit) or (self.pure, self.accounting) != (limit.pure, limit.accounting):
            return False  # such limits sum claims in different ways, so that neither bounds the other
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta

    def can_add(self, spent: Accountant) -> bool:
        """Checks that the limit's accounting covers all claims."""
        others = spent.rho or spent.epsilon or spent.delta or (spent.pure and self.pure is None)
        return self.accounting == "zcdp" or not others

    def _noise(self, spent: Accountant) -> ZCDP:
        """Sums rho of noise, and of pure claims without a part reserved for them."""
        pure = PureDP(spent.pure).zcdp().rho if self.pure is None else ZERO
        return NOISE_CLAIMS[self.accounting](spent.concentrated + pure)


class Span(NamedTuple):
    """Limit of spending in any `days` consecutive local days."""

    days: int
    limit: Limit

    def describe(self) -> str:
        """Writes the limit for people."""
        return f"{self.limit.describe()} in {'a day' if self.days == 1 else f'any {self.days} days'}"


@dataclass(frozen=True, slots=True)
class SpanLimits(Limit):
    """Simultaneous limits over windows of consecutive days.

    Composition is adaptive: a day's release is a function of its reports and of earlier releases, so the sum over a
    window bounds the change by all that one vehicle did in it.
    """

    by_days: tuple[Span, ...]

    def __post_init__(self) -> None:
        days = [span.days for span in self.by_days]
        if not days or days[0] < 1 or days != sorted({*days}):
            raise ClaimError("spans are numbers of days, each named once, shortest first")
        if any(isinstance(span.limit, SpanLimits) for span in self.by_days):
            raise ClaimError("a span has one limit")

    @property
    def spans(self) -> tuple[Span, ...]:
        """Limits by length of span."""
        return self.by_days

    @property
    def epsilon(self) -> Fraction:  # type: ignore[override]  # of a day: of the shortest span that a day is in
        """Epsilon of the shortest span."""
        return self.by_days[0].limit.epsilon

    def __str__(self) -> str:
        return ";".join(f"days={span.days}:{span.limit}" for span in self.by_days)

    def describe(self) -> str:
        """Formats all spans' limits for messages."""
        return ", ".join(span.describe() for span in self.by_days)

    def fits(self, spent: Accountant) -> bool:
        """Checks one day's spending, which counts in every span."""
        return all(span.limit.fits(spent) for span in self.by_days)

    def can_add(self, spent: Accountant) -> bool:
        """Checks that every span can account for the claims."""
        return all(span.limit.can_add(spent) for span in self.by_days)

    def fraction(self, spent: Accountant) -> float:
        """Computes the largest spent fraction of the spans."""
        return max(span.limit.fraction(spent) for span in self.by_days)

    def shown(self, spent: Accountant) -> ApproxDP:
        """Converts spending by the shortest span that supports it."""
        able = (span.limit for span in self.by_days if span.limit.can_add(spent))
        return next(able, self.by_days[0].limit).shown(spent)

    def lowers(self, limit: Limit) -> bool:
        """Checks that no span's limit is raised or dropped."""
        limits = {span.days: span.limit for span in self.by_days}
        return all(span.days in limits and limits[span.days].lowers(span.limit) for span in limit.spans)


def limit_of(text: str) -> Limit:
    """Reads a limit or a bare epsilon. Raises ClaimError, ValueError or ArithmeticError.

    >>> limit_of("days=1:epsilon=66/25,delta=1/1000000;days=28:epsilon=10,delta=1/1000000").describe()
    '2.64 at delta 1e-06 in a day, 10 at delta 1e-06 in any 28 days'
    """
    if text.startswith("days="):
        spans = (field.removeprefix("days=").partition(":") for field in text.split(";"))
        return SpanLimits(tuple(Span(int(days), limit_of(limit)) for days, _, limit in spans))
    if "=" not in text:
        return PureLimit(Fraction(text))
    fields = {name: value for name, _, value in (field.partition("=") for field in text.split(","))}
    by_name: dict[str, Accounting] = {name: name for name in NOISE_CLAIMS}  # so that its type is checked
    accounting = by_name.get(fields.pop("accounting", "zcdp"))
    if not {"epsilon", "delta"} <= fields.keys() <= {"epsilon", "delta", "pure"} or accounting is None:
        raise ClaimError(f"a limit has an epsilon, and may have delta, pure and accounting; it has {', '.join(fields)}")
    values = {name: Fraction(value) for name, value in fields.items()}
    return DeltaLimit(values["epsilon"], values["delta"], values.get("pure"), accounting)


def _above_zero(name: str, value: Fraction) -> None:
    if value <= 0:
        raise ClaimError(f"{name} must be above 0, got {value}")
