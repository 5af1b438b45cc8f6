"""Inference from recorded `levels` entries: centres and estimates.

A function of recorded entries in ledger order and of the policy; no data is read. A day recorded late counts as later.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from dpops.learning import Field, Learned, PublishedNumbers, Status, coarser, published, smooth_hours, with_coarser
from dpops.learning.field import STATUS_NAMES, vehicles_about
from dpops.levels.defaults import Profile
from dpops.levels.stages import CENTRE_STEP_KMH, WEIGHT_STEPS, Differences, Stage, centres_of
from dpops.types import Int64s
from transforms.places.ground import parent_texts
from transforms.recorded.stage_plan import bare_stage
from transforms.recorded.units import StageEntry
from transforms.records import ABOUT_COLUMNS, TRAFFIC_COLUMNS, SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.parts import distribution_columns, learned_classes, learned_places, place_product
from transforms.releases.periods.products import DISTRIBUTION, grouping
from transforms.releases.periods.publish import PARENT_COLUMNS, HatEstimates, estimates_of_product
from transforms.releases.periods.stages import MARGIN_KMH, LevelsPolicy
from transforms.releases.periods.states import learned_from


def learned_centres(entries: Sequence[StageEntry], policy: LevelsPolicy, hours: Sequence[int]) -> Int64s:
    """Infers the next stage's centres: of the day itself by estimate, else by forecast."""
    learned = learned_from(entries, policy)
    last = bare_stage(entries[-1].unit)  # the newest stage; `number`: in its day, from 0; `stages`: of its day
    posterior = learned.estimate() if last.number + 1 < last.stages else learned.forecast(np.array(hours, np.int64))
    return centres_of(posterior.values, lowest=MARGIN_KMH, highest=policy.value.standard.upper - MARGIN_KMH)


def learned_differences(entries: Sequence[StageEntry], policy: LevelsPolicy, stage: Stage) -> Differences | None:
    """Infers differences of places from cells; None for other stages. entries: the day's last."""
    places = policy.public_places
    if places is None or not stage.is_of_places:
        return None
    models = learned_from(entries, policy)
    learned = learned_places(entries, models, policy)
    difference_kmh = np.zeros(places.cell.size) if learned is None else learned.differences  # 0: none yet
    # Each slot's weight over that of a usual day, which is the number of vehicles. `Differences` needs weights of at
    # least one step; and a noisy weight must not be boundless, so it is that of 100 days at most.
    by_slot = models.estimate().weights.sum(axis=0) / models.state.facts.vehicles
    return Differences(
        cell=places.cell,
        steps=np.rint(difference_kmh / float(CENTRE_STEP_KMH)).astype(np.int64),
        lowest=int(MARGIN_KMH / CENTRE_STEP_KMH),  # centres keep this far from the ends of the speeds
        highest=int((policy.value.standard.upper - MARGIN_KMH) / CENTRE_STEP_KMH),
        slot_weights=tuple(np.clip(np.rint(by_slot * WEIGHT_STEPS), 1, 100 * WEIGHT_STEPS).astype(np.int64).tolist()),
    )


def day_estimates(
    models: Learned, policy: LevelsPolicy, slots: Sequence[SlotFacts], entries: Sequence[StageEntry], days_back: int = 0
) -> HatEstimates:
    """Estimates the day `days_back` before the last, with parents' values for unknown HATs."""
    posterior = models.estimate(days_back)
    shown = with_coarser(models, posterior, float(policy.value.standard.upper))  # HATs' and parents' numbers
    parents = np.array(parent_texts(policy.region))  # (cells,), the name of each one's parent
    is_declared = policy.fleet.profile != Profile()  # the default profile suits no fleet in particular
    vehicles, status = vehicles_about(posterior, is_declared)  # (3, cells, slots): number, its bounds
    estimates = hat_estimates(shown.estimates).with_columns(ABOUT_COLUMNS, (*vehicles, STATUS_NAMES[status]))
    parent = np.where(shown.estimates.status == Status.PARENT, parents[:, None], "")
    estimates = estimates.with_columns(PARENT_COLUMNS, (parent, *shown[1:]))  # [1:]: the parent's value and bounds
    return estimates._replace(products=product_estimates(models, posterior, policy, slots, entries))


def product_estimates(
    models: Learned,
    posterior: Field,
    policy: LevelsPolicy,
    slots: Sequence[SlotFacts],
    entries: Sequence[StageEntry],
    *,
    forecast: bool = False,
) -> tuple[SlotEstimates, ...]:
    """Estimates a period's products from its HATs' posterior; `forecast`: whether it is one."""
    starts, tables, products = [facts.start for facts in slots], [], policy.products
    upper_kmh = float(policy.value.standard.upper)
    places = learned_places(entries, models, policy) if any(product.is_of_places for product in products) else None
    has_distributions = any(product.has_distributions for product in products)
    classes = learned_classes(entries, models, policy) if has_distributions else None
    for product in products:
        if product.is_of_places:
            if places is not None:  # else no day has released places yet
                tables.append(place_product(product, places, models, posterior, slots, policy))
            continue
        grouped = grouping(product, models.state.design.parents, policy.region, starts)
        groups = coarser(models, posterior, grouped.groups)
        if product.name == "city-hour":  # an hour differs from its day only beyond its error
            whole_day = replace(grouped.groups, slots=0 * grouped.groups.slots)  # all slots in group 0
            groups = smooth_hours(groups, coarser(models, posterior, whole_day))
        estimates = hat_estimates(published(groups, upper_kmh, forecast=forecast))
        if product.has_distributions and policy.classes is not None:
            columns = distribution_columns(classes, groups, estimates.status, upper_kmh)
            estimates = estimates.with_columns(DISTRIBUTION, columns)
        tables.append(estimates_of_product(estimates, product.name, grouped, slots, policy))
    return tuple(tables)


def hat_estimates(numbers: PublishedNumbers) -> HatEstimates:
    """Converts numbers to estimates; those of HATs held back become nan."""
    has_value = numbers.status != Status.HELD_BACK
    columns = attrgetter("values", "lower95", "upper95", "sd", "traffic_lower95", "traffic_upper95")(numbers)
    value, lower, upper, sd, *traffic = (np.where(has_value, column, np.nan) for column in columns)
    estimates = HatEstimates(value, lower, upper, sd, STATUS_NAMES[numbers.status])
    return estimates.with_columns(TRAFFIC_COLUMNS, traffic)
