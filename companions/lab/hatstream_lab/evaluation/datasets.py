"""Generates the papers' data sets by seed."""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpops import Grid, Prior
from hatstream.api import InputError
from hatstream_lab.evaluation.experiment import Float64s, Int64s

UPPER_KMH = 65
GRID = Grid(step=Fraction(1, 1000), upper_steps=1000 * UPPER_KMH)
MEAN_KMH, VARIANCE_KMH2 = 20.66769, 115.135
"""Published for the ITMS feed; its other figures are 217 users, 17,166 samples, counts from 1 to 417, median 46."""
USERS, SAMPLES, MOST, MEDIAN = 217, 17_166, 417, 46
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, MemoryError, BadZipFile, zlib.error)
"""What NumPy and zipfile say of an archive that is none."""
MOST_SAMPLES = 10_000_000  # of a set: it is drawn whole, and ten times as large
_BETWEEN_USERS = 0.27  # guessed: share of the variance between users of the ITMS-like speeds

ITMS_PRIOR = Prior(MEAN_KMH, math.sqrt(VARIANCE_KMH2))


@dataclass(frozen=True)
class DataSet:
    """Data set of one HAT, drawn anew or fixed.

    counts: int64 (users,), non-increasing. draw(rng, runs): sums in steps, int64 (runs, users), and true means in km/h,
    (runs,); one row if fixed.
    """

    name: str
    counts: Int64s
    draw: Callable[[np.random.Generator, int], tuple[Int64s, Float64s]]
    prior: Prior


def itms_like(seed: int, counts: Int64s | None = None) -> list[DataSet]:
    """Makes the ITMS-like set, and ten times its samples or users. Source: S0, S1."""
    base = np.sort(itms_counts() if counts is None else counts)[::-1]
    rng = np.random.default_rng(seed)
    samples, users = base * 10, np.sort(np.tile(base, 10))[::-1]
    effects = np.repeat(rng.normal(0, math.sqrt(_BETWEEN_USERS), base.size), base)
    raw = effects + rng.normal(0, math.sqrt(1 - _BETWEEN_USERS), effects.size)
    shift, stretch = MEAN_KMH, math.sqrt(VARIANCE_KMH2)
    # Clipping changes mean and variance, so shift and stretch are corrected until both are the published ones.
    for _ in range(200):  # far beyond convergence
        speeds = np.clip(shift + stretch * raw, 0, UPPER_KMH)
        shift += MEAN_KMH - speeds.mean()
        stretch *= math.sqrt(VARIANCE_KMH2 / speeds.var())
    return [
        fixed("itms-like", base, np.clip(shift + stretch * raw, 0, UPPER_KMH)),
        fixed("samples-x10", samples, _clipped_normal(rng, int(samples.sum()))),
        fixed("users-x10", users, _clipped_normal(rng, int(users.sum()))),
    ]


def geometric() -> DataSet:
    """Makes 2**i users of 2**(6 - i) samples each, i = 0..6. Source: S4."""
    counts = np.repeat(2 ** np.arange(6, -1, -1), 2 ** np.arange(7)).astype(np.int64)
    prior = Prior(UPPER_KMH / 2, UPPER_KMH / math.sqrt(12))  # of the uniform law
    return redrawn("geometric", counts, lambda rng, size: rng.uniform(0, UPPER_KMH, size), prior)


def extreme() -> DataSet:
    """Makes 100 users of one sample and one of ten. Source: S4 (E22)."""
    counts = np.array([10] + [1] * 100, np.int64)
    mean, sd = UPPER_KMH / 2, math.sqrt(UPPER_KMH / 4)  # N(U / 2, U / 4), a variance by S4's notation
    return redrawn("extreme", counts, lambda rng, size: _clipped_normal(rng, size, mean, sd), Prior(mean, sd))


