"""What the ledger's `levels` entries teach: centres for the next stage, and a period's estimates. No data is seen.

Everything here is a function of recorded entries, in their order of the ledger, and of the policy. So a day that is
recorded late counts as later than those that were recorded before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import h3
import numpy as np

from dpops.learning import (
    SOURCES,
    DayValues,
    Design,
    Estimates,
    Facts,
    Groups,
    LevelValues,
    StageValues,
    State,
    Status,
    coarser,
    learned,
    published,
    taken_in,
    with_coarser,
)
from dpops.learning import live as today
from dpops.learning.interval import rounded
from dpops.learning.learner import RECENT, Field, Learned
from dpops.levels import ReleasedStage, centres_of
from dpops.levels.defaults import Fleet, vehicle_weight
from dpops.levels.live import slot_weight
from dpops.levels.stages import CENTRE_STEP_KMH
from dpops.types import Int64s
from transforms.observe.hexagons import cell_text
from transforms.records import SlotEstimates
from transforms.release.levels import LevelsPolicy, hats_of, plan_of, read_unit
from transforms.release.levels_publish import HatEstimates, estimates_of_product
from transforms.release.policy import SlotFacts
from transforms.release.products import grouping, parent_text
from transforms.release.recorded import Sequenced

STATUS_NAMES = np.array([status.name.lower().replace("_", "-") for status in Status])

MARGIN_KMH = Fraction(3)
"""Centres stay so far from both ends of the speeds."""


def learned_centres(entries: Sequence[Sequenced], policy: LevelsPolicy, hours: Sequence[int]) -> Int64s:
    """Around what the next stage looks: the day's own first look, or a forecast from earlier days."""
    known = learned_from(entries, policy)
    last = plan_of(entries[-1].unit)
    own = known.estimate() if last.stage + 1 < last.stages else known.forecast(np.array(hours, np.int64))
    return centres_of(own.values, MARGIN_KMH, policy.grid.upper - MARGIN_KMH)


def learned_estimates(entries: Sequence[Sequenced], policy: LevelsPolicy, slots: Sequence[SlotFacts]) -> HatEstimates:
    """The last recorded period's estimates from its own and earlier entries."""
    return day_estimates(learned_from(entries, policy), policy, slots)


def day_estimates(known: Learned, policy: LevelsPolicy, slots: Sequence[SlotFacts], back: int = 0) -> HatEstimates:
    """As published of the last day, or one `back` before it; beside a HAT that is unknown a parent's or a day's."""
    belief = known.estimate(back)
    shown = with_coarser(known, belief, float(policy.grid.upper))
    parents = np.array([parent_text(cell) for cell in policy.region])
    whose = np.array(SOURCES)[shown.source]
    return _hat_estimates(shown.estimates)._replace(
        parent=np.where(whose == "parent", parents[:, None], whose),
        beside=(shown.values, shown.lower95, shown.upper95),
        products=product_estimates(known, belief, policy, slots),
    )


def product_estimates(
    known: Learned, belief: Field, policy: LevelsPolicy, slots: Sequence[SlotFacts], *, forecast: bool = False
) -> tuple[SlotEstimates, ...]:
    """The policy's products of a period, from the same belief as its HATs. slots: all of the period."""
    starts, found = [facts.start for facts in slots], []
    for product in policy.products:
        grouped = grouping(product, known.state.design.parents, policy.region, starts)
        estimates = hat_estimates(coarser(known, belief, grouped.groups), policy, forecast=forecast)
        found.append(estimates_of_product(estimates, product.name, grouped, slots, policy))
    return tuple(found)


def learned_live(stages: Sequence[Sequenced], live: Sequence[Sequenced], policy: LevelsPolicy) -> HatEstimates:
    """The last of a period's recorded live slots, (cells, 1): what earlier periods forecast, and what all of these say.

    Both in the order of the ledger. How far a value leans on the day is rounded like the rest.
    """
    hours = np.array([plan_of(entry.unit).hours[0] for entry in live], np.int64)
    slots = {at: slot_values(read_unit(entry.unit, policy.region), policy.fleet) for at, entry in enumerate(live)}
    found = today(learned_from(stages, policy), hours, slots)
    return hat_estimates(found.field, policy)._replace(leans=rounded(found.leans)).slot(-1)


def hat_estimates(belief: Field, policy: LevelsPolicy, *, forecast: bool = False) -> HatEstimates:
    """As published; no value where the account knows too little of the city."""
    return _hat_estimates(published(belief, float(policy.grid.upper), forecast=forecast))


