"""Computes the papers' tables on their data sets, beside the published errors.

A data set is one HAT's users: `counts` of samples by user, and sums of their speeds in grid steps. A cell is a data
set, mechanism and epsilon, as in the papers' tables; `auto` chooses among the other mechanisms. `reference`: the
published figure. S0, S1, S4 and E22 are sources in docs/algorithms.md.
"""

import hashlib
import math
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.table import Table as RichTable

from dpops import CountsKnown, Grid, Mechanism, Noise, Prior, Totals, forecast_of_one, registered
from hatstream.api import InputError
from hatstream_lab.evaluation.experiment import Float64s, Int64s, Mean, Progress, Row, Table, experiment

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
    effects = np.repeat(rng.normal(0, math.sqrt(_BETWEEN_USERS), base.size), base)  # of users; `raw` has variance 1
    raw = effects + rng.normal(0, math.sqrt(1 - _BETWEEN_USERS), effects.size)
    shift, stretch = MEAN_KMH, math.sqrt(VARIANCE_KMH2)
    # Clipping changes mean and variance, so shift and stretch are corrected until both are the published ones.
    for _ in range(200):  # far beyond convergence
        speeds = np.clip(shift + stretch * raw, 0, UPPER_KMH)
        shift += MEAN_KMH - speeds.mean()
        stretch *= math.sqrt(VARIANCE_KMH2 / speeds.var())
    # Sets that are the same in every run. In the larger ones speeds are independent of users; the first is like a feed.
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
            user_counts = _checked(counts)  # raises ValueError unless all are integers of at least 1
            datasets.append(fixed(path.stem.replace("_", "-"), user_counts, values.astype(np.float64)))
        except _UNREADABLE as error:
            raise InputError(f"{path} is no data set: {error}") from None
    return datasets


def counts_from(path: Path) -> Int64s:
    """Reads counts from a JSON list, or an object's key `counts`. Raises InputError."""
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
    start = np.cumsum(counts) - counts  # index of each user's first sample
    order = np.argsort(-counts, kind="stable")  # counts of a `DataSet` never increase
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
        speeds_kmh = speeds(rng, (runs, int(counts.sum())))
        return np.add.reduceat(_steps(speeds_kmh), start, axis=1), speeds_kmh.mean(axis=1)

    return DataSet(name, counts, draw, prior)


def itms_counts() -> Int64s:
    """Makes USERS log-normal counts with the published statistics: bisects for the law's shape."""
    # Normal quantiles at the middles of USERS equal parts: counts are exp(shape * score) around the median.
    scores = np.array([NormalDist().inv_cdf((rank + 0.5) / USERS) for rank in range(USERS)])

    def counts_of(shape: float) -> Int64s:
        counts: Int64s = np.clip(np.rint(MEDIAN * np.exp(shape * scores)), 1, MOST).astype(np.int64)
        counts[0], counts[-1] = 1, MOST  # least and largest count, both published
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


_TOML_FIGURES = tomllib.loads(files(__package__).joinpath("reference.toml").read_text())
_PUBLISHED_DECIMALS: dict[str, dict[str, int]] = _TOML_FIGURES.pop("decimals")
"""Printed decimals by data set and mechanism, where they are not three."""
REFERENCE: dict[str, dict[str, dict[str, float]]] = {
    data: {label: dict(zip(table["epsilons"], row, strict=True)) for label, row in table.items() if label != "epsilons"}
    for data, table in _TOML_FIGURES.items()
}  # published mean absolute errors in km/h, by data set, mechanism and epsilon; of 10,000 runs
EPSILONS = {name: tuple(next(iter(table.values()))) for name, table in REFERENCE.items()}
REDRAWN = ("geometric", "extreme")  # sets that are the papers' own whatever the seed


class Sources(NamedTuple):
    """Origin of data sets; folder replaces generated ones."""

    seed: int = 1
    counts: tuple[int, ...] | None = None
    folder: Path | None = None


class Cell(NamedTuple):
    """A setting: one cell of a table."""

    data: str
    mechanism: str
    epsilon: str
    runs: int


@lru_cache(maxsize=2)
def data_sets(sources: Sources) -> dict[str, DataSet]:
    """Makes all data sets, by name."""
    counts = None if sources.counts is None else np.array(sources.counts, np.int64)
    first = itms_like(sources.seed, counts) if sources.folder is None else from_folder(sources.folder)
    return {data.name: data for data in (*first, geometric(), extreme())}


