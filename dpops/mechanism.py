"""Mechanism interface: public plans from counts, noisy integers, values.

A mechanism may first draw private choices, such as a bound to clip at; then it adds noise to its query, an integer in
steps, each worth `Plan.step` units (km/h, say). U, `upper`, is the largest value; samples are in grid steps, 0 to
upper_steps. facts: public integers of a plan. miss: chance that an interval misses the true value. Users: vehicles.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpops.claims import Adjacency, PureDP
from dpops.estimate import Estimates, noisy_queries
from dpops.forecast import HatCounts, Prior, laplace_bound, laplace_std, mean_absolute_error
from dpops.noise import MOST_SCALE, Noise
from dpops.types import CountsKnown, Float64s, Grid, Int64s, fraction

_NO_INTS: Int64s = np.zeros(0, np.int64)
_NO_INTS.flags.writeable = False


class Totals(NamedTuple):
    """Sums per user of a HAT, int64 (users,), by descending count, then hash.

    counts: samples kept, >= 1. sums: of the samples' grid steps, in [0, counts * upper_steps]. squares: of the squares
    of these steps. histograms: (users, K), samples in each of K bins. All but `counts` are empty where no requested
    statistic needs them (dpops.statistics).

    >>> int(Totals(counts=np.array([5, 3]), sums=np.array([10_000, 9_000])).counts.sum())
    8
    """

    counts: Int64s
    sums: Int64s = _NO_INTS
    squares: Int64s = _NO_INTS
    histograms: Int64s = _NO_INTS


@dataclass(frozen=True, slots=True)
class Hats:
    """Totals of many HATs in columns, users consecutive.

    first, users: int64 (HATs,), first user and number of users. reported: int64 (HATs,), samples before a cap.
    """

    totals: Totals
    first: Int64s
    users: Int64s
    reported: Int64s

    def __len__(self) -> int:
        return self.users.size

    def __iter__(self) -> Iterator[Totals]:
        for first, users in zip(self.first.tolist(), self.users.tolist(), strict=True):
            yield Totals(*(column[first : first + users] for column in self.totals))

    def take(self, chosen: NDArray[np.bool_] | Int64s) -> "Hats":
        """Selects HATs by mask or index."""
        return Hats(self.totals, self.first[chosen], self.users[chosen], self.reported[chosen])


PLAN_VERSION = 2  # of new plans' documents; see `Plan.version`


class PlanError(ValueError):
    """Missing plan for a HAT; messages hold public facts.

    >>> check_plan_input(np.array([3]), reported=3, upper=6_500, epsilon=Fraction(0))
    Traceback (most recent call last):
    dpops.mechanism.PlanError: epsilon must be > 0, got 0
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Public parameters of a HAT's release, fixed beforehand.

    step: units of the statistic, km/h for a mean and (km/h)^2 for a variance, that one step of the integer is worth.
    scale: of the discrete Laplace noise, in steps, at its largest. upper: largest value, in units: U, or U^2 / 4.
    bias_bound: worst-case distance of the noiseless value from the true one, in units.
    sensitivity: the most steps by which one user moves the integer; 0 where nothing is drawn.
    facts: what a reviewer may ask for; with epsilon 0 also the released integer, as "constant".
    rounding: by how much rounding alone may move the statistic, in units; below 0 it becomes half a grid step.
    version: of its document; below 2, the published bias leaves rounding out.

    >>> from dpops.mechanisms.baseline import Baseline
    >>> counts, grid = CountsKnown.all_of(np.array([5, 3, 1])), Grid(step=Fraction(1), upper_steps=65)
    >>> Baseline().plan(counts, grid, Fraction(1)).sensitivity
    325
    """

    mechanism: str
    epsilon: Fraction
    step: Fraction
    scale: Fraction
    upper: Fraction
    bias_bound: float
    sensitivity: int
    facts: Mapping[str, int] = field(default_factory=dict)
    rounding: float = -1.0
    version: int = PLAN_VERSION

    def __post_init__(self) -> None:
        if self.rounding < 0:
            object.__setattr__(self, "rounding", float(self.upper) / (2 * self.facts["upper_steps"]))
        # Here and not when it is drawn, where it could depend on a private choice: a failure that does is a leak.
        if self.scale.numerator > MOST_SCALE * self.scale.denominator:
            raise PlanError(f"{self.mechanism}: this epsilon needs noise beyond 2**50 steps; take a coarser grid")

    def claim(self) -> PureDP:
        """Computes the claim, epsilon or more. Raises PlanError."""
        return claim_of_terms(str(self.epsilon), str(self.scale), self.sensitivity)

    @property
    def is_constant(self) -> bool:
        """Whether nothing is drawn, so that epsilon is 0."""
        return not self.epsilon

    @staticmethod
    def claim_terms(stored: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, int]]:
        """Reads stored plans' claims: epsilon, scale and sensitivity."""
        return [(plan["epsilon"], plan["scale"], plan.get("facts", {}).get("sensitivity", 0)) for plan in stored]

    def noise_std(self) -> float:
        """Computes the standard deviation of the noise, in units."""
        return laplace_std(self.scale) * float(self.step)

    def half_width(self, miss: float) -> float:
        """Computes an interval's half width: noise, bias, rounding."""
        return laplace_bound(self.scale, miss) * float(self.step) + self.bias_bound + self.rounding

    def error(self) -> float:
        """Forecasts the mean absolute error at worst bias."""
        return mean_absolute_error(self.bias_bound, float(self.scale * self.step))

    def document(self) -> dict[str, Any]:
        """Writes the stored form, which `from_public` reads."""
        return {**self.public(), "version": self.version}

    def public(self) -> dict[str, Any]:
        """Lists fields of the plan's document as plain values; sensitivity is a fact."""
        return {
            "epsilon": str(self.epsilon),
            "step": str(self.step),
            "scale": str(self.scale),
            "upper": str(self.upper),
            "bias_bound": self.bias_bound,
            "facts": {**self.facts, "sensitivity": self.sensitivity},
            "rounding": self.rounding,
        }

    @classmethod
    def from_public(cls, mechanism: str, stored: Mapping[str, Any]) -> "Plan":
        """Reads a stored plan, with defaults of old versions."""
        facts = dict(stored["facts"])
        return Plan(
            mechanism=mechanism,
            epsilon=fraction(stored["epsilon"]),
            step=fraction(stored["step"]),
            scale=fraction(stored["scale"]),
            upper=fraction(stored["upper"]),
            bias_bound=float(stored["bias_bound"]),
            sensitivity=int(facts.pop("sensitivity", 0)),
            facts=facts,
            rounding=float(stored.get("rounding", -1.0)),
            version=int(stored.get("version", 1)),
        )


