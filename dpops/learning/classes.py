"""Distributions of cells' speeds over classes: posteriors, and quantiles.

Releases are noisy weights by cell and class. The log of a cell's weight in a class is normal around the city's, which
is learned from all cells. Cells differ in total weight, by a tilt (e to a multiple of the speed, which moves the mean),
and smoothly otherwise. A cell's mean from coarser levels is one more observation. Source: docs/released.md, "Under a
small total". In arrays the last axis is of classes, of which the first is standing, 0 km/h.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.spread import FLEET_SD, Z95, growth
from dpops.types import Float64s, Int64s

_CITY_ROUNDS, _CELL_ROUNDS, _TILT_ROUNDS = 6, 8, 40  # updates of the city; Newton steps of cells in each, and of tilts
_MOST_STEP, _LEAST_LOG, _MOST_LOG = 1, -12, 12
"""Largest step, and bounds, of log weights, so that exp stays finite where noise is all that is released."""
_UNIFORM_SD = math.sqrt(1 / 12)  # of a uniform distribution over a class, in widths of the class
_LEAST_VARIANCE = 1  # (km/h)^2, of a distribution's speeds, as a divisor: it is 0 where one class has all


@dataclass(frozen=True)
class ClassSums:
    """Days' class weights times precision, summed, (cells, classes); summed precisions, (classes,)."""

    weights: Float64s
    precisions: Float64s
    days: int = 0

    @staticmethod
    def none(cells: int, classes: int) -> "ClassSums":
        """Creates sums of no day."""
        return ClassSums(np.zeros((cells, classes)), np.zeros(classes))

    def after(self, weights: Float64s, variances: Float64s) -> "ClassSums":
        """Adds a day's noisy weights, (cells, classes), with noise variances, (classes,)."""
        return ClassSums(self.weights + weights / variances, self.precisions + 1 / variances, self.days + 1)


class OfCells(NamedTuple):
    """Cells' relative weights, usual mean speeds, km/h, and these means' variances, (cells,) each."""

    weights: Float64s
    means: Float64s
    variances: Float64s


@dataclass(frozen=True)
class ClassFit:
    """Posterior of cells' usual distributions.

    edges: (classes + 1,), from 0 to the upper bound, km/h. logs: posterior means of log weights, (cells, classes).
    covariances: of these, (cells, classes, classes).
    """

    edges: Float64s
    logs: Float64s
    covariances: Float64s

    @cached_property
    def shares(self) -> Float64s:
        """Shares of classes, (cells, classes)."""
        return _shares(self.logs)

    @property
    def speeds(self) -> Float64s:
        """Typical speed of each class, km/h."""
        return middles(self.edges)

    @property
    def means(self) -> Float64s:
        """Mean speeds, km/h, (cells,)."""
        return np.asarray(self.shares @ self.speeds)

    @property
    def mean_variances(self) -> Float64s:
        """Variances of `means`, (cells,)."""
        slopes = self.shares * (self.speeds - self.means[:, None])  # derivatives of the mean by log weights
        return np.asarray(np.einsum("ci,cij,cj->c", slopes, self.covariances, slopes))


class Quantiles(NamedTuple):
    """Quantiles with 95 % intervals, km/h, (targets, ..) each."""

    values: Float64s
    lower95: Float64s
    upper95: Float64s


def middles(edges: Float64s) -> Float64s:
    """Computes class speeds: middles of edges; 0 for standing."""
    return np.append(0.0, (edges[1:-1] + edges[2:]) / 2)


def learn_classes(sums: ClassSums, cells: OfCells, edges: Float64s, day_weight: float) -> ClassFit:
    """Fits log weights of cells given the city's, and the city's in turn.

    sums: (cells, classes), with precisions (classes,). cells: from coarser levels; their means are observations here.
    edges: of classes, km/h. day_weight: declared total weight of a day, which the city's prior mean shares out evenly.
    """
    speeds, classes = middles(edges), edges.size - 1
    measured = sums.weights / np.maximum(sums.precisions, 1e-300)  # sums have precision as factor: mean of days, or 0
    precision: Float64s = _inverted(prior_covariance(edges))  # of a cell around the city
    city_precision: Float64s = _inverted(_city_covariance(classes))
    offset = np.log(np.maximum(cells.weights / cells.weights.sum(), 1e-9))[:, None]  # of a cell's log weight; finite
    prior_mean = np.full(classes, np.log(day_weight / classes))
    city, logs = prior_mean, prior_mean + offset  # log weights, (classes,) and (cells, classes)
    for _ in range(_CITY_ROUNDS):
        for _ in range(_CELL_ROUNDS):  # Newton steps; information: about minus the Hessian, (cells, classes, classes)
            gradient, information = _gradient_and_information(logs, measured, sums.precisions, cells, speeds)
            posterior_gradient = gradient - (logs - city - offset) @ precision
            step = np.linalg.solve(information + precision, posterior_gradient[..., None])[..., 0]
            logs = np.clip(logs + np.clip(step, -_MOST_STEP, _MOST_STEP), _LEAST_LOG, _MOST_LOG)
        gradient, information = _gradient_and_information(logs, measured, sums.precisions, cells, speeds)
        covariances: Float64s = _inverted(information + precision)
        city, city_covariance = _fit_city(prior_mean, city_precision, logs - offset, gradient, information, covariances)
    return ClassFit(edges, logs, _with_city(covariances, precision, city_covariance))  # the city's error counts too


