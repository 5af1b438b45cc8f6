"""Worst-case errors of retained samples, and rounds of CLIP-USER.

Each worst case is an exact ratio (numerator, denominator) of the statistic's range, which is U for a mean and U^2 / 4
for a variance. Source: slides S2, with errata E1 and E6; algorithms 9.1. `whole_users`: a user is kept with all its
samples or not at all; a capped user's scaled moments act like a distribution that can be split at will, and the
refinements for an odd number of samples do not hold. samples: all reported, n. retained: K, 1 <= K <= n. heaviest: the
largest retained count of a user, k*. A HAT's state is (n, K, k*), or for scores (1 - K / n, k*, K). A variance's worst
cases are 4 p (1 - p): p, the dropped or the heaviest user's share, is cut to `_half`, where they peak.

Scores are errors in floats, and only preselect. What they cannot tell apart (TOLERANCE) is compared as exact ratios, so
that ties are ties and the choice is that of the published algorithm on every machine.
"""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpops.types import Float64s, Int64s

Ratio = tuple[int, int]


def variance_sensitivity(heaviest: int, retained: int, whole_users: bool) -> Ratio:
    """Computes the variance's sensitivity over U^2 / 4.

    K: retained, k*: heaviest. It is 4 k* (K - k*) / K^2 if K > 2 k*, else 1, or 1 - 1 / K^2 for odd K if `whole_users`.
    """
    if retained > 2 * heaviest:
        return 4 * heaviest * (retained - heaviest), retained * retained
    if whole_users and retained % 2 == 1:
        return retained * retained - 1, retained * retained
    return 1, 1


def variance_bias(retained: int, samples: int, whole_users: bool) -> Ratio:
    """Computes the variance's worst bias over U^2 / 4.

    It is 4 K D / n^2 if D = n - K is below n / 2 (erratum E1), else 1, or 1 - 1 / n^2 for an odd n if `whole_users`: as
    if one user of n samples held the D dropped ones. n: samples, K: retained. whole_users: nobody is capped.
    """
    return variance_sensitivity(samples - retained, samples, whole_users)


TOLERANCE = 1e-12  # relative; a score is a sum of products of non-negative floats, so its rounding is some 1e-15

MOST_SAMPLES = 2**53  # per HAT; below it, sums of counts are exact as floats


class Factors(NamedTuple):
    """Weights of the four worst cases in an error."""

    mean_bias: Fraction
    variance_bias: Fraction
    mean_sensitivity: Fraction
    variance_sensitivity: Fraction

    def exact(self, samples: int, retained: int, heaviest: int) -> Fraction:
        """Computes a HAT's exact error from its samples."""
        ratios: tuple[Ratio, ...] = (
            (samples - retained, samples),  # over U, as the mean's sensitivity below
            variance_bias(retained, samples, whole_users=True),
            (heaviest, retained),
            variance_sensitivity(heaviest, retained, whole_users=True),
        )
        weighed = (factor * Fraction(*ratio) for factor, ratio in zip(self, ratios, strict=True) if factor)
        return sum(weighed, Fraction(0))