@lru_cache(maxsize=4096)
def claim_of_terms(epsilon: str, scale: str, sensitivity: int) -> PureDP:
    """Computes a plan's claim, epsilon or more. Raises PlanError."""
    planned, noise = Fraction(epsilon), Fraction(scale)
    if sensitivity and not noise:
        raise PlanError("a plan with a sensitivity and no noise keeps no epsilon")
    if noise and not (planned or sensitivity):
        raise PlanError("a plan that claims nothing draws no noise")
    return PureDP(max(planned, sensitivity / noise) if noise else planned)  # more: if rounding left less noise


Integers = list[int]
"""Released integers of a HAT: private choices, if the mechanism makes any, then the noisy query."""


class Drawn(NamedTuple):
    """Release of many HATs: mechanisms, stored plans, integers."""

    mechanisms: list[str]
    plans: list[dict[str, Any]]
    integers: list[Integers]


DECIDES = "decides the specification's id"


class Mechanism(Protocol):
    """Interface of mechanisms: frozen dataclasses whose fields are options.

    Two fields are no options: a specification fills in `prior`, and in `statistic` the requested one's name, whose
    metadata `DECIDES` lets it decide a specification's id.

    statistics: which it can release, by name (dpops.statistics). outputs: their names, in order; none for the one
    number of a statistic. may_be_constant: whether some of its plans draw nothing, and so cost nothing. chooses:
    whether a private choice decides its bias, so that its plans bound it by U. example_options, candidate_options:
    options of the variants that conformance tests run, and that `auto` compares.

    >>> from dpops.mechanisms.baseline import Baseline
    >>> from dpops.noise import Noise
    >>> counts, grid = np.array([5, 3, 1]), Grid(step=Fraction(1, 100), upper_steps=6_500)
    >>> plans = Baseline().plans([CountsKnown.all_of(counts)], grid, Fraction(10**6))
    >>> values_of(Baseline().release([Totals(counts, counts * 2_150)], plans, Noise()), plans).round(1).tolist()
    [21.5]
    """

    name: ClassVar[str]
    statistics: ClassVar[frozenset[str]] = frozenset({"mean"})
    outputs: ClassVar[tuple[str, ...]] = ()
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})
    may_be_constant: ClassVar[bool] = False
    chooses: ClassVar[bool] = False
    example_options: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    candidate_options: ClassVar[Sequence[Mapping[str, Any]]] = ({},)

    def __post_init__(self) -> None:
        """Checks the option `m_ub`, if any. Raises ValueError."""
        m_ub = getattr(self, "m_ub", None)
        if isinstance(m_ub, bool) or (isinstance(m_ub, int) and m_ub < 1):  # Python counts booleans as integers
            raise ValueError(f"m_ub must be at least 1, got {m_ub}")

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """Lists the variants that the conformance tests run."""
        return [cls(**options) for options in cls.example_options]

    @classmethod
    def candidates(cls) -> Sequence[Self]:
        """Lists the variants that `auto` compares."""
        return [cls(**options) for options in cls.candidate_options]

    def plan(self, hat: CountsKnown, grid: Grid, epsilon: Fraction) -> Plan:
        """Plans one HAT from public counts. Raises PlanError."""
        return self.plans([hat], grid, epsilon)[0]

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[Plan]:
        """Makes the plans of many HATs. Raises PlanError."""
        return [self.plan(hat, grid, epsilon) for hat in hats]

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors in units from public facts, float64 (HATs,)."""

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Releases HATs' noisy integers, drawing noise in vectors."""

    def draw(self, hats: Hats, grid: Grid, epsilon: Fraction, noise: Noise) -> Drawn:
        """Plans and releases many HATs; a mechanism may override it to be faster."""
        totals = list(hats)
        # Equal counts have equal plans, so each distinct HAT is planned and written once.
        keys = [(reported, hat.counts.tobytes()) for hat, reported in zip(totals, hats.reported.tolist(), strict=True)]
        distinct = {key: CountsKnown(total.counts, reported=key[0]) for key, total in zip(keys, totals, strict=True)}
        hat_plans = self.plans(list(distinct.values()), grid, epsilon)
        planned = {key: (plan, plan.document()) for key, plan in zip(distinct, hat_plans, strict=True)}
        planned_hats = [planned[key] for key in keys]
        released = self.release(totals, [plan for plan, _ in planned_hats], noise)
        return Drawn([plan.mechanism for plan, _ in planned_hats], [stored for _, stored in planned_hats], released)

    @staticmethod
    def resolve(integers: Sequence[int], plan: Plan) -> Plan:  # noqa: ARG004 - the interface
        """Completes a plan's noise and bias from private choices, if any."""
        return plan

    @classmethod
    def estimates(cls, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float) -> Estimates:
        """Reads values, with intervals that miss with probability `miss`, off integers and stored plans."""
        if cls.chooses:
            read_plans = [Plan.from_public(cls.name, plan) for plan in plans]  # `resolve` fits noise to the choice
            plans = [cls.resolve(*pair).document() for pair in zip(released, read_plans, strict=True)]
        return noisy_queries([integers[-1] for integers in released], plans, miss)  # the noisy query is the last


