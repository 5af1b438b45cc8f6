"""Draws the pictures of docs/mechanisms.md from the code that releases: `python -m docs.draw_mechanisms`."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from dpops.forecast import Prior
from dpops.means.arrays import array_means, lay_out_together, length_of
from dpops.means.forecasts import expected_quantiles
from dpops.means.grouping import Grouping, wrap_around
from dpops.mechanism import Mechanism, Totals, forecast_of_one
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.levy import Levy
from dpops.mechanisms.quantiles import FixedQuantile
from dpops.mechanisms.worst_case_optimal import WorstCaseOptimal
from dpops.noise import Noise
from dpops.types import CountsKnown, Float64s, Grid, Int64s
from hatstream_lab.evaluation.experiment import save_picture
from hatstream_lab.evaluation.papers import geometric, itms_counts

FOLDER = Path(__file__).parent / "pictures"
GRID = Grid(step=Fraction(1, 100), upper_steps=6500)
UPPER = 65
COLOURS = {
    "baseline": "tab:grey",
    "array-average": "tab:blue",
    "levy": "tab:green",
    "fixed-quantile": "tab:red",
    "epsilon-quantile": "tab:orange",
    "opt-array": "tab:cyan",
    "worst-case-optimal": "tab:purple",
    "akmv": "tab:brown",
    "constant": "gold",
}


def log_normal_counts(users: int, middle: float, shape: float) -> Int64s:
    """Counts on a log-normal curve, non-increasing, each >= 1: int64 (users,)."""
    law = NormalDist()
    scores = np.array([law.inv_cdf((rank + 0.5) / users) for rank in range(users)])
    return np.maximum(np.rint(middle * np.exp(shape * scores)), 1).astype(np.int64)[::-1].copy()


def example(users: int, middle: float) -> Totals:
    """A made-up HAT: speeds around 21 km/h, a quarter of their variance between vehicles."""
    counts = log_normal_counts(users, middle, 0.8)
    rng = np.random.default_rng(4)
    means = 21 + rng.normal(0, 5, users) + rng.normal(0, 9, users) / np.sqrt(counts)
    return Totals(counts, np.rint(100 * means.clip(0, UPPER)).astype(np.int64) * counts)


def draw_baseline() -> Figure:
    """Noise against the samples of the one heaviest vehicle."""
    figure, axes = _one(6.4, 3.8)
    heaviest = np.arange(5, 101)
    shown: list[Mechanism] = [Baseline(), ArrayAverage(), WorstCaseOptimal()]
    for mechanism in shown:
        noise = []
        for most in heaviest.tolist():
            counts = np.array([most] + [5] * 20)
            plan = mechanism.plan(CountsKnown.all_of(counts), GRID, Fraction(1))
            noise.append(float(plan.scale * plan.step))
        label = mechanism.name + ("" if mechanism.name == "baseline" else " (and a clipping bias)")
        axes.plot(heaviest, noise, label=label, color=COLOURS[mechanism.name], lw=2)
    axes.set_xlabel("samples of the heaviest of 21 vehicles (the others have 5 each)")
    axes.set_ylabel("expected |noise|, km/h")
    axes.set_title("baseline: one busy vehicle sets the noise for all (epsilon 1)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def draw_array_average() -> Figure:
    """The same users packed by both groupings."""
    counts = np.array([12, 9, 7, 6, 5, 4, 3, 2, 2, 1])
    m_ub = length_of("argmax", counts, Fraction(1))
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    stacked, best, wrapped = figure.subplots(3, 1, height_ratios=[1.2, 1, 1])
    colours = mpl.colormaps["tab10"]
    for user, count in enumerate(counts.tolist()):
        stacked.bar(user, min(count, m_ub), color=colours(user), edgecolor="black", lw=0.6)
        if count > m_ub:
            stacked.bar(user, count - m_ub, bottom=m_ub, color="white", edgecolor=colours(user), hatch="///", lw=0.6)
    stacked.axhline(m_ub, color="black", ls="--", lw=1)
    stacked.text(9.5, m_ub + 0.5, f"m_UB = {m_ub} (argmax): nobody counts for more samples", ha="right")
    stacked.set_xticks(range(counts.size), [chr(65 + user) for user in range(counts.size)])
    stacked.set_ylabel("samples")
    stacked.set_xlabel("vehicle")
    stacked.set_title("array-average: capped vehicles share arrays of equal length")
    (laid,) = lay_out_together([CountsKnown.all_of(counts)], GRID, Fraction(1), m_ub)
    width = laid.grouping.fills.size * (m_ub + 1)
    for axes in (best, wrapped):
        axes.set_xlim(-0.5, width)
    _pack(best, laid.grouping, m_ub, "BestFit: a vehicle lies in one array; arrays may be partly filled")
    whole = wrap_around(counts, m_ub)
    lost = int(np.minimum(counts, m_ub).sum()) - int(whole.fills.sum())
    _pack(wrapped, whole, m_ub, f"WrapAround: all arrays full, a vehicle may lie in two; the last {lost} samples drop")
    return figure


def _pack(axes: Axes, grouping: Grouping, m_ub: int, title: str) -> None:
    """Arrays side by side, each a row of samples in their users' colours."""
    colours = mpl.colormaps["tab10"]
    filled = np.zeros(grouping.fills.size, np.int64)
    for user, array, samples in zip(grouping.user, grouping.array, grouping.samples, strict=True):
        left = int(array) * (m_ub + 1) + int(filled[array])
        axes.barh(0, int(samples), left=left, color=colours(int(user)), edgecolor="black", lw=0.6)
        axes.text(left + int(samples) / 2, 0, chr(65 + int(user)), ha="center", va="center", fontsize=9)
        filled[array] += samples
    for array, fill in enumerate(grouping.fills.tolist()):
        axes.barh(0, m_ub - fill, left=array * (m_ub + 1) + fill, color="none", edgecolor="grey", ls=":", lw=0.8)
        axes.text(array * (m_ub + 1) + m_ub / 2, -0.62, f"array {array + 1}", ha="center", va="center", fontsize=9)
    axes.set_ylim(-0.85, 0.5)
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()