def from_folder(folder: Path) -> list[DataSet]:
    """Reads NumPy archives of `counts` and `values` in km/h by user. Raises InputError."""
    datasets = []
    for path in sorted(folder.glob("*.npz")):
        try:
            with path.open("rb") as file, np.load(file) as archive:
                counts, values = archive["counts"], archive["values"]
            if values.shape != (int(counts.sum()),) or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
                raise ValueError("values must be as many finite numbers as counts add up to")
            datasets.append(fixed(path.stem.replace("_", "-"), _checked(counts), values.astype(np.float64)))
        except _UNREADABLE as error:
            raise InputError(f"{path} is no data set: {error}") from None
    return datasets


def counts_from(path: Path) -> Int64s:
    """Reads counts from a JSON file. Raises InputError."""
    try:
        read = msgspec.json.decode(path.read_bytes(), type=list[int] | _Counts)
        return _checked(np.array(read.counts if isinstance(read, _Counts) else read))
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"{path} is not a JSON list of counts: {error}") from None


class _Counts(msgspec.Struct):
    counts: list[int]


def _checked(counts: NDArray[Any]) -> Int64s:
    """Checks numbers of samples by user. Raises ValueError."""
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or counts.size == 0 or counts.min() < 1:
        raise ValueError("counts must be a list of integers of at least 1")
    if sum(counts.tolist()) > MOST_SAMPLES:
        raise ValueError(f"counts must add up to at most {MOST_SAMPLES:,} samples")
    return counts.astype(np.int64)


def fixed(name: str, counts: Int64s, speeds_kmh: Float64s) -> DataSet:
    """Makes a set with the same data in every run. speeds_kmh: (samples,), by user."""
    start = np.cumsum(counts) - counts
    order = np.argsort(-counts, kind="stable")
    sums = np.add.reduceat(_steps(speeds_kmh), start)[order]
    truth = float(np.clip(speeds_kmh, 0, UPPER_KMH).mean())
    # One row, (1, users), stands for all runs.
    return DataSet(name, counts[order], lambda _rng, _runs: (sums[None], np.array([truth])), ITMS_PRIOR)


def redrawn(
    name: str, counts: Int64s, speeds: Callable[[np.random.Generator, tuple[int, int]], Float64s], prior: Prior
) -> DataSet:
    """Makes a set that is redrawn in each run. speeds: draws km/h, (runs, samples)."""
    start = np.cumsum(counts) - counts

    def draw(rng: np.random.Generator, runs: int) -> tuple[Int64s, Float64s]:
        drawn = speeds(rng, (runs, int(counts.sum())))
        return np.add.reduceat(_steps(drawn), start, axis=1), drawn.mean(axis=1)

    return DataSet(name, counts, draw, prior)


def itms_counts() -> Int64s:
    """Makes USERS log-normal counts with the published statistics: bisects for the law's shape."""
    # Normal quantiles at the middles of USERS equal parts: counts are exp(shape * score) around the median.
    scores = np.array([NormalDist().inv_cdf((rank + 0.5) / USERS) for rank in range(USERS)])

    def counts_of(shape: float) -> Int64s:
        counts: Int64s = np.clip(np.rint(MEDIAN * np.exp(shape * scores)), 1, MOST).astype(np.int64)
        counts[0], counts[-1] = 1, MOST  # both published
        return counts

    low, high = 0.1, 3.0  # shapes with too small a sum, and too large a one
    for _ in range(60):  # until the two are neighbouring floating-point numbers
        middle = (low + high) / 2
        low, high = (middle, high) if counts_of(middle).sum() < SAMPLES else (low, middle)
    counts = counts_of(low)
    # The last few samples go one each to users above the median.
    counts[USERS // 2 + 1 :][: SAMPLES - int(counts.sum())] += 1
    return counts


def _clipped_normal(
    rng: np.random.Generator, size: int | tuple[int, int], mean: float = MEAN_KMH, sd: float = math.sqrt(VARIANCE_KMH2)
) -> Float64s:
    return np.clip(rng.normal(mean, sd, size), 0, UPPER_KMH)


def _steps(speeds_kmh: Float64s) -> Int64s:
    return np.asarray(np.rint(np.clip(speeds_kmh, 0, UPPER_KMH) * (GRID.upper_steps / UPPER_KMH)).astype(np.int64))