def forecast_of_one(mechanism: Mechanism, hat: CountsKnown, grid: Grid, epsilon: Fraction, prior: Prior) -> float:
    """Forecasts the absolute error of one HAT, in units."""
    hats, _ = HatCounts.of([hat], grid, epsilon, prior)
    return mechanism.forecasts(hats).item()


def values_of(released: Sequence[Integers], plans: Sequence[Plan]) -> Float64s:
    """Reads noisy queries in units, clamped into [0, upper].

    >>> from dpops.mechanisms.constant import Constant
    >>> hat, grid = CountsKnown.all_of(np.array([5])), Grid(step=Fraction(1), upper_steps=60)
    >>> float(values_of([(60,)], [Constant().plan(hat, grid, Fraction(1))])[0])
    30.0
    """
    documents = {id(plan): plan.document() for plan in plans}  # HATs share plans; intervals, of any miss, are not read
    queries = [integers[-1] for integers in released]  # private choices stand before the noisy query
    return noisy_queries(queries, [documents[id(plan)] for plan in plans], miss=1.0).number(0)[0]  # type: ignore[no-any-return]


P = TypeVar("P", bound=Plan)


def full_plan(plan: Plan, kind: type[P]) -> P:
    """Returns the plan with its unstored fields. Raises TypeError."""
    if not isinstance(plan, kind):
        raise TypeError("a release needs the plan it made, not one that was read back")
    return plan


