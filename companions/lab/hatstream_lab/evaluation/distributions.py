"""Distributions from trees: exact errors beside histogram and binary tree, and actual errors of quantiles and means."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpops import Grid, Mechanism, Noise, Plan, Prior, Totals
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.tree import BestTree
from dpops.statistics import SUMS, Histogram
from dpops.trees import design, errors, readings, shape
from dpops.trees.combine import law
from dpops.trees.estimates import Reading, read_alike
from dpops.trees.hats import shape_of
from hatstream_lab.evaluation.dwell import plans_of, published
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.tables import means_by_class
from hatstream_lab.types import Float64s, Int64s, Report
from transforms import wire
from transforms.count.tally import tally

BINS_COMPARED = (4, 9, 16, 36, 61, 64, 65, 100, 256, 289, 512, 1000, 1024, 4096, 4913)
COMBINED_UP_TO = 1_024
"""Above, the covariance of the combined estimate takes too much memory to be shown beside the others."""
FINE = 10
"""Bins of the truth for each bin of the release."""
OUTPUTS = ("cdf", "p50", "p85", "mean")
MADE_UP_VEHICLES = (5, 10, 30, 100, 300, 1_000)
TREE, ARRAY_AVERAGE, CONSTANT = "tree", "array-average", "constant of the city"


@dataclass(frozen=True)
class Crossover:
    """Squared errors of all prefixes over that of the histogram's plain prefixes, for so many bins.

    factors: the best exact factorisation under equal budgets. tree: the best of all with its best budgets, which is
    released. combined, histogram_combined: after the best combination of all nodes, None where too large to compute.
    """

    bins: int
    direct: float
    binary: float
    factors: tuple[int, ...]
    of_factors: float
    branching: tuple[int, ...]
    of_tree: float
    combined: float | None
    histogram_combined: float | None


def crossovers(numbers: Sequence[int] = BINS_COMPARED) -> list[Crossover]:
    """Computes crossovers exactly, without any noise drawn. Source: algorithms 10.2 and 10.3."""
    return [_crossover(bins) for bins in numbers]


def _crossover(bins: int) -> Crossover:
    histogram, factors, best = errors.histogram_error(bins), design.best_factors(bins), design.best_tree(bins)
    equal = [Fraction(1, len(factors))] * len(factors)
    small = bins <= COMBINED_UP_TO
    flat = shape.Tree(bins, (bins,))
    return Crossover(
        bins=bins,
        direct=errors.direct_error(bins) / histogram,
        binary=errors.binary_error(bins) / histogram,
        factors=factors,
        of_factors=errors.total_error(shape.Tree(bins, factors), equal) / histogram,
        branching=best.branching,
        of_tree=errors.total_error(best, design.best_shares(best)) / histogram,
        combined=_combined(best) / histogram if small else None,
        histogram_combined=_combined(flat) / histogram if small else None,
    )


def _combined(tree: shape.Tree) -> float:
    return float((law(tree, design.best_shares(tree)).prefix_sd() ** 2).sum())


class TrueHat(NamedTuple):
    """One HAT. totals: as the release sees them. reported: samples. truth: histogram of all reported samples in FINE
    times as many bins, int64 (bins FINE,)."""

    slot_s: int
    cell: int
    totals: Totals
    reported: int
    truth: Int64s


class TrueDistributions(NamedTuple):
    """By output, the true values of HATs: float64 (HATs,), of shares (HATs, K - 1)."""

    values: dict[str, Float64s]
    vehicles: Float64s
    rows: Float64s


@dataclass(frozen=True)
class OutputErrors:
    """Mean absolute errors of one output at one epsilon: km/h, of `cdf` shares averaged over the edges."""

    output: str
    label: str
    epsilon: str
    mean: float
    row_weighted: float
    by_class: list[float | None]


def read_distributions(feed: Feed, bins: int, report: Report) -> list[TrueHat]:
    """Reads the HATs of some files. Not private: it holds true histograms."""
    spec, (_, parts) = feed.spec, feed.events(report)
    upper = spec.value.grid.upper_steps
    hats: list[TrueHat] = []
    for slot_s in sorted(parts):
        events = wire.unpack_events(parts[slot_s])
        kept = tally(events, slot_s, spec.privacy.cap, (SUMS, Histogram(bins, upper))).tally
        whole = tally(events, slot_s, None, (Histogram(bins * FINE, upper),)).tally
        for cell in np.unique(kept.cell[kept.kept > 0]).tolist():
            rows = np.flatnonzero((kept.cell == cell) & (kept.kept > 0))
            rows = rows[np.lexsort((kept.vehicle[rows], -kept.kept[rows]))]
            truth = whole.sums["histograms"][whole.cell == cell].sum(axis=0)
            totals = Totals(kept.kept[rows], kept.sums["sums"][rows], histograms=kept.sums["histograms"][rows])
            hats.append(TrueHat(slot_s, cell, totals, int(truth.sum()), truth))
    return hats


def truth_of(hats: Sequence[TrueHat], bins: int, grid: Grid) -> TrueDistributions:
    """Finds the true outputs, from bins FINE times as many: quantiles straight within these."""
    fine = np.stack([hat.truth for hat in hats])
    samples = fine.sum(axis=1)
    below = np.cumsum(fine, axis=1)[:, :-1] / samples[:, None]
    width = float(grid.upper) / (bins * FINE)
    values = {
        "cdf": below[:, FINE - 1 :: FINE],
        "p50": readings.quantile(below, 0.5) * width,
        "p85": readings.quantile(below, 0.85) * width,
        "mean": np.array(
            [float(Fraction(int(h.totals.sums.sum()), int(h.totals.counts.sum())) * grid.step) for h in hats]
        ),
    }
    vehicles = np.array([hat.totals.counts.size for hat in hats], np.float64)
    return TrueDistributions(values, vehicles, samples.astype(np.float64))


def city_of(hats: Sequence[TrueHat], bins: int, grid: Grid) -> dict[str, Float64s]:
    """Finds the truth of the whole city, as one HAT: the constants that releases are compared with."""
    whole = [
        TrueHat(0, 0, _one_user(hats), sum(hat.reported for hat in hats), np.sum([hat.truth for hat in hats], axis=0))
    ]
    return truth_of(whole, bins, grid).values


def _one_user(hats: Sequence[TrueHat]) -> Totals:
    counts, sums = (
        sum(int(column.sum()) for column in columns)
        for columns in zip(*((h.totals.counts, h.totals.sums) for h in hats), strict=True)
    )
    return Totals(np.array([counts]), np.array([sums]))


def errors_of(
    hats: Sequence[TrueHat],
    bins: int,
    grid: Grid,
    epsilons: Sequence[str],
    runs: int,
    prior: Prior | None,
    report: Callable[[int, int], None],
) -> list[OutputErrors]:
    """Measures errors of the tree's outputs, of array-average's mean at the same epsilon, of the city's constants."""
    truth, city = truth_of(hats, bins, grid), city_of(hats, bins, grid)
    constants = [_summed(name, CONSTANT, "-", _off(name, city[name], truth), truth) for name in OUTPUTS]
    errors = []
    for done, epsilon in enumerate(epsilons):
        off = dict.fromkeys(OUTPUTS, np.zeros(len(hats)))
        for outputs in released(hats, BestTree(bins=bins, prior=prior), grid, Fraction(epsilon), runs):
            off = {name: off[name] + _off(name, outputs[name].value, truth) / runs for name in OUTPUTS}
        errors += [_summed(name, TREE, epsilon, off[name], truth) for name in OUTPUTS]
        plans, mean = _plans(hats, ArrayAverage(), grid, Fraction(epsilon)), np.zeros(len(hats))
        for _ in range(runs):
            values = published(ArrayAverage(), [hat.totals for hat in hats], plans, Noise())
            mean = mean + _off("mean", values, truth) / runs
        errors.append(_summed("mean", ARRAY_AVERAGE, epsilon, mean, truth))
        report(done + 1, len(epsilons))
    return [*errors, *constants]


