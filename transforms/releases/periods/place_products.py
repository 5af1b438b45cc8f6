"""Products of places: standing values, days, parts of days, and slots."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpops.learning import Field, Groups, Learned, PublishedNumbers, Status, coarser, published
from dpops.learning.expected_places import CAUTIOUS, LEAST_VEHICLES, MOST_HALF_WIDTH_KMH
from dpops.learning.field import STATUS_NAMES, Z95, rounded
from dpops.learning.places import AT_LEAST
from dpops.spread import TYPICAL
from dpops.types import Float64s, Int64s
from transforms.places.hierarchy import texts_of
from transforms.records import SlotEstimates
from transforms.releases import SlotFacts
from transforms.releases.periods.learned_places import LearnedPlaces
from transforms.releases.periods.products import Product, ProductGroups, slot_groups
from transforms.releases.periods.publish import Behind, HatEstimates, estimates_of_product
from transforms.releases.periods.stages import LevelsPolicy


def place_product(
    product: Product,
    places: LearnedPlaces,
    models: Learned,
    belief: Field,
    slots: Sequence[SlotFacts],
    policy: LevelsPolicy,
) -> SlotEstimates:
    """Estimates every place and time of a period, given its cells' posterior."""
    if policy.places is None:
        raise ValueError("the policy has no places")
    named, of_slot, spans = policy.places.places, *slot_groups(product, [facts.start for facts in slots])
    bound, cell = float(policy.value.standard.upper), named.cell
    groups = Groups(cells=np.arange(models.state.design.cells), slots=of_slot)
    of_cells = coarser(models, belief, groups)
    shown = published(of_cells, bound)
    shown = replace(shown, **{name: getattr(shown, name)[cell] for name in shown.__dataclass_fields__})
    if product.name == "place-standing":
        values, variances = places.places.values[:, None], places.places.variances[:, None]
        copies = places.cells[:, None]
        far = copies - shown.values  # the cell's standing value has an interval as wide as its day's
        value, lower, upper = (
            rounded(np.clip(part, 0, bound)) for part in (copies, shown.lower95 + far, shown.upper95 + far)
        )
        shown = replace(shown, values=value, lower95=lower, upper95=upper)
    else:
        values = shown.values + places.differences[:, None]
        variances = _variances(places, of_cells, cell, is_of_day=product.name == "place-day")
    result = _estimates(values, variances, places, shown, bound)
    cells = np.array(texts_of(policy.region))[cell]
    whose = np.where(result.status == STATUS_NAMES[Status.PARENT], cells[:, None], "")
    parents = tuple(np.where(whose == "", np.nan, part) for part in (shown.values, shown.lower95, shown.upper95))
    result = result._replace(parent=whose, beside=(parents[0], parents[1], parents[2]))
    proved = [AT_LEAST if is_proved else None for is_proved in places.vehicles.are_there.tolist()]
    of_period = len({facts.start.partition("T")[0] for facts in slots})  # a week has several days
    behind = Behind(models.state.days * of_period, proved, named.geometries)
    grouped = ProductGroups(groups, list(named.names), spans)
    return estimates_of_product(result, product.name, grouped, slots, policy, behind)


def _variances(places: LearnedPlaces, of_cells: Field, cell: Int64s, *, is_of_day: bool) -> Float64s:
    """Sums variances of a place's mean, its cell, and its deviation that time."""
    deviations = places.places.own[:, None]
    if not is_of_day:
        there = np.bincount(cell, places.places.weights, of_cells.values.shape[0])
        share = places.places.weights / np.maximum(there[cell], 1e-9)
        deviations = np.maximum(
            deviations, TYPICAL.of(np.maximum(of_cells.vehicles[cell].mean(axis=-1) * share[:, None], 0.05))
        )
    return places.places.variances[:, None] + of_cells.variances[cell] + deviations


def _estimates(
    values: Float64s, variances: Float64s, places: LearnedPlaces, shown: PublishedNumbers, bound: float
) -> HatEstimates:
    """Bounds values, and withholds those whose cell is withheld, (places, times)."""
    sd = np.sqrt(variances)
    half = Z95 * sd
    belief = places.places
    is_visited = belief.weights - CAUTIOUS * np.sqrt(belief.weight_variances) > LEAST_VEHICLES
    ok = (half < MOST_HALF_WIDTH_KMH) & is_visited[:, None]
    fallback = np.where(shown.status == Status.OK, Status.PARENT, Status.UNRELIABLE)
    status = np.where(shown.status == Status.HELD_BACK, Status.HELD_BACK, np.where(ok, Status.OK, fallback))
    is_told = status != Status.HELD_BACK
    value, lower, upper = (rounded(np.clip(part, 0, bound)) for part in (values, values - half, values + half))
    value, lower, upper, sd = (np.where(is_told, part, np.nan) for part in (value, lower, upper, rounded(sd)))
    return HatEstimates(value, lower, upper, sd, STATUS_NAMES[status])
