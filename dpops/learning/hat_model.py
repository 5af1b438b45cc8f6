"""What noisy means of single HATs teach where counts are public: a value and an interval for each HAT.

The effects are those of `dpops.learning.means`, and two more: of how often a vehicle reports, and of what all releases'
biases have in common. How many vehicles and reports are behind a HAT is public, so no weight is learned.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.design import HOURS, Design, Smoothness
from dpops.learning.hat_information import hat_information
from dpops.learning.hat_variances import Missed, learned_variances, uneven_variances
from dpops.learning.hats import HatMeans, HatState, HatSums
from dpops.learning.interval import Z95, rounded
from dpops.learning.layout import EffectLayout
from dpops.learning.means import (
    DayInformation,
    Deviations,
    Means,
    MeanUncertainty,
    fit_means,
    spread_of,
    traffic_of,
    variances_of,
)
from dpops.spread import USUAL
from dpops.spread import Spread as OwnSpread
from dpops.types import Float64s, Int64s

BEFORE = fitted.DWELL_KMH, fitted.PULL
"""Means before any release: how much faster a HAT is where each vehicle reports e times as often, km/h; and the factor
of the usual pull of releases. What is learned is how far released means rise with the pull: where vehicles report
unevenly a cap pulls more, and slow ones report more often, so true means fall with it."""
_DAY = np.arange(HOURS)
_FURTHER = 3
"""Columns behind the design's, which stand last: of dwell, pull and traffic."""


class HatBelief(NamedTuple):
    """What is believed of HATs, (hats,) each, in km/h, rounded. is_known: whether enough is known of the city to show
    them."""

    values: Float64s
    lower95: Float64s
    upper95: Float64s
    is_known: bool


@dataclass(frozen=True, slots=True)
class LearnedHats:
    """The model fitted to a state, whose whole is kept here. traffic: (cells, 24). dwell: the mean one. own: how far
    HATs lie from what describes them. unknown: see `MOST_UNKNOWN`, of all hours of the newest day."""

    design: Design
    whole: HatSums
    days: tuple[str, ...]
    traffic: Float64s
    dwell: float
    means: Means
    own: OwnSpread
    unknown: float

    def belief(self, day: str, means: HatMeans, upper_kmh: float) -> HatBelief:
        """Estimates HATs that the state has taken in, from them and all else in it. A day not kept is a usual one.

        What describes the HAT, moved towards its own noisy mean as far as that is to be believed, less the usual pull,
        as far as releases show one. What a mechanism does beside that, and its own variance, come of the same reports
        that it takes away: it counts against the noisy mean as far as the pull is shown. Of the interval all of it
        counts, since the pull hardly tells how uneven it is.
        Not known is a city whose pattern, by the model's own account, is missed by more than MOST_HAT_UNKNOWN of what
        its true mean misses; in that slot, or in a whole day.
        """
        rows = np.searchsorted(self.whole.cells, means.cells)
        pull, unsure = (
            np.where(means.is_noisy, column, 0.0) for column in (means.errors.pull_kmh, means.errors.pull_sd_kmh)
        )
        more, weights = np.zeros((self.design.cells, 1, 2)), np.zeros((self.design.cells, 1))
        more[rows, 0] = np.stack([means.dwell - self.dwell, pull], axis=-1)
        weights[rows, 0] = means.vehicles
        deviations, hours = self._deviations(day), np.array([means.hour])
        described = _described(self.means, self.design, deviations, hours, more, self.traffic[:, hours])[rows, 0]
        spread = spread_of(self.means, deviations, hours, self.traffic[:, hours], weights, more)
        values, variances = self._believed(means, described, spread.variances[rows, 0])
        reach = Z95 * np.sqrt(variances)
        value, lower, upper = (
            rounded(np.clip(column, 0, upper_kmh)) for column in (values, values - reach, values + reach)
        )
        unknown = max(self.unknown, _unknown(spread, float(np.average(unsure, weights=means.vehicles))))
        return HatBelief(value, lower, upper, unknown <= fitted.MOST_HAT_UNKNOWN)

    def _believed(self, means: HatMeans, described: Float64s, variances: Float64s) -> tuple[Float64s, Float64s]:
        """Estimates true means and their variances, (hats,) each, from the released ones and what describes those."""
        noisy, shown = means.is_noisy, self.pulls * self.own.of_one / USUAL.of_one
        true = np.where(noisy, described - shown * means.errors.pull_kmh, described)
        own = self.own.of(means.vehicles, means.reports, true)
        part = np.where(noisy, own / (own + means.errors.noise + min(shown, 1.0) * means.otherwise), 0.0)
        uneven = uneven_variances(self.own, means.vehicles, means.reports, means.heaviest, true)
        beside = np.where(noisy, fitted.OF_TRUE * means.uneven + means.errors.pull_sd_kmh**2, uneven)
        of_described = np.where(noisy, 1.0, fitted.UNLIKE) * variances
        return true + part * (means.values - described), (1 - part) ** 2 * of_described + (1 - part) * own + beside

    @property
    def pulls(self) -> float:
        """What part of the usual pull releases show, from 0 to 1: all of it before any of them."""
        return float(np.clip(self.means.effects[self.design.columns + 1] / fitted.PULL, 0, 1))

    @property
    def smoothness(self) -> Smoothness:
        return self.means.solved.smoothness

    def _deviations(self, day: str) -> Deviations:
        older = len(self.means.own) - len(self.days)
        return self.means.deviations(older + self.days.index(day) if day in self.days else 0)


