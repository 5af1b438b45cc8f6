"""How busy places are: what each may weigh, by its own noisy sum and by how the weights of all are spread."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.laplace_sums import surprise
from dpops.learning.place_sums import PlaceSums
from dpops.types import Float64s, Int64s

RATIOS = np.concatenate([[0.0], np.geomspace(0.01, 110, 32)])
"""What a place may weigh, where 1 is what is expected of it."""
_TINY = 1e-12
_CHUNK = 512
_NEAR = np.linspace(-4, 4, RATIOS.size)


class Traffic(NamedTuple):
    """expected: float64 (places,), what each is expected to weigh. ratios: probabilities of RATIOS, whose mean is 1."""

    expected: Float64s
    ratios: Float64s


class _Told(NamedTuple):
    """Float64 (places, RATIOS). weights: that each place may have; log: how well its sum fits them, as a logarithm.

    low, part: which of RATIOS each lies above, and how far on to the next; density: how many of these a weight has.
    """

    weights: Float64s
    log: Float64s
    low: Int64s
    part: Float64s
    density: Float64s


def learned_traffic(sums: PlaceSums, expected: Float64s, sizes: Float64s | None = None) -> Traffic:
    """Finds how far cells' traffic and places' sizes tell of places' own, and how these are spread around it.

    By the likelihood of what was released of all weights. Of LAWS none is chosen: each counts as far as it is likely,
    so that what releases leave open stays open. (The likeliest probabilities of RATIOS take expectation-maximisation
    hundreds of rounds; until then they are too wide, and places that look busy are believed to be.) expected: float64
    (places,), above 0, by cells' traffic. sizes: likewise, as `Around` has them.
    """
    if not sums.days:
        return Traffic(expected, LAWS.mean(axis=0))
    candidates = []
    for tried in _tried(expected, sizes):
        logs = np.sum([_of_laws(sums, tried[chosen], chosen) for chosen in chunks(expected.size)], axis=0)
        candidates.append((float(np.logaddexp.reduce(logs)), Traffic(tried, _mixed(logs))))
    return max(candidates, key=lambda candidate: candidate[0])[1]


def _tried(expected: Float64s, sizes: Float64s | None) -> Iterator[Float64s]:
    """Yields what places may be expected to weigh, by powers of both; all add up to the same."""
    for power in np.linspace(0, 1, 4):
        for size_power in (0.0,) if sizes is None else np.linspace(0, 1, 3):
            tried = expected**power * (1.0 if sizes is None else sizes**size_power)
            yield tried * (expected.sum() / tried.sum())


def nodes(ratios: Float64s, sums: PlaceSums, expected: Float64s, chosen: slice) -> tuple[Float64s, Float64s]:
    """Lists weights that places may have, (places, RATIOS), and the logarithm of how likely each is: by the place's own
    sum, and as all are spread. expected: of the chosen ones."""
    told = _told(sums, expected, chosen)
    part, next_one = told.part, np.minimum(told.low + 1, RATIOS.size - 1)
    before = told.density * ((1 - part) * ratios[told.low] + part * ratios[next_one])
    return told.weights, told.log + np.log(before + _TINY)


def chunks(places: int) -> list[slice]:
    """Cuts places into parts of so many as are looked at together."""
    return [slice(start, min(start + _CHUNK, places)) for start in range(0, max(places, 1), _CHUNK)]


def _mixed(logs: Float64s) -> Float64s:
    likely = np.exp(logs - logs.max())
    result: Float64s = likely @ LAWS / likely.sum()
    return result


def _of_laws(sums: PlaceSums, expected: Float64s, chosen: slice) -> Float64s:
    """Computes the logarithm of the likelihood of each of LAWS."""
    told = _told(sums, expected, chosen)
    likely = told.density * np.exp(told.log - told.log.max(axis=1, keepdims=True))
    grid, rows = np.zeros(likely.shape), np.arange(len(likely))[:, None]
    np.add.at(grid, (rows, told.low), (1 - told.part) * likely)
    np.add.at(grid, (rows, np.minimum(told.low + 1, RATIOS.size - 1)), told.part * likely)
    result: Float64s = np.sum(np.log(grid @ LAWS.T + _TINY), axis=0)
    return result


def _told(sums: PlaceSums, expected: Float64s, chosen: slice) -> _Told:
    """Picks weights near what was measured where that is well above 0, for RATIOS lie too far apart there."""
    precision = max(sums.weight_precision, _TINY)
    seen = sums.weights[chosen] / precision
    sure = seen > fitted.SURE / np.sqrt(precision)
    weights = np.where(sure[:, None], seen[:, None] + _NEAR / np.sqrt(precision), RATIOS * expected[:, None])
    low = np.broadcast_to(np.arange(RATIOS.size), weights.shape).copy()
    part, density = np.zeros(weights.shape), np.ones(weights.shape)
    if sure.any():
        ratio = weights[sure] / expected[sure, None]
        position = np.clip(1 + np.log(ratio / RATIOS[1]) / np.log(RATIOS[2] / RATIOS[1]), 1, RATIOS.size - 1)
        low[sure] = position.astype(np.int64)
        part[sure], density[sure] = position - low[sure], 1 / ratio
    off = np.sqrt(precision) * (weights - seen[:, None])
    log = -surprise(off, sums.days) if sums.is_laplace else -0.5 * off**2
    return _Told(weights, log, low, part, density)


def _laws() -> Float64s:
    """Tabulates laws: a part of places is not visited; others weigh by a lognormal or a Gamma law; the mean is 1."""
    laws = []
    for part in np.linspace(0, fitted.MOST_UNVISITED, 7):
        ratios = RATIOS[1:] * (1 - part)  # the mean of those that are visited is 1
        for sd in np.geomspace(*fitted.PLACE_TRAFFIC_SDS, 9):
            lognormal = -0.5 * (np.log(ratios) / sd + sd / 2) ** 2
            gamma = (np.log(ratios) - ratios + 1) / np.expm1(sd**2)  # of the same variance
            for density in (np.exp(lognormal), np.exp(gamma)):
                laws.append(_anchored(np.concatenate([[part], (1 - part) * density / density.sum()])))
    return np.array(laws)


def _anchored(counts: Float64s) -> Float64s:
    """Finds the likeliest probabilities of RATIOS whose mean is 1. counts: how much speaks for each, adds up to 1."""
    low, high = -1 / (RATIOS[-1] - 1) * (1 - 1e-9), 1 - 1e-9
    counts = (counts + 1e-9) / (1 + 1e-9 * counts.size)
    for _ in range(60):
        middle = (low + high) / 2
        result = counts / (1 + middle * (RATIOS - 1))
        if result @ RATIOS / result.sum() > 1:
            low = middle
        else:
            high = middle
    probabilities: Float64s = result / result.sum()
    return probabilities


LAWS = _laws()
"""How RATIOS may be spread, float64 (laws, RATIOS)."""
