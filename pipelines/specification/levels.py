"""Options of a `levels` release with their defaults, and totals of spans of days.

A recipe has the stages of an account's first and later days; a strategy is the recipe, or the variant of least expected
error where options are left free. `bounds`: a day's public HATs and the fleet. `rho`: the total in the measure of
Gaussian noise. A vehicle-day's weights are divided by its norm, or by the least norm where that is larger.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import msgspec

from dpops.claims import NOISE_CLAIMS, ZCDP, Accounting, PureDP
from dpops.levels.bounded import ReleasedStage
from dpops.levels.defaults import BoundsOnly, Fleet, Profile, Recipe, recipe, with_least_norm
from dpops.levels.parts import count_stage, counts_stage, is_too_many, live_stage
from dpops.levels.stages import LEVELS, Kind, Shares, Stage, alike, claim_of_vector, scaled
from dpops.levels.strategy import Free, chosen
from pipelines.specification import tables
from pipelines.specification.document import Document
from pipelines.specification.parts import PartRequest, PlacesRequest
from transforms.errors import did_you_mean
from transforms.places.ground import hats_of
from transforms.releases import DayShare, DayShares
from transforms.releases.periods.products import Product
from transforms.releases.periods.stages import LevelsPolicy
from transforms.time.calendar import WEEKDAYS, FirstDays, Timetable, Weekday
from transforms.time.trips import Trips
from transforms.value import Value

ONE = Fraction(1)


@dataclass(frozen=True)
class SpanTotal:
    """Total of any `days` consecutive days; delta None for pure privacy.

    share_sum: largest sum of a span's relative shares: a day of share s has s / share_sum of the total. shares: of
    weekdays from Monday, relative to the largest of any day; empty if uniform. first: the account's first days.
    ordinary: largest relative share of any later day.
    """

    days: int
    share_sum: Fraction
    epsilon: Fraction
    delta: Fraction | None
    shares: tuple[Fraction, ...] = ()
    first: FirstDays | None = None
    ordinary: Fraction = ONE
    accounting: Accounting = "zcdp"

    @classmethod
    def of(
        cls,
        days: int,
        timetable: Timetable,
        weights: Mapping[Weekday, Fraction],
        total: tuple[Fraction, Fraction | None],
        first: FirstDays | None = None,
        accounting: Accounting = "zcdp",
    ) -> "SpanTotal":
        """Divides a span's total, epsilon and delta. weights: of weekdays, 1 if absent."""
        weights = {weekday: weights.get(weekday, ONE) for weekday in WEEKDAYS}
        heaviest_later = largest = max(weights[weekday] for weekday in timetable.weekdays)  # single days' weights
        if first is not None:
            first_weekdays = first.weekdays.intersection(timetable.weekdays)  # weights there are multiplied by `times`
            largest = max(heaviest_later, *(first.times * weights[weekday] for weekday in first_weekdays))
        shares = {weekday: weight / largest for weekday, weight in weights.items()}  # relative to the largest day's
        is_uniform = first is None and all(shares[weekday] == 1 for weekday in timetable.weekdays)
        week = () if is_uniform else tuple(shares.values())
        share_sum, ordinary = timetable.heaviest(days, shares, first), heaviest_later / largest  # heaviest: largest sum
        return cls(days, share_sum, *total, shares=week, first=first, ordinary=ordinary, accounting=accounting)

    def of_a_day(self, share: Fraction = ONE) -> tuple[Fraction, Fraction | None]:
        """Computes a day's epsilon, and with delta its rho; epsilon then rounded up.

        share: relative to the largest share; a day with all of the span's total (share_sum) has its exact epsilon.
        """
        if self.delta is None:
            return share * self.epsilon / self.share_sum, None
        claim = NOISE_CLAIMS[self.accounting].within(self.epsilon, self.delta).times(share / self.share_sum)
        return self.epsilon if share == self.share_sum else claim.approx(self.delta).epsilon, claim.rho

    @property
    def least(self) -> Fraction:
        """A day's smallest share, relative to the largest."""
        return min(self.shares, default=ONE) * (ONE if self.first is None else min(self.first.times, ONE))

    @property
    def by_day(self) -> DayShares | None:
        """Shares and epsilon of each day; None if all are equal."""
        if not self.shares:
            return None
        early = () if self.first is None else tuple(self.first.times * share for share in self.shares)  # of first days
        lasting, first = ([DayShare(share, self.of_a_day(share)[0]) for share in week] for week in (self.shares, early))
        return DayShares(lasting, first, first_days=self.first)