def build(name: str, **options: Any) -> Mechanism:
    """Makes a registered mechanism with options."""
    kind: Any = registered()[name]
    mechanism: Mechanism = kind(**options)
    return mechanism


def contenders(data: DataSet) -> dict[str, Mechanism]:
    """Makes the mechanisms to compare on a data set, by label of their column."""
    plain = ("levy", "fixed-quantile", "epsilon-quantile", "opt-array", "worst-case-optimal", "akmv")
    return {
        "baseline": build("baseline"),
        "array-average": build("array-average"),
        "array-average-argmax": build("array-average", m_ub="argmax"),  # rule of arrays' length
        "array-average-wrap-around": build("array-average", grouping="wrap-around"),  # how users fill arrays
        **{name: build(name) for name in plain},
        "worst-case-optimal-tie": build("worst-case-optimal", tie="smallest"),  # of thresholds that are equally good
        "auto": build("auto", prior=data.prior),
    }


def compare(sources: Sources, runs: int, report: Progress, processes: int = 1, cells: Sequence[Cell] = ()) -> Table:
    """Measures every data set by every mechanism and epsilon, or `cells`. Raises InputError."""
    sets = data_sets(sources)
    all_cells = [
        Cell(name, label, epsilon, runs)
        for name, data in sets.items()
        for label in contenders(data)
        for epsilon in EPSILONS.get(name, ("0.5", "1", "1.5", "2"))  # of a data set that no paper has
    ]
    table = experiment(sources, cells or all_cells, measure_cell, report=report, processes=processes)
    return table.with_figures({"reference": reference_of, "agrees": agrees})


def measure_cell(sources: Sources, cell: Cell, _run: int = 0) -> Iterator[Row]:
    """Measures all runs of a cell, seeded by name.

    Figures, km/h: `error`, the mean absolute error as the papers have it, and its `standard_error`; `published`, of
    values clamped into [0, U], as they are published, which is what is forecast; `forecast`; `worst_case`.
    """
    return release_often(data_sets(sources)[cell.data], cell, sources.seed)