def released(
    hats: Sequence[TrueHat], mechanism: Mechanism, grid: Grid, epsilon: Fraction, runs: int, noise: Noise | None = None
) -> Iterator[dict[str, Reading]]:
    """Yields the published outputs of so many releases of all HATs."""
    plans = _plans(hats, mechanism, grid, epsilon)
    totals, source = [hat.totals for hat in hats], noise or Noise()
    for _ in range(runs):
        yield read_alike(mechanism.release(totals, plans, source), plans, shape_of(plans[0]), 0.05)


def _plans(hats: Sequence[TrueHat], mechanism: Mechanism, grid: Grid, epsilon: Fraction) -> Sequence[Plan]:
    return plans_of(mechanism, [(hat.totals, hat.reported) for hat in hats], grid, epsilon)


def _off(name: str, values: Float64s, truth: TrueDistributions) -> Float64s:
    """Measures absolute errors of each HAT, of shares averaged over the edges."""
    off: Float64s = np.abs(values - truth.values[name])
    return off.mean(axis=1) if off.ndim == 2 else off


def _summed(output: str, label: str, epsilon: str, off: Float64s, truth: TrueDistributions) -> OutputErrors:
    return OutputErrors(
        output=output,
        label=label,
        epsilon=epsilon,
        mean=float(off.mean()),
        row_weighted=float((off * truth.rows).sum() / truth.rows.sum()),
        by_class=means_by_class(off, truth.vehicles),
    )


def made_up_hats(vehicles: int, number: int, bins: int, grid: Grid, seed: int) -> list[TrueHat]:
    """Makes up a dense city's HATs: 1 to 20 samples a vehicle, vehicles that differ, a tenth of the samples at rest."""
    generator = np.random.default_rng([seed, vehicles])
    hats = []
    for cell in range(number):
        counts = np.sort(generator.integers(1, 21, vehicles))[::-1].copy()
        owner = np.repeat(np.arange(vehicles), counts)
        centre = generator.normal(25, 6) + generator.normal(0, 6, vehicles)[owner]
        speeds = np.where(generator.random(owner.size) < 0.1, 0.0, generator.normal(centre, 9))
        steps = np.clip(np.round(speeds / float(grid.step)), 0, grid.upper_steps).astype(np.int64)
        totals = Totals(
            counts,
            SUMS.add_up(steps, owner, vehicles),
            histograms=Histogram(bins, grid.upper_steps).add_up(steps, owner, vehicles),
        )
        truth = Histogram(bins * FINE, grid.upper_steps).add_up(steps, np.zeros_like(owner), 1)[0]
        hats.append(TrueHat(0, cell, totals, owner.size, truth))
    return hats