def prior_covariance(edges: Float64s) -> Float64s:
    """Computes the prior covariance of a cell's log weights around the city's, (classes, classes)."""
    # Three independent parts: a tilt that moves the mean of even shares by PLACES_KMH; and, each of standard deviation
    # FLEET_SD, a total weight common to all classes and a smooth curve (squared exponential; its ridge: invertible).
    classes, index, speeds = edges.size - 1, np.arange(edges.size - 1), middles(edges)
    tilt = fitted.PLACES_KMH * (speeds - speeds.mean()) / speeds.var()
    kernel = np.exp(-0.5 * (index[:, None] - index) ** 2) + 0.01 * np.eye(classes)
    return np.asarray(np.outer(tilt, tilt) + FLEET_SD**2 * (1 + kernel))  # 1: of the total, in all classes alike


def _city_covariance(classes: int) -> Float64s:
    """Computes the city's prior covariance: of a total weight and, independently, of each class."""
    return FLEET_SD**2 * (np.eye(classes) + 1)


def _gradient_and_information(
    logs: Float64s, measured: Float64s, precisions: Float64s, cells: OfCells, speeds: Float64s
) -> tuple[Float64s, Float64s]:
    """Computes log-likelihood gradients and Gauss-Newton information by log weights.

    Observed are cells' means, and class weights: `measured`, (cells, classes), of `precisions`. speeds: of classes.
    """
    weights, shares = np.exp(logs), _shares(logs)  # weights are their own derivatives by log weights
    means = shares @ speeds
    slopes = shares * (speeds - means[:, None])  # derivatives of the mean by log weights
    mean_precisions = 1 / (cells.variances + fitted.FLOOR_VARIANCE)  # means of very many vehicles vary too
    gradient = (measured - weights) * weights * precisions + slopes * ((cells.means - means) * mean_precisions)[:, None]
    information = slopes[:, :, None] * slopes[:, None, :] * mean_precisions[:, None, None]
    index = np.arange(speeds.size)
    information[:, index, index] += weights**2 * precisions
    return gradient, information


def _fit_city(
    mean: Float64s, precision: Float64s, logs: Float64s, gradient: Float64s, information: Float64s, covariance: Float64s
) -> tuple[Float64s, Float64s]:
    """Fits the city's log weights by generalised least squares; returns mean and covariance.

    A cell's likelihood is quadratic near its `logs`: it is as if z = logs + A^-1 gradient were observed with precision
    A (`information`). Around the city z has the covariance P + A^-1, P of cells around the city, whose inverse is
    A - A (P^-1 + A)^-1 A (Woodbury).

    mean, precision: the city's prior. logs: less cells' offsets. covariance: (P^-1 + A)^-1, (cells, classes, classes).
    """
    information_covariance = information @ covariance
    information_z = np.einsum("cij,cj->ci", information, logs) + gradient  # A z, as A may have no inverse
    weighted_z = information_z - np.einsum("cij,cj->ci", information_covariance, information_z)  # (P + A^-1)^-1 z
    city_covariance: Float64s = _inverted(precision + (information - information_covariance @ information).sum(axis=0))
    return city_covariance @ (precision @ mean + weighted_z.sum(axis=0)), city_covariance


def _with_city(covariances: Float64s, precision: Float64s, city: Float64s) -> Float64s:
    """Adds the city's covariance to cells' given the city (law of total variance)."""
    slopes = covariances @ precision  # of a cell's posterior mean by the city's, its prior mean
    return np.asarray(covariances + slopes @ city @ slopes.transpose(0, 2, 1))


