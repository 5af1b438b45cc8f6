"""Slow and plain reference algorithms, written from the papers' text, and the published counts if they are at hand."""

import itertools
import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpops.means.grouping import Grouping, best_fit_arrays
from dpops.mechanism import Integers, Plan, Totals, values_of
from dpops.noise import Noise
from dpops.types import Grid, Int64s

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)  # speeds up to 65 km/h

_ITMS = Path(__file__).parents[3] / "shared" / "data" / "itms_counts.json"

Arrays = list[list[int]]  # per array the users (indices) of its slots, in order


class Silent(Noise):
    """No noise: shows what would be noised."""

    def laplace(self, scales):
        return np.zeros(len(scales), np.int64)


def value_of(integers: Integers, plan: Plan) -> float:
    """What is published of one HAT."""
    return float(values_of([integers], [plan])[0])


def itms_counts() -> Int64s:
    """The counts that meet all published ITMS figures; the calling test is skipped where the file is not beside us."""
    if not _ITMS.exists():
        pytest.skip("itms_counts.json is not beside this checkout")
    return np.array(sorted(json.loads(_ITMS.read_text())["counts"], reverse=True), np.int64)


def alike(counts: Int64s, sums: Int64s) -> Totals:
    """Totals of users whose samples are within one step of one another."""
    lower, over = np.divmod(sums, counts)
    return Totals(counts, sums, (counts - over) * lower**2 + over * (lower + 1) ** 2)


def unlike(counts: Int64s, sums: Int64s, upper_steps: int) -> Totals:
    """Totals of users whose samples are all but one at 0 or at U: no others of these sums vary more."""
    full, rest = np.divmod(sums, upper_steps)
    return Totals(counts, sums, full * upper_steps**2 + rest**2)


def variance(samples: Sequence[int | Fraction]) -> Fraction:
    """The population variance, from its definition."""
    mean = Fraction(sum(samples), len(samples))
    return sum(((Fraction(x) - mean) ** 2 for x in samples), Fraction(0)) / len(samples)


def best_fit(counts: Sequence[int], m_ub: int) -> Arrays:
    """L empty bins; each user whole into the bin of largest fill with room, lowest index on ties; O(L**2)."""
    bins: Arrays = [[] for _ in counts]
    for user, count in enumerate(counts):
        kept = min(count, m_ub)
        roomy = [i for i, slots in enumerate(bins) if m_ub - len(slots) >= kept]
        chosen = max(roomy, key=lambda i: (len(bins[i]), -i))
        bins[chosen] += [user] * kept
    return [slots for slots in bins if slots]


def wrap_around(counts: Sequence[int], m_ub: int) -> Arrays:
    """The published loop: a pointer walks over the slots of an array and starts a new array at the end of each."""
    arrays: Arrays = [[]]
    for user, count in enumerate(counts):
        for _ in range(min(count, m_ub)):
            arrays[-1].append(user)
            if len(arrays[-1]) == m_ub:
                arrays.append([])
    return arrays[:-1]  # the last one is not full


def arrays_of(group: Grouping) -> Arrays:
    """The slots of a grouping, array by array."""
    arrays: Arrays = [[] for _ in range(group.fills.size)]
    for user, array, slots in zip(group.user.tolist(), group.array.tolist(), group.samples.tolist(), strict=True):
        arrays[array] += [user] * slots
    return arrays


def kept(counts: Sequence[int], m: int) -> int:
    """S(m): the samples that remain when each user is capped at m."""
    return sum(min(count, m) for count in counts)


def mean_of_arrays(arrays: Arrays, speeds: Sequence[int | Fraction], divisor: int) -> Fraction:
    """Sum of the array means over a divisor, exactly, every user at one speed."""
    return sum((sum((Fraction(speeds[u]) for u in a), Fraction(0)) / len(a) for a in arrays), Fraction(0)) / divisor


Counts = list[list[int]]  # per HAT (or grid) the samples of each user; 0 is a user who is not there


def grid_error(
    reported: Sequence[int], kept: Sequence[int], epsilon: Fraction, upper: Fraction, shares: tuple[Fraction, Fraction]
) -> Fraction:
    """E_mean + E_var + Delta_mean / (eps share) + Delta_var / (eps share), of the statistics with a share."""
    n, k, heaviest = sum(reported), sum(kept), max(kept)
    dropped = n - k
    bias_var = upper**2 * Fraction(k * dropped, n * n)
    if dropped and n <= 2 * dropped:
        bias_var = upper**2 / 4 * (1 if n % 2 == 0 else 1 - Fraction(1, n * n))
    delta_var = upper**2 * Fraction(heaviest * (k - heaviest), k * k)
    if k <= 2 * heaviest:
        delta_var = upper**2 / 4 * (1 if k % 2 == 0 else 1 - Fraction(1, k * k))
    error = Fraction(0)
    if shares[0]:
        error += upper * (1 - Fraction(k, n)) + upper * Fraction(heaviest, k) / (epsilon * shares[0])
    if shares[1]:
        error += bias_var + delta_var / (epsilon * shares[1])
    return error


