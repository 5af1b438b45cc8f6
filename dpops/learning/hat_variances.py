"""How far the true mean of a HAT may lie from what describes it, and what noisy means say of that themselves."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.spread import USUAL, Spread, growth
from dpops.types import Float64s, Int64s

PRIOR_SD = np.array(fitted.SPREAD_SDS)
"""How far vehicles', reports' and the least variance may be from the usual ones, as factors, before any release."""
LEAST, MOST = np.array(fitted.LEAST_FACTORS), np.array(fitted.MOST_FACTORS)
"""Of these factors: so far releases are believed."""


def uneven_variances(spread: Spread, vehicles: Int64s, reports: Int64s, heaviest: Int64s, kmh: Float64s) -> Float64s:
    """Computes the variance that unequal numbers of reports add. heaviest: reports of the vehicle that has most."""
    variances: Float64s = growth(kmh) * spread.vehicle * fitted.UNEVEN * (heaviest / reports - 1 / vehicles)
    return variances


class Missed(NamedTuple):
    """How far noisy means lie from what the model makes of them, (hats,) each.

    squares: (km/h)^2. known: the variance of what the model makes. noise: that of the values themselves. kmh: what
    describes their HATs.
    """

    squares: Float64s
    known: Float64s
    noise: Float64s
    vehicles: Float64s
    reports: Float64s
    kmh: Float64s


def learned_variances(days: Iterable[Missed]) -> Spread:
    """Fits the variances by least squares around the usual ones, from all values of some days.

    A value lies around what the model makes of it by noise, whose variance is known, and by its HAT's own deviation.
    """
    precision = np.diag(PRIOR_SD**-2)
    value = precision @ np.ones(3)
    for day in days:
        grown = growth(day.kmh)
        of_vehicles, of_reports = grown * USUAL.vehicle / day.vehicles, grown * USUAL.report / day.reports
        parts = np.stack([of_vehicles, of_reports, np.full(grown.size, USUAL.least)])
        whole = day.noise + parts.sum(axis=0)
        leverage = day.known / (day.known + whole)
        weighted = parts / (fitted.OF_SQUARES * whole**2)
        precision = precision + weighted @ parts.T
        value = value + weighted @ (day.squares + leverage * whole - day.noise)
    vehicle, report, least = np.clip(np.linalg.solve(precision, value), LEAST, MOST).tolist()
    return Spread(vehicle * USUAL.vehicle, report * USUAL.report, least * USUAL.least)