def _shares(logs: Float64s) -> Float64s:
    """Computes the softmax over classes, the last axis."""
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def tilted(posterior: ClassFit, means: Float64s) -> Float64s:
    """Tilts usual distributions to means, (cells, times) km/h; returns shares, (cells, times, classes).

    The usual one times e to a multiple of the speed is the nearest in relative entropy that has the mean. The multiple
    is found by Newton's steps: the mean's derivative by it is the variance.
    """
    speeds = posterior.speeds
    margin = speeds[-1] / 100  # the means of standing and of the fastest class have an infinite multiple
    target = np.clip(means, margin, speeds[-1] - margin)
    logs, multiple = np.log(posterior.shares)[:, None, :], np.zeros(means.shape)
    largest_step = 4 / speeds[-1]  # changes the odds of the fastest class to standing by at most e^4
    for _ in range(_TILT_ROUNDS):
        shares = _shares(logs + multiple[..., None] * speeds)
        mean = shares @ speeds
        variance = np.maximum(shares @ speeds**2 - mean**2, _LEAST_VARIANCE)
        multiple = multiple + np.clip((target - mean) / variance, -largest_step, largest_step)
    return _shares(logs + multiple[..., None] * speeds)


def quantiles(
    posterior: ClassFit, shares: Float64s, targets: tuple[float, ...], mean_variances: Float64s, visits: Float64s
) -> Quantiles:
    """Reads speed quantiles and intervals off tilted class distributions.

    A distribution function reaches a target where its upper and lower bounds reach it at lower and at higher speeds.
    Where in its class a speed lies is unknown too, with the deviation of a uniform law: squares of both errors add up.
    A value of standing is 0 km/h, and an upper bound in that class is its end; a value in the open last class has the
    speed bound as its upper one.

    shares: (cells, times, classes). targets: shares of reports, such as .85. mean_variances: of the means that shares
    were tilted to, visits: numbers of independent visits behind reports, (cells, times) each.
    """
    cdf = _below(shares)  # share below each edge, (cells, times, edges)
    sd = np.sqrt(_variances(posterior, shares, cdf, mean_variances, visits))  # of these shares
    highest, lowest = (np.clip(cdf + sign * Z95 * sd, 0, 1) for sign in (1, -1))
    # Bounds of a distribution function rise like the function itself.
    highest = np.maximum.accumulate(highest, axis=-1)
    lowest = np.minimum.accumulate(lowest[..., ::-1], axis=-1)[..., ::-1]
    edges, target = posterior.edges, np.array(targets)[:, None, None]  # from here on arrays are (targets, cells, times)
    crossing, index = _inverse(edges, cdf, target)  # speeds, and the classes that they lie in
    (lower, lower_index), (upper, upper_index) = (_inverse(edges, bound, target) for bound in (highest, lowest))
    value, class_error_kmh = np.where(index == 0, 0.0, crossing), Z95 * _UNIFORM_SD * np.diff(edges)
    lower = np.maximum(value - np.hypot(np.maximum(value - lower, 0.0), class_error_kmh[lower_index]), 0.0)
    upper = np.minimum(value + np.hypot(np.maximum(upper - value, 0.0), class_error_kmh[upper_index]), edges[-1])
    return Quantiles(
        value,
        np.where(lower_index == 0, 0.0, lower),
        np.where(upper_index == 0, edges[1], np.where(index == edges.size - 2, edges[-1], upper)),  # the last class
    )


class ExpectedCell(NamedTuple):
    """Public facts of a cell: expected class weights, (classes,), and number of visits.

    mean_variance: of the usual mean that coarser levels tell. day_variance: of a day's mean around the usual one.
    """

    weights: Float64s
    mean_variance: float
    day_variance: float
    visits: float


def expected_error(
    edges: Float64s, cell: ExpectedCell, precisions: Float64s, target: float, typical: tuple[Float64s, int] | None
) -> float:
    """Forecasts the mean absolute error of a cell's daily percentile, km/h.

    edges: of classes, km/h. cell: see `ExpectedCell`; variances are of its usual and of a day's mean. precisions: of
    released class weights, (classes,). target: the percentile's share. typical: weights of a typical cell, and the
    number of cells, from which the city is learned; None if it is known.
    """
    cell_prior: Float64s = _inverted(prior_covariance(edges))  # precision of a cell around the city
    logs, _, covariances = _expected_posterior(edges, cell.weights, precisions, cell.mean_variance, cell_prior)
    if typical is not None:  # the city is learned from its cells: its error adds to the cell's
        weights, cells = typical
        _, information, covariance = _expected_posterior(edges, weights, precisions, cell.mean_variance, cell_prior)
        # As in `_fit_city`: a cell tells the city (A^-1 + P)^-1 = A - A (P^-1 + A)^-1 A, P^-1: `cell_prior`.
        precision_per_cell = (information - information @ covariance @ information)[0]  # [0]: the only cell
        city_precision = _inverted(_city_covariance(logs.size)) + cells * precision_per_cell
        covariances = _with_city(covariances, cell_prior, _inverted(city_precision))
    posterior = ClassFit(edges, logs, covariances)
    shares = posterior.shares[:, None]  # (1, 1, classes): one cell, one time
    cdf, mean_variances = _below(shares), posterior.mean_variances[:, None] + cell.day_variance
    visits = np.full((1, 1), cell.visits)
    share_sd = np.sqrt(_variances(posterior, shares, cdf, mean_variances, visits))[0, 0]  # of shares below edges
    speed, speed_class = (values[0, 0] for values in _inverse(edges, cdf, target))  # where the cdf reaches the target
    # Delta method: a share's error over the density, per km/h; sqrt(2 / pi) makes a normal sd a mean absolute error.
    density = shares[0, 0, speed_class] / np.diff(edges)[speed_class]
    return float(math.sqrt(2 / math.pi) * np.interp(speed, edges, share_sd) / density)


