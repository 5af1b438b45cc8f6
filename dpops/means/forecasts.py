"""Forecasts of many HATs at once: bit by bit what each mechanism forecasts of every HAT alone, in vectors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dpops.forecast import Float64s, Prior, clamped_errors, normal_scores
from dpops.means.array_layouts import USUAL, Layout, layout, of_one_size, sizes_of, stacked
from dpops.means.arrays import AT_LEAST_BETWEEN, FEW, FINE, Rule
from dpops.types import CountsKnown, Grid, Int64s

_CHUNK = 256
"""HATs of which the matrices of a forecast are made at once."""
_EXACT = 1 << 53
"""Integers below it are floats."""
_MOST_NOISE = 1 << 48
"""Far below the scale that a plan refuses."""


class LaidMany(NamedTuple):
    """What forecasts need of the arrays of each HAT, (HATs,) each: m_UB, how many, fine steps that one user moves their
    sum by, and standard deviations: of (mean of array means - mean of all samples), and of an array's expected mean."""

    m_ub: Int64s
    arrays: Int64s
    moved: Int64s
    spread: Float64s
    sd: Float64s


@dataclass(frozen=True)
class Many:
    """HATs of usual sizes, and how they are planned. counts: a matrix (HATs, users) of each number of users, each user
    with a sample or more, descending. All columns of HATs are in this order, one matrix behind another."""

    counts: tuple[Int64s, ...]
    grid: Grid
    epsilon: Fraction
    prior: Prior
    _laid: dict[Rule, LaidMany] = field(default_factory=dict, repr=False)

    @property
    def upper(self) -> float:
        return float(self.grid.upper)

    @property
    def samples(self) -> Int64s:
        found: Int64s = self.of_each(lambda counts: counts.sum(axis=1))
        return found

    @property
    def heaviest(self) -> Int64s:
        found: Int64s = self.of_each(lambda counts: counts[:, 0])
        return found

    def of_each(self, column: Callable[[Int64s], Any]) -> Any:
        """A column of all HATs, from that of the HATs of a matrix."""
        return np.concatenate([column(counts) for counts in self.counts])

    def laid(self, m_ub: Rule) -> LaidMany:
        """By BestFit; remembered, as several mechanisms share a rule."""
        if m_ub not in self._laid:
            found = [self._laid_out(counts, m_ub) for counts in self.counts]
            self._laid[m_ub] = LaidMany(*(np.concatenate(column) for column in zip(*found, strict=True)))
        return self._laid[m_ub]

    def _laid_out(self, counts: Int64s, m_ub: Rule) -> LaidMany:
        laid = layout(counts, self.grid, self.epsilon, m_ub)
        spread = spreads(self.prior, laid.weight - counts / counts.sum(axis=1)[:, None], counts)
        return LaidMany(laid.length, laid.arrays, laid.moved, spread, _deviations(laid, self.prior))


@runtime_checkable
class ForecastsTogether(Protocol):
    """A mechanism that forecasts many HATs at once."""

    def forecasts(self, hats: Many) -> Float64s:
        """What `forecast` says of each HAT, float64 (HATs,)."""
        ...