def occupancies(kept: Counts) -> list[int]:
    """In how many grids each user is."""
    return [sum(counts > 0 for counts in user) for user in zip(*kept, strict=True)]


def clip_user(
    reported: Counts,
    counts: Counts,
    epsilon: Fraction,
    upper: Fraction,
    shares: tuple[Fraction, Fraction],
    *,
    choose: Callable[[list[tuple[Fraction, int]]], tuple[Fraction, int]] = min,
    may_empty: bool = False,
    undo: bool = True,
    reset: bool = False,
) -> tuple[int, Counts]:
    """The pseudo-code of algorithms 9.3, line by line; `reported` has an entry more where something is missing already.

    Returns K and what each user keeps in each grid. The last four make it a wrong one, to test the tests.
    """

    def error(grid: int, kept: Counts) -> Fraction:
        return grid_error(reported[grid], kept[grid], epsilon, upper, shares)

    grids, users = range(len(counts)), range(len(counts[0]) if counts else 0)
    threshold = max(error(g, counts) for g in grids)
    kept = counts
    while True:
        occupancy = occupancies(kept)
        top = max(occupancy)
        if top <= 1:
            return top, kept
        trial = [list(row) for row in kept]
        for user in users:
            if occupancy[user] != top:
                continue
            candidates: list[tuple[Fraction, int]] = []
            for g in grids:
                others = any(trial[g][other] > 0 for other in users if other != user)
                if trial[g][user] > 0 and (others or may_empty):
                    others_kept = counts if reset else trial
                    without = [
                        [*row[:user], 0, *row[user + 1 :]] if i == g else row for i, row in enumerate(others_kept)
                    ]
                    candidates.append((error(g, without) if others else Fraction(0), g))
            if not candidates or choose(candidates)[0] > threshold:
                return top, kept if undo else trial
            trial[choose(candidates)[1]][user] = 0
        kept = trial


def smallest_reachable(counts: Counts, epsilon: Fraction, upper: Fraction, shares: tuple[Fraction, Fraction]) -> int:
    """The least maximum occupancy of all ways to suppress whole users that keep every grid's error within E_thr."""

    def allowed(grid: int, threshold: Fraction) -> list[list[int]]:
        subsets = itertools.product(*([0, count] if count else [0] for count in counts[grid]))
        fair = (list(kept) for kept in subsets if any(kept))
        return [kept for kept in fair if grid_error(counts[grid], kept, epsilon, upper, shares) <= threshold]

    threshold = max(grid_error(row, row, epsilon, upper, shares) for row in counts)
    ways = itertools.product(*(allowed(g, threshold) for g in range(len(counts))))
    return min(max(occupancies(list(way))) for way in ways)


def minimax_thresholds(counts: Int64s) -> tuple[Fraction, Fraction]:
    """(low, high): minimax is the smallest count exactly for epsilon <= low and the largest exactly for epsilon > high;
    at high itself both are as good as each other, and the smaller one is taken. high < 1.

    Both are 0 if all counts are equal. Exact, where the printed thresholds are valid but loose (erratum E15).
    """
    points = [(m, int(np.minimum(counts, m).sum())) for m in np.unique(counts).tolist()]
    samples = int(counts.sum())
    (least, least_kept), (most, _) = points[0], points[-1]
    # m beats m' > m iff m'/S' - m/S >= epsilon (S' - S) / n
    low = [(Fraction(m, kept) - Fraction(least, least_kept)) * samples / (kept - least_kept) for m, kept in points[1:]]
    high = [(Fraction(most, samples) - Fraction(m, kept)) * samples / (samples - kept) for m, kept in points[:-1]]
    return min(low, default=Fraction(0)), max(high, default=Fraction(0))


def best_fit_grouping(counts: Int64s, m_ub: int) -> Grouping:
    """The pieces of one HAT whose users `best_fit_arrays` puts into arrays."""
    samples = np.minimum(counts, m_ub)
    of_user = best_fit_arrays(samples, np.array([samples.size]), np.array([m_ub]))
    order = np.argsort(of_user, kind="stable")
    of_piece, slots = of_user[order], samples[order]
    first = np.flatnonzero(np.concatenate(([True], of_piece[1:] != of_piece[:-1])))
    return Grouping(order, of_piece, slots, np.add.reduceat(slots, first))