def _expected_posterior(
    edges: Float64s, weights: Float64s, precisions: Float64s, mean_variance: float, prior_precision: Float64s
) -> tuple[Float64s, Float64s, Float64s]:
    """Computes an expected cell's log weights, information of data, covariance given the city.

    edges: (classes + 1,), km/h. weights: expected, (classes,), each released with its precision. mean_variance: of the
    cell's mean from coarser levels, (km/h)^2. prior_precision: around the city, (classes, classes).
    """
    logs, speeds = np.log(weights)[None], middles(edges)  # (1, classes): one cell
    # The one cell has all of the weight; its mean is the expected one.
    means = OfCells(weights=np.ones(1), means=_shares(logs) @ speeds, variances=np.full(1, mean_variance))
    _, information = _gradient_and_information(logs, weights[None], precisions, means, speeds)
    return np.asarray(logs, np.float64), information, _inverted(information + prior_precision)


def _inverted(matrices: Float64s) -> Float64s:
    """Inverts matrices, float64."""
    return np.linalg.inv(matrices).astype(np.float64, copy=False)


def _below(shares: Float64s) -> Float64s:
    """Sums shares below each edge, (.., classes + 1)."""
    result: Float64s = np.concatenate([np.zeros((*shares.shape[:-1], 1)), np.cumsum(shares, axis=-1)], axis=-1)
    return np.minimum(result, 1.0)


def _variances(
    posterior: ClassFit, shares: Float64s, cdf: Float64s, mean_variances: Float64s, visits: Float64s
) -> Float64s:
    """Computes variances of shares below edges, (cells, times, edges), by the delta method.

    Three errors add up. The mean, given, tilts shares. The shape, given the mean, errs by posterior covariances. And
    few visits sample the distribution: reports of a visit correlate by the part of speeds' variance that lies between
    vehicles, so the day's share varies as that of a binomial law, less what the day's mean explains.
    """
    speeds, edge_indices = posterior.speeds, np.arange(posterior.edges.size)
    means = shares @ speeds
    speed_variances = np.maximum(shares @ speeds**2 - means**2, _LEAST_VARIANCE)
    is_below = (np.arange(speeds.size) < edge_indices[:, None]).astype(np.float64)  # (edges, classes)
    # Derivatives of shares below edges: by the mean, through the tilt, covariance with speed over its variance; by log
    # weights, (.., classes); then by log weights at a fixed mean.
    mean_slopes = ((shares * speeds) @ is_below.T - cdf * means[..., None]) / speed_variances[..., None]
    slopes = shares[..., None, :] * (is_below - cdf[..., None])
    slopes = slopes - mean_slopes[..., None] * (shares * (speeds - means[..., None]))[..., None, :]
    # Axes: cell, time, edge, class i, class j.
    of_shape = np.einsum("ctei,cij,ctej->cte", slopes, posterior.covariances, slopes, optimize=True)
    of_report = np.maximum(cdf * (1 - cdf) - mean_slopes**2 * speed_variances[..., None], 0.0)
    correlation = np.minimum(growth(means) * fitted.VEHICLE_VARIANCE / speed_variances, 1.0)  # faster ones differ more
    of_visits = of_report * (correlation / np.maximum(visits, 1.0))[..., None]
    return np.asarray(of_shape + mean_slopes**2 * mean_variances[..., None] + of_visits)


def _inverse(edges: Float64s, cdf: Float64s, target: Float64s | float) -> tuple[Float64s, Int64s]:
    """Interpolates where `cdf`, (.., edges), reaches targets: speeds, km/h, and their classes."""
    index = np.sum(cdf[..., 1:-1] < np.asarray(target)[..., None], axis=-1)  # of the class, by inner edges below
    cdf = np.broadcast_to(cdf, (*index.shape, edges.size))
    start, end = (np.take_along_axis(cdf, index[..., None] + offset, -1)[..., 0] for offset in (0, 1))
    fraction = np.clip((target - start) / np.maximum(end - start, 1e-12), 0.0, 1.0)  # never divided by 0
    return edges[index] + fraction * (edges[index + 1] - edges[index]), index