def draw_m_ub() -> Figure:
    """What each rule maximises or minimises, on ITMS-like counts."""
    counts = np.sort(itms_counts())[::-1].copy()
    length = np.arange(1, int(counts.max()) + 1)
    kept = np.minimum(counts[:, None], length).sum(axis=0)
    samples, users = int(counts.sum()), counts.size
    figure = Figure(figsize=(7.2, 5.6), layout="constrained")
    gain, cost = figure.subplots(2, 1, sharex=True)
    gain.plot(length, kept / np.sqrt(length) / (kept / np.sqrt(length)).max(), color="black")
    gain.set_ylabel("S(m) / √m, of its maximum")
    gain.set_title(f"m_UB by rule, {users} vehicles with 1 to {length[-1]} samples (ITMS-like)")
    worst = UPPER * (1 - kept / samples + length / (0.1 * kept))
    relaxed = UPPER * (1 - kept / samples + np.maximum(length / length[-1], samples / users / length[-1]))
    cost.plot(length, worst, color="black", label="what opt minimises at epsilon 0.1")
    cost.plot(length, relaxed, color="black", ls="--", label="what convex minimises")
    cost.set_ylabel("worst-case error, km/h")
    cost.set_xlabel("array length m_UB, samples")
    chosen = [
        (gain, "median", length_of("median", counts, Fraction(1)), "tab:blue"),
        (gain, "argmax", length_of("argmax", counts, Fraction(1)), "tab:red"),
        (cost, "opt", length_of("opt", counts, Fraction(1, 10)), "tab:cyan"),
        (cost, "convex", length_of("convex", counts, Fraction(1)), "tab:green"),
    ]
    for axes, rule, m_ub, colour in chosen:
        height = 1 if axes is gain else 75
        axes.plot([m_ub, m_ub], [0, height], color=colour, lw=2, label=f"{rule}: m_UB = {m_ub}")
    gain.legend(frameon=False, loc="lower center")
    gain.set_ylim(0, 1.05)
    cost.legend(frameon=False, loc="upper center", ncols=2)
    cost.set_ylim(0, 105)
    return figure