class RowsByHat(NamedTuple):
    """Rows by HAT, heaviest first, int64 (rows,), with samples by HAT, int64 (HATs,).

    order: of the rows as they were given. counts: of a row; samples, retained: of a HAT, all and in these rows.
    """

    order: Int64s
    hat: Int64s
    vehicle: Int64s
    counts: Int64s
    begin: Int64s  # start of each HAT, and end of the last: int64 (HATs + 1,)
    samples: Int64s
    retained: Int64s

    @property
    def heaviest(self) -> Int64s:
        """Largest number of samples of a vehicle per HAT."""
        return self.counts[self.begin[:-1]]

    @classmethod
    def of(cls, hat: Int64s, vehicle: Int64s, counts: Int64s, samples: Int64s | None) -> "RowsByHat":
        """Sorts rows by HAT, largest counts first. samples: None takes those of the rows."""
        order = np.lexsort((vehicle, -counts, hat))
        hat, vehicle, counts = hat[order], vehicle[order], counts[order]
        if hat.size and min(hat[0], vehicle.min(), counts.min() - 1) < 0:  # codes from 0, counts from 1
            raise ValueError("codes of HATs and vehicles must be >= 0 and counts >= 1")
        rows = np.bincount(hat, minlength=0 if samples is None else samples.size)  # number of each HAT's
        if not rows.all():
            raise ValueError(f"HAT {int(rows.argmin())} keeps no vehicle")
        if samples is not None and samples.size != rows.size:
            raise ValueError(f"{rows.size} HATs, but samples of {samples.size}")
        if np.unique(hat * (vehicle.max(initial=0) + 1) + vehicle).size < hat.size:
            raise ValueError("a vehicle has two rows in one HAT")
        begin = np.concatenate([[0], np.cumsum(rows)])
        retained = np.add.reduceat(counts, begin[:-1])
        samples = retained if samples is None else samples
        if (samples < retained).any() or (samples >= MOST_SAMPLES).any():
            raise ValueError(f"a HAT's samples must be at least the sum of its rows' counts, and below {MOST_SAMPLES}")
        return cls(order, hat, vehicle, counts, begin, samples, retained)