def release_often(data: DataSet, cell: Cell, seed: int) -> Iterator[Row]:
    """Measures `cell.runs` releases of a data set by one mechanism, as one row."""
    counts, epsilon, mechanism = data.counts, Fraction(cell.epsilon), contenders(data)[cell.mechanism]
    hat = CountsKnown.all_of(counts)  # what a plan may know: no sample is dropped before it
    plan = mechanism.plans([hat], GRID, epsilon)[0]
    digest = hashlib.sha256(f"{seed}/{data.name}/{cell.mechanism}/{cell.epsilon}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8]))
    noise = Noise(rng.bytes)
    chunk = max(1, 400_000 // counts.size)  # runs of one call to `release`: so many users are fast, and fit the memory
    error_chunks, clamped_chunks = [], []  # absolute errors in km/h, (runs,), of values as drawn and as published
    for start in range(0, cell.runs, chunk):
        number = min(chunk, cell.runs - start)
        sums, truths = data.draw(rng, number)  # (number, users) and (number,); one row if the set is fixed
        totals = [Totals(counts, row) for row in np.broadcast_to(sums, (number, counts.size))]
        drawn = mechanism.release(totals, [plan] * number, noise)
        values = np.array([integers[-1] for integers in drawn]) * float(plan.step)  # after private choices, if any
        error_chunks.append(np.abs(values - truths))
        clamped_chunks.append(np.abs(np.clip(values, 0, UPPER_KMH) - truths))
    errors = np.concatenate(error_chunks)
    yield {
        "data": data.name,
        "mechanism": cell.mechanism,
        "epsilon": cell.epsilon,
        "chosen": plan.mechanism,
        "runs": cell.runs,
        "error": Mean.of(errors),
        "standard_error": Mean(float(errors.std() / math.sqrt(cell.runs))),
        "published": Mean.of(np.concatenate(clamped_chunks)),
        "forecast": Mean(forecast_of_one(mechanism, hat, GRID, epsilon, data.prior)),
        "worst_case": Mean(plan.error()),
    }


def reference_of(row: Mapping[str, Any]) -> float | None:
    """Reads the reference's error for a row, or None."""
    return REFERENCE.get(row["data"], {}).get(row["mechanism"], {}).get(row["epsilon"])


def agrees(row: Mapping[str, Any]) -> bool | None:
    """Checks that figures agree within 4 standard errors; None without a reference."""
    reference = reference_of(row)
    if reference is None:
        return None
    # Of the difference: both figures have the same spread per run, and the reference has 10,000 runs.
    standard_error = math.hypot(row["standard_error"], row["standard_error"] * math.sqrt(row["runs"] / 10_000))
    decimals = _PUBLISHED_DECIMALS.get(row["data"], {}).get(row["mechanism"], 3)
    if decimals == 2 and reference >= 11 and reference == round(reference, 1):
        decimals = 1  # columns of two decimals print figures from 11 on with one
    return bool(abs(row["error"] - reference) <= 4 * standard_error + 10.0**-decimals / 2)


def ratios_to_best(table: Table) -> dict[str, dict[str, list[float]]]:
    """Divides errors by the best single mechanism's: by mechanism and data, over epsilons."""
    best: dict[tuple[str, str], float] = {}
    for row in table.rows:
        if row["mechanism"] != "auto":
            key = row["data"], row["epsilon"]
            best[key] = min(best.get(key, math.inf), row["error"])
    ratios: dict[str, dict[str, list[float]]] = {}
    for row in table.rows:
        ratio = row["error"] / best[row["data"], row["epsilon"]]
        ratios.setdefault(row["mechanism"], {}).setdefault(row["data"], []).append(ratio)
    return ratios


def tables(table: Table, *, is_exact: bool) -> Iterator[RichTable]:
    """Renders each set's errors with references, and `auto`'s value.

    is_exact: all sets are the reference's own, so that disagreement is marked.
    """
    names = list(dict.fromkeys(row["data"] for row in table.rows))
    for name in names:
        is_comparable = is_exact or name in REDRAWN  # sets that are the papers' own even if generated
        note = (
            "measured ± its standard error (reference figure); ! differs by more than 4 standard errors of both and "
            "half a unit of the last digit"
            if is_comparable
            else "measured ± its standard error (reference figure, of other data that meet published statistics)"
        )

        def text(row: Mapping[str, Any], is_comparable: bool = is_comparable) -> str:
            mark = " !" if is_comparable and row["agrees"] is False else ""
            reference = "" if row["reference"] is None else f" ({row['reference']:g}){mark}"
            return f"{row['error']:.3f} ±{row['standard_error']:.3f}{reference}"

        of_set = table.where(data=name)
        epsilons = list(dict.fromkeys(row["epsilon"] for row in of_set.rows))
        title = f"{name}{'' if is_comparable else ' (generated)'}: mean absolute error, km/h"
        headings = {epsilon: f"ε {epsilon}" for epsilon in epsilons}
        yield of_set.grid("mechanism", ("epsilon",), text).show(title, note, ("mechanism",), headings)
    rows: list[dict[str, Any]] = []
    for label, by_set in ratios_to_best(table).items():
        by_name = by_set | {"all": [ratio for of_set in by_set.values() for ratio in of_set]}
        texts = {name: f"{math.fsum(ratios) / len(ratios):.2f} ({max(ratios):.2f})" for name, ratios in by_name.items()}
        rows.append({"always": label, **texts})
    yield Table(rows).show(
        "error over that of the best single mechanism: average (worst cell)",
        "1.00 is the best single mechanism of each data set and epsilon, chosen after the fact.",
        ("always",),
        [*names, "all"],
    )
    auto_rows = [row | {"ratio": row["forecast"] / row["published"]} for row in table.where(mechanism="auto").rows]
    yield Table(auto_rows).show(
        "auto: its choice, forecast over simulated error",
        "",
        ("data", "epsilon", "chosen"),
        {"published": "simulated error", "forecast": "forecast", "ratio": "forecast / error"},
    )


def pictures(table: Table, folder: Path) -> list[Path]:
    """Draws errors over epsilon, references as open rings."""
    axes = ("epsilon of the HAT", "mean absolute error, km/h")
    style: dict[str, Any] = {"series": ("mechanism",), "axes": axes, "is_log": True, "rings": "reference"}
    return [
        table.where(data=name).draw(folder / f"error-{name}.png", "epsilon", "error", **style, title=name)
        for name in dict.fromkeys(row["data"] for row in table.rows)
    ]