def draw_levy() -> Figure:
    """Array means, the law of the drawn bin, and what its interval keeps."""
    totals = example(60, 120)
    epsilon = Fraction(1, 2)
    mechanism = Levy()
    plan = mechanism.plan(CountsKnown.all_of(totals.counts), GRID, epsilon)
    unit = float(plan.step * plan.facts["arrays"])
    means = array_means([totals], [plan]).means * unit
    tau, bins = plan.facts["tau"] * unit, plan.facts["bins"]
    runs = 20_000
    drawn = [integers[0] for integers in mechanism.release([totals] * runs, [plan] * runs, _seeded())]
    chance = np.bincount(drawn, minlength=bins) / runs
    edges = np.minimum(np.arange(bins + 1) * tau, UPPER)
    middle = (edges[:-1] + edges[1:]) / 2
    likely = int(chance.argmax())
    low, high = max(0.0, middle[likely] - 1.5 * tau), min(UPPER, middle[likely] + 1.5 * tau)
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.4])
    top.hist(means, bins=np.arange(0, UPPER + 1, 1), color="lightgrey", edgecolor="grey")
    top.set_ylabel("arrays per km/h")
    top.set_title(f"levy: a private median bin of {means.size} array means (epsilon {float(epsilon):g})")
    bottom.bar(edges[:-1], chance, width=np.diff(edges), align="edge", color=COLOURS["levy"], edgecolor="white")
    bottom.set_ylabel("probability of the bin")
    bottom.set_xlabel(f"speed, km/h (bins of tau = {tau:.1f} km/h)")
    bottom.set_xlim(0, UPPER)
    for axes in (top, bottom):
        axes.axvspan(low, high, color=COLOURS["levy"], alpha=0.15)
    bottom.text(high + 1, chance.max() * 0.8, "shaded: the means are clipped to\n1.5 tau around the drawn bin")
    return figure


def draw_fixed_quantile() -> Figure:
    """The law of both ends over the speeds, gap by gap, at two epsilons."""
    totals, mechanism = example(60, 20), FixedQuantile()
    figure = Figure(figsize=(7.2, 5), layout="constrained")
    rows: Sequence[Axes] = figure.subplots(2, 1, sharex=True)
    for axes, epsilon in zip(rows, (Fraction(1), Fraction(4)), strict=True):
        plan = mechanism.plan(CountsKnown.all_of(totals.counts), GRID, epsilon)
        means = np.sort(array_means([totals], [plan]).means * float(plan.step * plan.facts["arrays"]))
        rank = float(mechanism.rank(means.size, epsilon))
        ends = np.unique(np.concatenate([[0.0], means, [float(UPPER)]]))
        for target, colour, name in ((rank, "tab:blue", "lower end"), (means.size - rank, "tab:red", "upper end")):
            [drawn] = expected_quantiles(means[None], np.full(1, float(UPPER)), target, float(epsilon) / 4, 200_000)
            density, _ = np.histogram(drawn, bins=ends, density=True)
            label = f"{name}: target rank {target:g} of {means.size}"
            axes.stairs(density, ends, color=colour, fill=True, alpha=0.45, label=label)
        axes.plot(means, np.zeros(means.size), "|", color="black", ms=12, mew=0.8, label="array means", clip_on=False)
        axes.set_ylabel("probability per km/h")
        axes.set_title(f"epsilon {float(epsilon):g}, a quarter of it for each end", fontsize=10)
        axes.legend(frameon=False, loc="upper right")
        axes.set_xlim(0, UPPER)
    rows[-1].set_xlabel("speed, km/h")
    figure.suptitle("fixed-quantile: 10 % and 90 % of the array means")
    return figure


def draw_worst_case_optimal() -> Figure:
    """Clipping interval of a vehicle's mean against its count, and what the tie option is worth."""
    data = geometric()
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_clipping(left, data.counts)
    ranks = range(1, 7)
    ends = [3.0, *(2 / rank for rank in ranks), 0.3]
    for high, low in pairwise(ends):
        epsilons = np.linspace(low + 1e-3, high - 1e-3, 40)
        forecast = [
            _forecast(WorstCaseOptimal(), data.counts, Fraction(each), data.prior) for each in epsilons.tolist()
        ]
        right.plot(epsilons, forecast, lw=2, color=COLOURS["worst-case-optimal"])
    for mechanism, marker in ((WorstCaseOptimal(), "^"), (WorstCaseOptimal(tie="smallest"), "v")):
        errors = [_forecast(mechanism, data.counts, Fraction(2, rank), data.prior) for rank in ranks]
        label = f'tie = "{mechanism.tie}"'
        right.plot([2 / rank for rank in ranks], errors, marker, ms=7, mfc="none", color="black", label=label)
    right.set_xlabel("epsilon of the HAT")
    right.set_ylabel("forecast error, km/h")
    right.set_ylim(bottom=0)
    right.set_title("where 2 / epsilon is whole,\nthe tie decides the average error", fontsize=11)
    right.legend(frameon=False)
    return figure