def with_noise(exact: Int64s, scales: Sequence[Fraction], noise: Noise) -> list[int]:
    """Adds discrete Laplace noise to integers, as Python integers."""
    drawn = noise.laplace(scales)
    return [query + added for query, added in zip(exact.tolist(), drawn.tolist(), strict=True)]  # no overflow


def noisy_integers(exact: Int64s, plans: Sequence[Plan], noise: Noise) -> list[Integers]:
    """Releases each HAT's one query with its plan's noise."""
    return [[integer] for integer in with_noise(exact, [plan.scale for plan in plans], noise)]


class Stacked(NamedTuple):
    """Concatenated users of many HATs; `start`: first users."""

    counts: Int64s
    sums: Int64s
    start: Int64s


def check_totals(totals: Sequence[Totals], plans: Sequence[Plan]) -> None:
    """Raises ValueError unless there are as many totals as plans."""
    if len(totals) != len(plans):
        raise ValueError(f"each plan needs one total, got {len(totals)} for {len(plans)} plans")


def stack(totals: Sequence[Totals], plans: Sequence[Plan]) -> Stacked:
    """Concatenates HATs' totals by user. Raises ValueError if they contradict plans."""
    check_totals(totals, plans)
    users, samples, heaviest, upper = (
        np.fromiter((plan.facts[name] for plan in plans), np.int64, len(plans))
        for name in ("users", "samples", "heaviest", "upper_steps")
    )
    counts = np.concatenate([_NO_INTS, *(total.counts for total in totals)])
    sums = np.concatenate([_NO_INTS, *(total.sums for total in totals)])
    start = np.cumsum(users) - users
    fits = [total.counts.size for total in totals] == users.tolist() == [total.sums.size for total in totals]
    if fits:
        fits = np.array_equal(np.add.reduceat(counts, start), samples)
        fits &= np.array_equal(np.maximum.reduceat(counts, start), heaviest)
    if not fits or np.any(sums < 0) or np.any(sums > counts * np.repeat(upper, users)):
        raise ValueError("totals do not fit their plans: users or samples differ, or a sum is outside [0, count * U]")
    return Stacked(counts, sums, start)


def facts_of(hat: CountsKnown, grid: Grid) -> dict[str, int]:
    """Lists facts for `stack`'s checks, and reported samples."""
    counts, reported = hat
    return {
        "users": counts.size,
        "samples": int(counts.sum()),
        "heaviest": int(counts.max()),
        "reported": reported,
        "upper_steps": grid.upper_steps,
    }


def check_plan_input(counts: Int64s, reported: int, upper: int, epsilon: Fraction) -> None:
    """Raises PlanError for inputs that no plan fits; upper: U in steps."""
    if epsilon <= 0:
        raise PlanError(f"epsilon must be > 0, got {epsilon}")
    if counts.size == 0 or counts.min() < 1:
        raise PlanError("a HAT needs at least one user, and every user at least one sample")
    if reported < int(counts.sum()):
        raise PlanError("more samples kept than reported")
    if reported >= 1 << 31:  # so that a product of two numbers of samples fits into int64
        raise PlanError(f"a HAT of {reported} samples is beyond the checked integer bounds (2**31)")
    if upper * reported >= 1 << 62:
        raise PlanError(f"{reported} samples of up to {upper} steps are beyond the checked integer bounds (2**62)")
