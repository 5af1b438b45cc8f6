"""Places: what noisy sums of days tell of each one's usual mean, around its cell's. Cost: places times a constant.

Places are independent around their cells: smoothness between neighbours was tried, and gains nothing.
A place's weight and mean are learned together. How weights are spread, how far places lie from their cells, and how
far those of one group do, are learned from all of them: an empirical prior, by likelihood and by expectation and
maximisation.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpops import fitted
from dpops.learning import whole
from dpops.learning.laplace_sums import tempered
from dpops.learning.place_prior import PlacePrior, believed, copies_log_likelihood, improved, some
from dpops.learning.place_sums import Around, PlaceSums
from dpops.learning.place_traffic import learned_traffic
from dpops.learning.whole import NoisyTotals
from dpops.types import Float64s

ROUNDS, LAST_ROUNDS = 8, 2
"""How often the prior is improved; and at last by all places, where the first rounds took a part of many."""


@dataclass(frozen=True, kw_only=True)
class PlaceBelief:
    """What is believed of places, float64 (places,) each. values: km/h, of a report at the place, or of its cell where
    evidence is too small; variances: how far the place lies from them. weights: on a usual day, and their variances.
    own: variance of a day's own mean around the usual one, as squares of sums tell. evidence: how much likelier what
    was released is, as a logarithm, if places differ from their cells than if none does."""

    values: Float64s
    variances: Float64s
    weights: Float64s
    weight_variances: Float64s
    own: Float64s
    evidence: float


def whole_weight(sums: PlaceSums, expected: float) -> float:
    """Estimates all places' weight on a usual day: the declared fleet's, and what releases say, by their precisions."""
    if not sums.days:
        return expected
    told = NoisyTotals.of(float(sums.weights.sum()) / sums.weight_precision, sums.weights.size / sums.weight_precision)
    return whole.whole_weight(expected, fitted.ANCHOR_SD, told).mean


def learn_places(sums: PlaceSums, around: Around) -> PlaceBelief:
    """Learns places from the sums. around.expected adds up to `whole_weight`. A function of its arguments alone."""
    sums = tempered(sums)
    expected, ratios = learned_traffic(sums, around.expected, around.sizes)
    around = replace(around, expected=expected)
    few = some(sums, around)
    prior = _learned_prior(ratios, *few)
    for _ in range(LAST_ROUNDS if few[0] is not sums else 0):
        prior = improved(prior, sums, around)
    belief = believed(prior, sums, around)
    evidence = belief.log_likelihood - copies_log_likelihood(ratios, sums, around) if sums.days else 0.0
    values = belief.of_reports if evidence >= fitted.PLACE_EVIDENCE else around.values
    own = _own(sums, belief.values, belief.weights)
    untold = np.maximum(fitted.PLACE_OTHER_HOURS * around.of_hours, fitted.LEAST_PLACE_FLOOR)
    untold = untold + fitted.PLACE_OTHERWISE * own / max(sums.days, 1)
    return PlaceBelief(
        values=values,
        variances=belief.variances + (belief.values - values) ** 2 + untold,
        weights=belief.weights,
        weight_variances=belief.weight_variances,
        own=own,
        evidence=evidence,
    )


def _learned_prior(ratios: Float64s, sums: PlaceSums, around: Around) -> PlacePrior:
    """Picks the likeliest prior; where places are passed, of several that differ in how much slower busy ones are."""
    candidates = []
    for slowed in np.linspace(0, fitted.MOST_SLOWED, 3) if around.sizes is not None else (0.0,):
        prior = PlacePrior.first(ratios, slowed, around)
        for _ in range(ROUNDS if sums.days else 0):
            prior = improved(prior, sums, around)
        candidates.append(prior)
    return max(candidates, key=lambda prior: believed(prior, sums, around).log_likelihood)


def _own(sums: PlaceSums, values: Float64s, weights: Float64s) -> Float64s:
    """Estimates the variance of a day's own mean around the usual one, by how far sums lie off beyond their noise.

    A place where w weigh has PLACE_OWN / w of its vehicles, and what all share: both are fitted to all places.
    """
    one, shared = fitted.PLACE_OWN, fitted.PLACE_COMMON
    if sums.days > 1:
        missed = (
            sums.surprise
            - 2 * weights * (values * sums.speeds - sums.centred)
            + weights**2 * (values**2 * sums.speed_precision - 2 * values * sums.centres + sums.squares)
        )
        columns = np.stack([weights, weights**2], axis=1) * sums.speed_precision[:, None]
        excess = missed - (sums.days - 1)
        trust = 1 / np.sqrt(2 * sums.days + columns.sum(axis=1) ** 2)
        before = np.diag([1 / one, 1 / shared])
        rows = np.concatenate([columns * trust[:, None], before])
        result = np.linalg.lstsq(rows, np.concatenate([excess * trust, np.ones(2)]), rcond=None)[0]
        one, shared = np.clip(result, [0.0, 0.0], [fitted.MOST_PLACE_OWN, fitted.MOST_PLACE_COMMON]).tolist()
    own: Float64s = np.minimum(one / np.maximum(weights, 0.05), fitted.MOST_PLACE_OWN) + shared
    return own