def _draw_clipping(axes: Axes, counts: Int64s) -> None:
    count = np.geomspace(1, 64, 200)
    shades = mpl.colormaps["Purples"]
    for depth, epsilon in enumerate(("2", "1", "0.5", "0.2")):
        bound = WorstCaseOptimal().plan(CountsKnown.all_of(counts), GRID, Fraction(epsilon)).facts["bound"]
        half = np.minimum(bound / 100 / count, UPPER) / 2
        name = f"epsilon {epsilon}: T = {bound // GRID.upper_steps} U"
        axes.fill_between(count, UPPER / 2 - half, UPPER / 2 + half, color=shades(0.25 + 0.2 * depth), label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    axes.set_xlabel("samples of the vehicle")
    axes.set_ylabel("its mean is clipped to, km/h")
    axes.set_title("worst-case-optimal: busy vehicles\nare pulled to U/2", fontsize=11)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=9)


def draw_auto() -> Figure:
    """Forecast errors and the winner against the number of vehicles."""
    prior = Prior(20.0, 15.0)
    auto = Auto(prior=prior)
    numbers = np.unique(np.rint(np.geomspace(1, 3000, 70)).astype(int))
    figure = Figure(figsize=(8.4, 6.8), layout="constrained")
    rows: Sequence[Axes] = figure.subplots(2, 1, sharex=True)
    for axes, middle, title in zip(rows, (2, 50), ("few samples a vehicle", "many samples a vehicle"), strict=True):
        errors: dict[str, list[float]] = {name: [] for name in COLOURS}
        winners = []
        for users in numbers.tolist():
            counts = log_normal_counts(users, middle, 0.8)
            ranked = auto.ranking(CountsKnown.all_of(counts), GRID, Fraction(1))
            winners.append(ranked[0].plan.mechanism)
            for name in COLOURS:
                errors[name].append(min(each.error for each in ranked if each.plan.mechanism == name))
        _shade(axes, numbers.astype(float), winners)
        for name, colour in COLOURS.items():
            axes.plot(numbers, errors[name], color=colour, lw=1.4, ls=":" if name == "baseline" else "-", zorder=3)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(1, 3000)
        axes.set_ylabel("forecast error, km/h")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_title(f"{title} (median {middle})", fontsize=11)
    rows[-1].set_xlabel("vehicles in the HAT")
    rows[-1].xaxis.set_major_formatter("{x:g}")
    patches = [Patch(color=colour, label=name) for name, colour in COLOURS.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("auto at epsilon 1: forecasts (lines) and the choice (shaded); prior 20 ± 15 km/h")
    return figure


def _shade(axes: Axes, numbers: Float64s, winners: Sequence[str]) -> None:
    """A background in the winner's colour, from where it begins to win."""
    edges = [float(numbers[0]), *np.sqrt(numbers[:-1] * numbers[1:]).tolist(), float(numbers[-1])]
    first = [at for at, name in enumerate(winners) if at == 0 or winners[at - 1] != name]
    for low, high in zip(first, [*first[1:], len(winners)], strict=True):
        axes.axvspan(edges[low], edges[high], color=COLOURS[winners[low]], alpha=0.22, lw=0)


def _forecast(mechanism: Mechanism, counts: Int64s, epsilon: Fraction, prior: Prior) -> float:
    return forecast_of_one(mechanism, CountsKnown.all_of(counts), GRID, epsilon, prior)


def _one(width: float, height: float) -> tuple[Figure, Axes]:
    return (figure := Figure(figsize=(width, height), layout="constrained")), figure.add_subplot()


def _seeded() -> Noise:  # the same at every drawing
    return Noise(np.random.default_rng(1).bytes)


PICTURES: dict[str, Callable[[], Figure]] = {
    "baseline": draw_baseline,
    "array-average": draw_array_average,
    "m-ub": draw_m_ub,
    "levy": draw_levy,
    "fixed-quantile": draw_fixed_quantile,
    "worst-case-optimal": draw_worst_case_optimal,
    "auto": draw_auto,
}


def main() -> None:
    for name, draw in PICTURES.items():
        with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
            path = save_picture(draw(), FOLDER / f"{name}.png")
        print(f"{path}: {math.ceil(path.stat().st_size / 1000)} kB")


if __name__ == "__main__":
    main()