def learned_hats(state: HatState, design: Design, smoothness: Smoothness | None = None) -> LearnedHats:
    """Fits the model to a state.

    design: of the state's cells, of which there must be one. smoothness: that of earlier days, or None.
    """
    layout, whole = EffectLayout(design, _FURTHER), state.whole
    usual = np.maximum(whole.vehicles / np.maximum(whole.slots, 1), fitted.FEWEST)
    traffic, dwell = traffic_of(usual), float(whole.dwelt.sum() / max(whole.precision.sum(), 1e-300))
    days = [day.sums.on(whole.cells) for day in state.days]

    def said(sums: HatSums, days: int = 1) -> DayInformation:
        last = np.concatenate([_more(sums, dwell), traffic[..., None]], axis=-1)
        return DayInformation(hat_information(layout, sums.precision, sums.mean(sums.weighted), last), days)

    states = [said(day) for day in days]
    if state.older_names:
        states.insert(0, said(state.older.on(whole.cells), len(state.older_names)))
    means = fit_means(layout, states, BEFORE, smoothness)
    older = len(states) - len(days)
    missed = (_missed(means, design, older + index, day, dwell, traffic) for index, day in enumerate(days))
    spread = spread_of(means, means.deviations(len(states) - 1), _DAY, traffic, whole.vehicles, _more(whole, dwell))
    unsure = float(np.average(whole.mean(whole.unsure), weights=whole.vehicles))
    names = tuple(day.name for day in state.days)
    variances = learned_variances(missed)
    return LearnedHats(design, whole, names, traffic, dwell, means, variances, _unknown(spread, unsure))


def _more(sums: HatSums, dwell: float) -> Float64s:
    """Says of each HAT what its dwell is above the mean, and its usual pull; (cells, 24, 2)."""
    around = np.where(sums.precision > 0, sums.mean(sums.dwelt) - dwell, 0.0)
    return np.stack([around, sums.mean(sums.pulled)], axis=-1)


def _described(
    means: Means, design: Design, deviations: Deviations, hours: Int64s, more: Float64s, traffic: Float64s
) -> Float64s:
    """Computes what the released means lie around, (cells, slots). more: (cells, slots, 2)."""
    described: Float64s = means.described(design, hours, traffic) + deviations.values[hours]
    return described + more @ means.effects[design.columns : -1]


def _missed(means: Means, design: Design, day: int, sums: HatSums, dwell: float, traffic: Float64s) -> Missed:
    """Computes how far the HATs that teach of one of the fitted days lie from what the model makes of them."""
    more, deviations, taught = _more(sums, dwell), means.deviations(day), sums.taught > 0
    described = _described(means, design, deviations, _DAY, more, traffic)[taught]
    variances = variances_of(means, deviations, _DAY, np.concatenate([more, traffic[..., None]], axis=-1))[taught]
    vehicles, reports = sums.vehicles[taught], sums.reports[taught]
    noise = np.maximum(1 / sums.precision[taught] - USUAL.of(vehicles, reports), 0.0)
    squares = (sums.mean(sums.weighted)[taught] - described) ** 2
    return Missed(squares, variances, noise, vehicles, reports, described)


def _unknown(spread: MeanUncertainty, unsure_kmh: float) -> float:
    """Computes what part of the city's pattern is not known.

    unsure_kmh: how far all values may be pulled more, or less, than they usually are.
    """
    return spread.unknown + unsure_kmh**2 / spread.constant