def _hat_estimates(found: Estimates) -> HatEstimates:
    known = found.status != Status.HELD_BACK
    value, lower, upper, sd = (
        np.where(known, column, np.nan) for column in (found.values, found.lower95, found.upper95, found.sd)
    )
    return HatEstimates(value, lower, upper, sd, STATUS_NAMES[found.status])


def learned_from(entries: Sequence[Sequenced], policy: LevelsPolicy, least_recent: int | None = RECENT) -> Learned:
    """All entries' periods, in the order in which they were first recorded; that of the last entry comes last.

    What a period's estimates are made of, the next one's centres are too: so the last two fits are kept.
    """
    released = tuple((entry.sequence, entry.unit.period, tuple(_integers(entry))) for entry in entries)
    return _fitted(_Given(released, policy, least_recent, entries))


@dataclass(frozen=True)
class _Given:
    """All that a fit is a function of; `entries` are compared by what they released."""

    released: tuple[tuple[int, str, tuple[int, ...]], ...]
    policy: LevelsPolicy
    least_recent: int | None
    entries: Sequence[Sequenced] = field(compare=False, repr=False)


@lru_cache(maxsize=2)
def _fitted(given: _Given) -> Learned:
    policy = given.policy
    state = State.new(design_of(policy.region), facts_of(policy.fleet), given.least_recent)
    for day in days_of(given.entries, policy):
        state = taken_in(state, day)
    return learned(state)


def _integers(entry: Sequenced) -> list[int]:
    return entry.unit.released[0].integers or []


def days_of(entries: Sequence[Sequenced], policy: LevelsPolicy) -> list[DayValues]:
    return [
        _day_of([entry for entry in entries if entry.unit.period == period], policy) for period in period_order(entries)
    ]


def period_order(entries: Sequence[Sequenced]) -> list[str]:
    """Recorded periods by their first stage; that of the newest entry comes last, whatever lies between its stages."""
    order = list(dict.fromkeys(entry.unit.period for entry in entries))
    last = entries[-1].unit.period if entries else ""
    return [period for period in order if period != last] + [period for period in order if period == last]


def _day_of(entries: Sequence[Sequenced], policy: LevelsPolicy) -> DayValues:
    stages = [stage_values(read_unit(entry.unit, policy.region), policy.fleet) for entry in entries]
    return DayValues(hours=np.array(plan_of(entries[0].unit).hours, np.int64), stages=tuple(stages))


def stage_values(read: ReleasedStage, fleet: Fleet) -> StageValues:
    """A stage in units of a typical vehicle-day's weight, so that stages of other levels agree."""
    shares = tuple((level.name, level.speed_share) for level in read.stage.levels)
    return _in_units(read, vehicle_weight(read.stage.kind, shares, fleet))


def slot_values(read: ReleasedStage, fleet: Fleet) -> StageValues:
    """A live slot in the same units, as its profile makes them."""
    return _in_units(read, slot_weight(read.stage, fleet.profile))


def _in_units(read: ReleasedStage, unit: float) -> StageValues:
    levels = []
    for level in read.levels:
        groups = Groups(cells=np.array(level.level.cell_group), slots=level.level.of_slot)
        levels.append(
            LevelValues(
                groups=groups,
                weights=level.weights.reshape(groups.shape) / unit,
                speeds=level.speeds.reshape(groups.shape) / unit,
                weight_variance=(level.weight_sd / unit) ** 2,
                speed_variance=(level.speed_sd / unit) ** 2,
            )
        )
    return StageValues(centre=(read.stage.centres * float(CENTRE_STEP_KMH)).astype(np.float64), levels=tuple(levels))


def facts_of(fleet: Fleet) -> Facts:
    return Facts(vehicles=fleet.vehicles, vehicle_weight=1.0, hat_weight=1 / fleet.profile.hats)


def design_of(region: Sequence[int]) -> Design:
    """Cells in their order, their neighbours in the region, their parents."""
    number = {cell_text(cell): at for at, cell in enumerate(region)}
    pairs = [
        (at, number[near]) for cell, at in number.items() for near in h3.grid_disk(cell, 1) if at < number.get(near, -1)
    ]
    parents = np.array(hats_of(region, [0]).parents, np.int64)
    return Design(parents=parents, neighbours=np.array(sorted(pairs), np.int64).reshape(-1, 2))