@dataclass(frozen=True, kw_only=True)
class LevelsRelease:
    """Checked `levels` statistic.

    recipe: stages as written, with defaults, for the spec_id. strategy: as released. free: what a strategy may choose.
    exponent: of reports in a vehicle's weight. epsilon, delta: total per vehicle and period. span: days whose total
    this is a share of. live: stage of a stream. day_lateness_s: delay after which a stream releases a whole period;
    None: a scheduled job does. products: beside HATs. parts: beside means, with shares of the total. counted: replaces
    the mean. trips: public; no part of the recipe. bounds: public HATs and fleet, of which plans are made.
    """

    epsilon: Fraction
    delta: Fraction | None
    recipe: Recipe
    strategy: Recipe
    free: Free
    exponent: Fraction
    bounds: BoundsOnly
    fleet_is_declared: bool
    counts_public: bool
    live: Stage | None = None
    day_lateness_s: int | None = None
    products: tuple[Product, ...] = ()
    span: SpanTotal | None = None
    parts: tuple[PartRequest, ...] = ()
    accounting: Accounting = "zcdp"
    counted: tables.CountOptions | None = None
    trips: Trips | None = None

    @property
    def claim(self) -> PureDP | ZCDP:
        """Privacy claim of a vehicle and period."""
        return claim_of_vector(self.recipe.kind, self.recipe.spread, self.accounting)

    @property
    def fleet(self) -> Fleet:
        """Declared facts of the fleet."""
        return self.bounds.fleet

    def epsilon_of(self, period: str) -> Fraction:
        """Returns the epsilon of one period."""
        by_day = None if self.span is None else self.span.by_day
        return self.epsilon if by_day is None else by_day.of(period).epsilon

    def policy(self, spec_id: str, region: Sequence[int], value: Value, digest_key: bytes) -> LevelsPolicy:
        """Builds the policy of the specification's releases."""
        return LevelsPolicy(
            spec_id=spec_id,
            total=self.claim,  # what a period, or a day of share 1, costs a vehicle
            epsilon=self.epsilon,
            delta=self.delta,
            first=self._with_parts(self._completed(self.strategy.first)),  # with settings outside of recipes, and parts
            later=self._with_parts(self._completed(self._later())),  # less live slots' share; a first day has none
            region=region,
            value=value,
            fleet=self.fleet,
            digest_key=digest_key,
            count=self._count(),  # stage that counts vehicles first, if any
            live=None if self.live is None else replace(self.live, exponent=self.exponent, accounting=self.accounting),
            by_day=None if self.span is None else self.span.by_day,
            products=self.products,
            places=None if self.places is None else self.places.pieces,
            trips=self.trips,
        )

    @property
    def places(self) -> PlacesRequest | None:
        """Places smaller than cells; None without them."""
        return next((part for part in self.parts if isinstance(part, PlacesRequest)), None)

    @property
    def usual_share(self) -> Fraction:
        """Share of the total for days after the first."""
        return ONE if self.span is None else self.span.ordinary

    @property
    def target(self) -> str | None:
        """Name of the exponent: mean of reports, or of vehicles; None between."""
        return next((name for name, exponent in tables.EXPONENTS.items() if exponent == self.exponent), None)

    @property
    def count_share(self) -> Fraction | None:
        """Share of the total for a period's vehicle count."""
        return None if (count := self._count()) is None else count.share

    def shows_too_many(self, first: ReleasedStage) -> bool:
        """Checks whether a first stage shows too many vehicles."""
        return self.counts_first and is_too_many(first, self.fleet)

    @property
    def counts_first(self) -> bool:
        """Whether vehicles are counted before all else, against the fleet."""
        return self.fleet_is_declared and not self.counts_public and self.counted is None

    def _count(self) -> Stage | None:
        """Makes the stage that counts vehicles first: too few show a wrong input."""
        if not self.counts_first:  # no declared fleet, public counts, or a count in place of the mean
            return None
        least_share = ONE if self.span is None else self.span.least  # the count must fit into the poorest day's total
        later, *_ = self._completed(self._later())  # whose noise and settings the count takes
        return count_stage(later, self.fleet.vehicles, least_share)

    def _with_parts(self, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        """Adds the parts' stages with their shares of the total; counts replace all stages."""
        if self.counted is not None:
            return (counts_stage(stages[-1], self.counted.bound, tables.EXPONENTS[self.counted.of]),)
        stages_share = ONE - sum(part.share for part in self.parts)
        for part in self.parts:  # its stage scales those before it down, so that all end with their shares of the total
            stages_share += part.share
            stages = part.with_stage(stages, part.share / stages_share)
        return stages

    def _completed(self, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        """Completes stages with settings outside of recipes, and vehicle-days' least norm."""
        with_settings = (
            replace(stage, exponent=self.exponent, counts_public=self.counts_public, accounting=self.accounting)
            for stage in stages
        )
        return tuple(with_least_norm(stage, self.bounds) for stage in with_settings)

    def _later(self) -> tuple[Stage, ...]:
        """Scales later days' stages, without the live slots' share."""
        return scaled(self.strategy.later, ONE if self.live is None else ONE - self.live.share)

    def text(self) -> dict[str, Any]:
        """Returns the statistic's options for a spec_id; total, parts and fleet are written elsewhere."""
        plain: dict[str, Any] = {"kind": self.recipe.kind, "spread": str(self.recipe.spread)}
        if self.counted is not None:
            return {**plain, **msgspec.to_builtins(self.counted), "accounting": self.accounting}

        def numbers(stage: Stage) -> dict[str, str]:  # alpha: the part of the share that speeds get, weights the rest
            return {name: str(getattr(stage, name)) for name in ("share", "bound_kmh", "alpha")}

        for name, stages in (("first", self.recipe.first), ("later", self.recipe.later)):  # first day, later ones
            plain[name] = [{"shares": _parts_text(stage.shares), **numbers(stage)} for stage in stages]
        plain["exponent"] = str(self.exponent)
        if self.live is not None:  # its weights and its speeds have levels each
            weights = [(part.level, part.weights) for part in self.live.parts if part.weights]
            speeds = [(part.level, part.speeds) for part in self.live.parts if part.speeds]
            plain["live"] = {"speeds": _parts_text(speeds), "weights": _parts_text(weights), **numbers(self.live)}
        return plain if self.accounting == "zcdp" else plain | {"accounting": self.accounting}  # so old ids stay


def _parts_text(shares: Iterable[tuple[str, Fraction]]) -> list[list[str]]:
    return [[name, str(share)] for name, share in shares]


def levels_release(
    document: Document,
    written: tables.Options,
    total: SpanTotal,
    region: Sequence[int],
    timetable: Timetable,
    counted: tables.CountOptions | None = None,
) -> LevelsRelease:
    """Builds the release from the statistic's options and other tables. Raises ValueError.

    total: of a span of days, if the document names one, else of a period. counted: released in place of the mean.
    """
    counts_public, live = document.account.adjacency == "counts-public", document.live
    table = document.fleet or tables.FleetTable()
    profile = msgspec.structs.asdict(table.profile)
    for name, number in {"vehicles": table.vehicles, **profile}.items():
        if number is not None and not 1 <= number <= 10_000_000:
            raise ValueError(f"fleet: {name} must be between 1 and 10,000,000; it is {number}")
    public = Fleet(vehicles=table.vehicles, profile=Profile(**profile))
    kind: Kind = "laplace" if total.delta is None else "gaussian"
    epsilon, rho = total.of_a_day()  # rho: of Gaussian noise, else None
    hours = sorted({minute // 60 for minute in timetable.service_minutes})
    bounds = BoundsOnly(hats=hats_of(region, hours), fleet=public)
    names_levels = (written.levels or written.first_levels) is not None  # a strategy chooses where counts are secret
    free = Free(bounds=written.bound_kmh is None and not counts_public, levels=not names_levels and not counts_public)
    written_recipe = _recipe_of(written, default=recipe(kind, epsilon, rho, bounds))
    return LevelsRelease(
        epsilon=epsilon,
        delta=total.delta,
        recipe=written_recipe,
        strategy=chosen(written_recipe, bounds, free),  # the variant of least error, where `free`
        free=free,
        exponent=written.power,
        bounds=bounds,
        fleet_is_declared=document.fleet is not None,
        counts_public=counts_public,
        live=None if live is None else live_stage(kind, written_recipe.spread, epsilon, live.share),
        day_lateness_s=None if live is None else live.day_lateness_s,
        span=None if document.privacy.span_days is None else total,
        accounting=total.accounting,
        counted=counted,
    )


def _recipe_of(written: tables.Options, default: Recipe) -> Recipe:
    """Overrides the default recipe with the specification's options. Raises ValueError for impossible ones."""
    first, second = default.first  # two stages of the first day
    (later,) = default.later  # and one of any later day
    written_shares = _shares("levels", written.levels)
    shares = written_shares or later.shares
    first_shares = _shares("first_levels", written.first_levels) or written_shares or first.shares
    bound = written.bound_kmh or (first.bound_kmh, later.bound_kmh)  # of the first day's stages, of later days'
    alpha = written.alpha or (first.alpha, second.alpha, later.alpha)  # speeds' part of each stage's share
    first_share = first.share if written.first_share is None else written.first_share
    for holds, rule in (
        (all(value > 0 for value in bound), "bound_kmh must be two numbers above 0"),
        (all(0 < value < 1 for value in alpha), "alpha must be three numbers between 0 and 1"),
        (0 < first_share < 1, "first_share must be between 0 and 1"),
        # power: the written exponent, or that of the written target
        ((4 * written.power).denominator == 1 and 0 <= written.power <= 1, "exponent must be 0, .25, .5, .75 or 1"),
        (written.target is None or written.exponent is None, "target says which exponent: leave one of the two out"),
    ):
        if not holds:
            raise ValueError(rule)
    # `alike`: speeds and weights have the same shares of levels.
    first = replace(first, parts=alike(first_shares), share=first_share, bound_kmh=bound[0], alpha=alpha[0])
    second = replace(second, parts=alike(shares), share=1 - first_share, bound_kmh=bound[0], alpha=alpha[1])
    later = replace(later, parts=alike(shares), share=Fraction(1), bound_kmh=bound[1], alpha=alpha[2])
    return Recipe(first=(first, second), later=(later,))


def _shares(option: str, table: Mapping[str, Fraction] | None) -> Shares | None:
    """Checks parts of the total by level. option: their key, for errors. Raises ValueError."""
    if table is None:
        return None
    for name, share in table.items():
        if name not in LEVELS:
            there = f"there are {', '.join(LEVELS)}{did_you_mean(name, LEVELS)}"
            raise ValueError(f"{option}: there is no level {name!r}; {there}")
        if share <= 0:
            raise ValueError(f"{option}: the share of {name} must be above 0, not {share}")
    if sum(table.values()) != 1:
        raise ValueError(f"{option}: the shares must add up to 1")
    return tuple(table.items())