class Search:
    """State of rounds: sums, and HATs vehicles may leave.

    An entry is a row of the tally, (HAT, vehicle), that its vehicle may leave: [first[v], last[v]) of `entry_*` for
    vehicle v, unordered, as the last overwrites a removed one. Memoryviews access single elements as fast as lists.
    By HAT: samples, retained ones and the dropped part; first_row, second_row, first_count, second_count: of its two
    heaviest vehicles still there; end: of its rows. `exact` computes a HAT's error, which must not pass `threshold`.
    """

    def __init__(self, tally: RowsByHat, factors: Factors) -> None:
        """Lays out HATs, vehicles and entries, bars last vehicles, and finds the threshold."""
        # Pairs of an array and its memoryview share memory: the array for vectors, the view for single elements.
        self.tally = tally
        self.exact = lru_cache(maxsize=100_000)(factors.exact)  # of (samples, retained, heaviest); fractions are slow
        self.scale = max(factors)  # errors over this are the scores: no epsilon makes them overflow
        bias, variance_bias, sensitivity, variance_sensitivity = factors  # weights of the four worst cases
        weights = (bias, sensitivity, 4 * variance_bias, 4 * variance_sensitivity)  # a variance's cases are 4 p (1 - p)
        self.weights = np.array([float(weight / self.scale) for weight in weights])
        self.alive = np.ones(tally.hat.size, np.bool_)  # rows of the tally whose vehicle has not left
        self.is_alive, self.counts = self.alive.data, tally.counts.data
        begin, self.end = tally.begin[:-1], tally.begin[1:].data  # rows of each HAT, heaviest vehicles first
        is_single = np.diff(tally.begin) == 1
        second = np.where(is_single, 0, tally.counts[np.where(is_single, 0, begin + 1)])  # no row follows a last one
        self.samples = tally.samples.astype(np.float64)
        dropped = (tally.samples - tally.retained) / tally.samples
        self.state = np.stack([dropped, tally.heaviest, tally.retained])  # the latter two: k* and K, by HAT
        self.second = second.astype(np.float64)  # second largest count, 0 where there is but one vehicle
        self.dropped, self.first_count, self.retained = (row.data for row in self.state)
        self.second_count, self.samples_of = self.second.data, self.samples.data
        self.first_row, self.second_row = begin.copy().data, (begin + 1).data  # of a HAT's two heaviest vehicles left
        self.occupancy = np.bincount(tally.vehicle)  # number of HATs of each vehicle
        last = np.cumsum(self.occupancy)
        self.first, self.last = (last - self.occupancy).data, last.data  # entries of each vehicle
        self.entry_row = np.lexsort((tally.hat, tally.vehicle))
        self.entry_hat = tally.hat[self.entry_row]
        self.entry_count = tally.counts[self.entry_row].astype(np.float64)
        self.entry_share = self.entry_count / self.samples[self.entry_hat]  # of the HAT's samples, dropped if it leaves
        self.entry_half = _half(self.samples)[self.entry_hat]  # most that p is in its HAT's variance bias, 4 p (1 - p)
        columns = (self.entry_row, self.entry_hat, self.entry_count, self.entry_share, self.entry_half)
        self.entry_columns = tuple(column.data for column in columns)
        for row in begin[is_single].tolist():  # the only vehicle of a HAT may not leave it
            self._stays(row)
        # The threshold is the largest error of a HAT, before any vehicle leaves. 0, 1: a row for `_scores` to use.
        scores = self._scores(np.pad(self.state, ((0, 1), (0, 0))), _half(self.samples))
        largest = scores >= scores.max() * (1 - TOLERANCE)
        states = [column[largest].tolist() for column in (tally.samples, tally.retained, tally.heaviest)]
        self.threshold = max(self.exact(*state) for state in {*zip(*states, strict=True)})
        self.threshold_score = float(self.threshold / self.scale)

    def run(self) -> int:
        """Runs rounds, each of which takes the busiest vehicles' HATs down by one.

        Returns the most HATs of a vehicle. A round in which a vehicle cannot leave any HAT is undone, and is the last.
        """
        for most_hats in range(int(self.occupancy.max()), 1, -1):
            gone: list[int] = []  # rows of the tally that this round removes
            for vehicle in np.flatnonzero(self.occupancy >= most_hats).tolist():  # a round leaves none above it
                entry = self._choice(vehicle)
                if entry < 0:  # there is none
                    self.alive[gone] = True  # of this state callers read nothing else
                    return most_hats
                gone.append(self._leaves(vehicle, entry))
        return 1

    def _choice(self, vehicle: int) -> int:
        """Chooses a vehicle's entry of least error, or -1.

        The error is that of the entry's HAT without the vehicle. -1: there is no entry, or even the least one is above
        `threshold`; within TOLERANCE of it exact errors decide.
        """
        first, last = self.first[vehicle], self.last[vehicle]
        if first == last:
            return -1
        entries = slice(first, last)
        # The state of each of its HATs without the vehicle: dropped share, k* and K; then a row for `_scores` to use.
        hats, counts = self.entry_hat[entries], self.entry_count[entries]
        work = np.empty((4, hats.size))
        self.state.take(hats, axis=1, out=work[:3], mode="clip")  # any mode but "raise" writes without a buffer
        dropped, heaviest, retained, _ = work
        dropped += self.entry_share[entries]  # rows of `work` change in place, to the state once the vehicle has left
        rows = (counts == heaviest).nonzero()[0]
        if rows.size:
            heaviest[rows] = self.second[hats[rows]]
        retained -= counts
        scores = self._scores(work, self.entry_half[entries])  # errors by entry, see `_half`; overwrites `work`
        score = scores.item(scores.argmin())
        near = (scores <= score * (1 + TOLERANCE)).nonzero()[0] + first
        if score > self.threshold_score * (1 + TOLERANCE):  # a float of `threshold`, in the units of scores
            return -1
        entry = near.item(0) if near.size == 1 else self._least(near)
        close = score >= self.threshold_score * (1 - TOLERANCE)
        return -1 if close and self.exact(*self._without(entry)) > self.threshold else entry

    def _least(self, entries: Int64s) -> int:
        """Chooses the entry of least exact error; ties: the lowest HAT.

        HATs that would be left in equal states have equal errors, and exact ones are slow: of those the lowest stands.
        """
        entries = entries[self.entry_hat[entries].argsort()]
        hats, counts = self.entry_hat[entries], self.entry_count[entries]
        _, first_count, retained = self.state[:, hats]
        heaviest = np.where(counts < first_count, first_count, self.second[hats])
        states = np.stack([self.samples[hats], retained - counts, heaviest])  # once the vehicle has left
        distinct = []
        while entries.size:
            distinct.append(int(entries[0]))
            differs = (states != states[:, :1]).any(axis=0)
            entries, states = entries[differs], states[:, differs]
        return distinct[0] if len(distinct) == 1 else min(distinct, key=lambda entry: self.exact(*self._without(entry)))

    def _without(self, entry: int) -> tuple[int, int, int]:
        """Counts a HAT's samples, retained ones and largest count without the vehicle."""
        _, hats, counts, *_ = self.entry_columns
        hat, count = hats[entry], counts[entry]  # first_count, second_count: a HAT's two largest counts
        heaviest = self.first_count[hat] if count < self.first_count[hat] else self.second_count[hat]
        return int(self.samples_of[hat]), int(self.retained[hat] - count), int(heaviest)

    def _scores(self, work: Float64s, half_samples: Float64s) -> Float64s:
        """Computes errors over `scale`, float64 (HATs,): `weights` times the four worst cases.

        work: float64 (4, HATs), the rows of `state` and one more, overwritten in place, as this is the inner loop:
        by the mean's bias and sensitivity, then by p (1 - p) of the variance's two. half_samples: `_half` of samples.
        """
        dropped, largest_share, retained, half = work
        largest_share /= retained  # the sensitivity k* / K; `dropped` is the bias 1 - K / n
        np.multiply(retained, 0.5, out=half)
        np.floor(half, out=half)
        half /= retained  # `_half` of the retained samples
        np.minimum(largest_share, half, out=half)  # p of the variance's sensitivity: that share, at most `_half`
        np.minimum(dropped, half_samples, out=retained)  # p of its bias, likewise
        variances = work[2:]
        variances *= 1 - variances  # p (1 - p); `weights` has the factor 4
        scores: Float64s = self.weights.dot(work)
        return scores

    def _leaves(self, vehicle: int, entry: int) -> int:
        """Removes the vehicle from the entry's HAT; returns the removed row."""
        entry_row, entry_hat, entry_count, *_ = self.entry_columns
        row, hat = entry_row[entry], entry_hat[entry]
        self.is_alive[row] = False
        self.retained[hat] -= entry_count[entry]
        self._forget(vehicle, entry)
        self.dropped[hat] = (self.samples_of[hat] - self.retained[hat]) / self.samples_of[hat]  # a share
        # A HAT's rows descend by count: of its two largest, one that left is followed by the next that is still there.
        if row == self.first_row[hat]:
            self.first_row[hat], self.first_count[hat] = self.second_row[hat], self.second_count[hat]
        elif row != self.second_row[hat]:
            return row
        second, end = self.second_row[hat] + 1, self.end[hat]
        while second < end and not self.is_alive[second]:
            second += 1
        self.second_row[hat] = second
        self.second_count[hat] = self.counts[second] if second < end else 0
        if second == end:  # a HAT's last vehicle never leaves
            self._stays(self.first_row[hat])
        return row

    def _stays(self, row: int) -> None:
        """Bars a HAT's last vehicle, in the tally's `row`, from leaving it."""
        vehicle = int(self.tally.vehicle[row])
        first = self.first[vehicle]  # where the vehicle's entries begin; one of them is that of `row`
        self._forget(vehicle, first + int((self.entry_row[first : self.last[vehicle]] == row).argmax()))

    def _forget(self, vehicle: int, entry: int) -> None:
        """Removes an entry from its vehicle's range: the last one takes its place."""
        last = self.last[vehicle] = self.last[vehicle] - 1
        for column in self.entry_columns:
            column[entry] = column[last]


def _half(total: Float64s) -> Float64s:
    """Computes floor(total / 2) / total, at most 1/2.

    The variance's worst case, 4 p (1 - p) of U^2 / 4, peaks here: p, a dropped or a vehicle's share, is cut to it.
    """
    return np.floor(total * 0.5) / total