def usual(known: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[list[int]]:
    """Where HATs stand of which no mechanism refuses a plan, by their number of users, if they are worth a matrix."""
    most = min(USUAL, int(_MOST_NOISE * epsilon) // (4 * FINE)) // grid.upper_steps

    def fits(each: CountsKnown) -> bool:
        return int(each.counts.sum()) <= each.reported <= most and int(each.counts.min()) >= 1

    groups = [[at for at in mine.tolist() if fits(known[at])] for mine in of_one_size(sizes_of(known))]
    return [mine for mine in groups if mine]


def many_of(known: Sequence[Sequence[CountsKnown]], grid: Grid, epsilon: Fraction, prior: Prior) -> Many:
    """known: HATs of one number of users each."""
    return Many(tuple(stacked(each)[0] for each in known), grid, epsilon, prior)


def spreads(prior: Prior, weights: Float64s, counts: Int64s) -> Float64s:
    """`Prior.spread` of each HAT. weights, counts: (HATs, users)."""
    found: Float64s = np.sqrt(((weights * prior.mean_sd(counts)) ** 2).sum(axis=1))
    return found


def _deviations(laid: Layout, prior: Prior) -> Float64s:
    """Of an array's mean; an array of several users averages out what lies between them."""
    hats, users = laid.array.shape
    places = (np.arange(hats)[:, None] * users + laid.array).ravel()
    inside = np.bincount(places, minlength=hats * users).reshape(hats, users)
    between, found = max(prior.between, AT_LEAST_BETWEEN), np.zeros(hats)
    for number, mine in groups_of(laid.arrays):
        variance = between / inside[mine, :number] + (1 - between) / laid.fills[mine, :number]
        found[mine] = prior.sd * np.sqrt(variance.mean(axis=1))
    return found


def quotients(over: Int64s, under: Int64s, factor: Fraction) -> Float64s:
    """over / under * factor, correctly rounded, as floats of fractions are."""
    top, bottom = factor.numerator, factor.denominator
    if int(over.max(initial=0)) * top < _EXACT and int(under.max(initial=0)) * bottom < _EXACT:
        found: Float64s = (over * top) / (under * bottom)
        return found
    pairs = zip(over.tolist(), under.tolist(), strict=True)
    return np.array([a * top / (b * bottom) for a, b in pairs], np.float64)


def errors_around(hats: Many, spread: Float64s, scale: Float64s, points: int = 32) -> Float64s:
    """Mean errors over the means that a HAT may have, if the bias has that standard deviation and noise that scale."""
    means, scores, found = hats.prior.hat_means(hats.upper)[:, None], normal_scores(points), np.zeros(spread.size)
    for some in chunks(spread.size):
        bias = spread[some, None, None] * scores
        errors = clamped_errors(means, hats.upper, bias, scale[some, None, None])
        found[some] = errors.reshape(errors.shape[0], -1).mean(axis=1)
    return found


def chunks(hats: int) -> Iterator[slice]:
    return (slice(start, start + _CHUNK) for start in range(0, hats, _CHUNK))


def groups_of(column: Int64s) -> list[tuple[int, Int64s]]:
    """Each value, and where it stands."""
    return [(value, np.flatnonzero(column == value)) for value in np.unique(column).tolist()]


def array_means_of(hats: Many, laid: LaidMany) -> Iterator[tuple[Int64s, list[Float64s]]]:
    """HATs with equally many arrays, and `arrays.expected_means` of them: float64 (HATs, arrays) of each equally likely
    case."""
    for arrays, whole in groups_of(laid.arrays):
        centres = hats.prior.hat_means(hats.upper).tolist() if arrays <= FEW else [hats.prior.mean]
        for some in chunks(whole.size):
            around = laid.sd[whole[some], None] * normal_scores(arrays)
            yield whole[some], [np.clip(centre + around, 0.0, hats.upper) for centre in centres]


def rank_below(ordered: Float64s, at: Float64s, *, inclusive: bool = False) -> Int64s:
    """How many of each row's values lie below, or at, each place. ordered: (HATs, values). at: (HATs, places)."""
    compared = ordered[:, None, :] <= at[:, :, None] if inclusive else ordered[:, None, :] < at[:, :, None]
    found: Int64s = np.count_nonzero(compared, axis=2)
    return found


def expected_quantiles(values: Float64s, upper: Float64s, rank: float, epsilon: float, points: int) -> Float64s:
    """`quantile.expected_quantile` of each HAT, float64 (HATs, points). values: (HATs, values). upper: (HATs,)."""
    hats = values.shape[0]
    ends = np.concatenate([np.zeros((hats, 1)), values, upper[:, None]], axis=1)
    width = ends[:, 1:] - ends[:, :-1]
    log_weight = np.log(np.maximum(width, 1e-300)) - epsilon / 2 * np.abs(np.arange(width.shape[1]) - rank)
    reach = np.zeros(ends.shape)
    np.cumsum(np.exp(log_weight - log_weight.max(axis=1)[:, None]), axis=1, out=reach[:, 1:])
    wanted = (np.arange(points) + 0.5) / points * reach[:, -1:]
    at = rank_below(reach, wanted, inclusive=True) - 1  # as numpy.interp finds it; never the last
    low, high = (np.take_along_axis(ends, at + more, axis=1) for more in (0, 1))
    start, stop = (np.take_along_axis(reach, at + more, axis=1) for more in (0, 1))
    drawn: Float64s = (high - low) / (stop - start) * (wanted - start) + low
    return drawn


class Intervals(NamedTuple):
    """Intervals of each HAT, (HATs, intervals) each: their ends, and how many array means lie below each end."""

    low: Float64s
    high: Float64s
    below_low: Int64s
    below_high: Int64s


def interval_errors_of(hats: Many, means: Float64s, within: Intervals, sensitivity: Int64s) -> Float64s:
    """`clipped_mean.interval_errors` of each HAT. means: (HATs, arrays). sensitivity: (HATs,), of the plans."""
    arrays = means.shape[1]
    running = np.concatenate([np.zeros((means.shape[0], 1)), np.cumsum(means, axis=1)], axis=1)
    whole = running[:, -1:]
    above, below = (np.take_along_axis(running, at, axis=1) for at in (within.below_high, within.below_low))
    total = within.low * within.below_low + above - below + within.high * (arrays - within.below_high)
    widest = sensitivity[:, None] * float(hats.grid.step / FINE)
    scale = np.minimum(within.high - within.low, widest) * 2 / float(hats.epsilon) / arrays
    return clamped_errors(whole / arrays, hats.upper, (total - whole) / arrays, scale)
