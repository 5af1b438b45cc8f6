"""Measures released days: errors, intervals, coarser products, places, distributions.

Truth is the mean of all reports of a group, from counted rows, each of a vehicle in a HAT. Estimates are causal (by
releases until then), whole (by all days') or forecasts. An interval holds if the truth lies inside; `ok` is the status
of usable rows. `Mean.of(values, weights)` is a figure that is averaged over runs, `Worst` the largest of them.
Figures of errors: "hats", a mean over HATs, "rows", over reports. `table.where(..)` takes a label, or each of a tuple.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import h3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.table import Table as RichTable

from hatstream.api import release_days
from hatstream_lab.evaluation.days import BLOCK_H, DELTA, HAT_KEYS, Days, indices_in, joined_with_truth, local_hours
from hatstream_lab.evaluation.experiment import Float64s, Mean, Row, Table, Worst, experiment

CLASSES = {"1-3": (1, 4), "4-9": (4, 10), "10-29": (10, 30), "30+": (30, np.inf)}  # HATs by true vehicles: from, below
SPANS: Mapping[str, tuple[float, float]] = {"from_10": (10, np.inf), "from_30": (30, np.inf)} | CLASSES
CONSTANT = "constant"
FROM_VEHICLES = 10  # of groups whose distributions are compared
PERCENTILES = {"p15": 0.15, "p50": 0.5, "p85": 0.85}
PRODUCTS = ("days", "parent-hour", "city-hour")
LABELS = ("city", "total", "delta")


class Variation(NamedTuple):
    """Setting: epsilon of a vehicle in `span_days` days."""

    total: str
    delta: Decimal | None
    span_days: int = 1

    @property
    def labels(self) -> dict[str, str | int | None]:
        """Columns that identify the variation in result rows."""
        return {"total": self.total, "delta": None if self.delta is None else str(float(self.delta))}

    def release(self, days: Days, run: int, **estimates: bool) -> dict[str, pa.Table]:
        """Releases days under the variation, seeded by the run."""
        return release_days(days.spec(*self), days.counted, seed=run, **estimates)


def settings(totals: Sequence[str], noise: Sequence[str] = ("pure", "delta"), span_days: int = 1) -> list[Variation]:
    """Lists every total, pure and with delta."""
    deltas = [DELTA if kind == "delta" else None for kind in noise]
    return [Variation(total, delta, span_days) for total in totals for delta in deltas]


def errors_of(days: Days, released: pa.Table, labels: Row) -> Iterator[Row]:
    """Measures absolute errors of HATs, km/h, over all days and each one.

    Figures: "hats" and "rows", means by HATs and by reports; each name of SPANS, that of HATs with so many vehicles;
    "bar", "rows" of the city's true mean everywhere; "worst_run", this run's "rows" over "bar" on all days, of which a
    table of several runs shows the largest; "held_back", the share of days without a value. labels: of each row.
    """
    hats = joined_with_truth(released, days.hats)
    error, reports, vehicles = np.abs(hats["value"] - hats["truth"]), hats["reports"], hats["vehicles"]
    has_value, periods = ~np.isnan(error), sorted(set(hats["period"]))
    constant = np.abs(hats["truth"] - days.mean_kmh)
    constant_sum = float(constant[has_value] @ reports[has_value])  # of the constant's errors, over reports
    ratio = float(error[has_value] @ reports[has_value]) / constant_sum if constant_sum else None
    held_back = Mean.of([not has_value[hats["period"] == day].any() for day in periods])
    for day in ("all", *periods):
        chosen = has_value & ((hats["period"] == day) | (day == "all"))
        means = {"hats": Mean.of(error[chosen]), "rows": Mean.of(error[chosen], reports[chosen])}
        for name, (minimum, maximum) in SPANS.items():
            means[name] = Mean.of(error[chosen & (vehicles >= minimum) & (vehicles < maximum)])
        means["bar"] = Mean.of(constant[chosen], reports[chosen])
        totals: Row = {"worst_run": Worst(ratio), "held_back": held_back} if day == "all" else {}
        yield {**labels, "day": str(day), **means, **totals}


def constant_rows(days: Days) -> pa.Table:
    """Writes the city's true mean as released rows."""
    hats = days.hats.select(HAT_KEYS)
    return hats.append_column("value", pa.array(np.full(hats.num_rows, days.mean_kmh)))


def learned(days: Days, setting: Variation, run: int, *, is_brief: bool = False) -> Iterator[Row]:
    """Measures estimates of days, intervals, coarser products and places. is_brief: causal estimates alone."""
    # "hats" has causal estimates, by releases up to each day; "whole" those by the releases of all days.
    released = setting.release(days, run, whole=not is_brief, forecasts=not is_brief)
    for name, product in (("causal", "hats"), ("whole", "whole"), ("forecast", "forecast")):
        if product in released:
            yield from errors_of(days, released[product], {"part": "errors", **setting.labels, "estimate": name})
    hats = joined_with_truth(released["hats"], days.hats)
    for name, (minimum, maximum) in {"all": (1, np.inf), **CLASSES}.items():
        chosen = (hats["vehicles"] >= minimum) & (hats["vehicles"] < maximum)
        yield {"part": "intervals", **setting.labels, "vehicles": name, **_intervals(hats, chosen)}
    cells = days.counted["cell"].combine_chunks().dictionary_encode()
    parents = [h3.cell_to_parent(cell, h3.get_resolution(cell) - 1) for cell in cells.dictionary.to_pylist()]
    keys: dict[str, dict[str, pa.Array | None]] = {
        "days": dict.fromkeys(("period", "cell")),  # None: the counted rows' column
        "parent-hour": {**dict.fromkeys(HAT_KEYS), "cell": pa.array(parents).take(cells.indices)},
        "city-hour": {**dict.fromkeys(HAT_KEYS), "cell": pa.array(["city"] * days.counted.num_rows)},
    }
    for product in PRODUCTS:
        if product in released:
            rows = joined_with_truth(released[product], days.truth_by(keys[product]), list(keys[product]))
            yield {"part": "products", **setting.labels, "product": product, **_intervals(rows, chosen=True)}
    if "place-standing" in released:
        yield from _places(days, setting, released["place-standing"])


def _intervals(rows: Mapping[str, NDArray[Any]], chosen: NDArray[np.bool_] | bool) -> dict[str, Mean]:
    """Measures usable rows: number, share held by intervals, half width, error (km/h)."""
    ok = (rows["status"] == "ok") & chosen  # (rows,); chosen: a mask, or True for all
    covers = (rows["lower95"] <= rows["truth"]) & (rows["truth"] <= rows["upper95"])
    return {
        "ok": Mean(float(ok.sum())),  # averaged over runs later
        "held": Mean.of(covers[ok]),
        "half_width": Mean.of(((rows["upper95"] - rows["lower95"]) / 2)[ok]),
        "error": Mean.of(np.abs(rows["value"] - rows["truth"])[ok]),
    }


def _places(days: Days, setting: Variation, rows: pa.Table) -> Iterator[Row]:
    """Measures the map of places after each day, against all reports until then.

    rows: released rows of the product "place-standing"; errors in km/h, weighted by reports.
    """
    for number, day in enumerate(days.names, 1):
        until = days.chosen(pc.and_(pc.less_equal(days.counted["period"], day), pc.is_valid(days.counted["place"])))
        truth = until.truth_by({"cell": until.counted["place"]})  # result rows name their place in `cell` too
        both = joined_with_truth(rows.filter(pc.equal(rows["period"], day)).drop_columns(["place"]), truth, ("cell",))
        reports, ok, true = both["reports"], both["status"] == "ok", both["truth"]
        has_value = ~np.isnan(both["value"])
        # As the map draws them: a place that is not ok has the value of its cell.
        map_kmh = np.where(ok | np.isnan(both["parent_value"]), both["value"], both["parent_value"])
        city = float(true @ reports / reports.sum()) if reports.size else 0.0
        yield {
            "part": "places",
            **setting.labels,
            "day": number,
            "learned": Mean.of(np.abs(both["value"] - true)[has_value], reports[has_value]),
            "shown": Mean.of(np.abs(map_kmh - true)[has_value], reports[has_value]),
            CONSTANT: Mean.of(np.abs(true - city), reports),
            "ok": Mean.of(ok, reports),
            "held": _intervals(both, chosen=True)["held"],
        }


def percentiles(days: Days, setting: Variation, run: int) -> Iterator[Row]:
    """Measures percentiles of HATs and cells' days with FROM_VEHICLES vehicles or more."""
    upper, histograms = float(days.tables["speed"]["upper_kmh"]), days.counted["histograms"].combine_chunks()
    counts = histograms.flatten().to_numpy().reshape(len(histograms), -1)  # (counted rows, bins)
    feed_percentiles_kmh, bin_kmh = quantiles(counts.sum(axis=0)[None], upper), upper / counts.shape[1]  # of one group
    for product, rows in setting.release(days, run).items():
        names = [name for name in PERCENTILES if name in rows.column_names]
        if not names:
            continue
        # Parts of the day, (rows,) of released rows and of counted ones: slots, four hours, or 0 for the whole day.
        part, counted_part = (table["slot"].to_numpy() for table in (rows, days.counted))
        if product != "hats":
            part, counted_part = (local_hours(slot, days.tables) // BLOCK_H for slot in (part, counted_part))
        if product == "days":
            part, counted_part = 0 * part, 0 * counted_part
        keys = {"period": days.counted["period"], "cell": days.counted["cell"], "part": pa.array(counted_part)}
        # True percentiles of each group, (groups,), from its histogram, where enough vehicles passed.
        truth = days.truth_by(keys).select([*keys, "vehicles"])
        group_counts = np.zeros((truth.num_rows, counts.shape[1]), np.int64)
        np.add.at(group_counts, indices_in(truth, pa.table(keys)), counts)
        for name, values in zip(PERCENTILES, quantiles(group_counts, upper), strict=True):
            truth = truth.append_column(f"true_{name}", pa.array(values))
        truth = truth.filter(pc.greater_equal(truth["vehicles"], FROM_VEHICLES)).drop_columns(["vehicles"])
        status = "distribution_status" if "distribution_status" in rows.column_names else "status"
        columns = [f"{name}{end}" for name in names for end in ("", "_lower95", "_upper95")]
        rows = rows.select(["period", "cell", status, *columns]).append_column("part", pa.array(part))
        both = joined_with_truth(rows, truth, list(keys))
        for number, day in enumerate(days.names, 1):
            for name in names:
                has_value = (both["period"] == day) & ~np.isnan(both[name])
                value, true, low, high = (
                    both[column][has_value] for column in (name, f"true_{name}", f"{name}_lower95", f"{name}_upper95")
                )
                # A true percentile is known up to its bin.
                ok, covers = both[status][has_value] == "ok", (low <= true + bin_kmh) & (true - bin_kmh <= high)
                constant = feed_percentiles_kmh[list(PERCENTILES).index(name), 0]
                yield {
                    "part": "percentiles",
                    **setting.labels,
                    "product": product,
                    "percentile": name.upper(),
                    "day": number,
                    "error": Mean.of(np.abs(value - true)),
                    CONSTANT: Mean.of(np.abs(constant - true)),
                    "held": Mean.of(covers),
                    "half_width": Mean.of((high - low) / 2),
                    "ok": Mean.of(ok),
                    "held_ok": Mean.of(covers[ok]),
                }


def quantiles(counts: NDArray[np.int64], upper: float) -> Float64s:
    """Computes percentiles, (levels, groups), of reports by bin, (groups, bins), uniform within bins."""
    below = np.cumsum(counts, axis=-1)
    result = []
    for level in PERCENTILES.values():
        rank = level * below[:, -1]  # reports below the percentile
        index = np.argmax(below >= rank[:, None], axis=-1)  # the bin that it lies in
        row = np.arange(index.size)
        in_bin = np.maximum(counts[row, index], 1)  # a group without reports has 0 in its first bin
        result.append((index + 1 - (below[row, index] - rank) / in_bin) * upper / counts.shape[1])
    return np.stack(result).astype(np.float64)


def constant_table(days: Days) -> Table:
    """Measures the city's true mean, which no publisher knows."""
    labels: Row = {"part": "errors", "estimate": CONSTANT}
    return experiment(days, [labels], lambda days, labels, _run: errors_of(days, constant_rows(days), labels))


def tables(table: Table) -> Iterator[RichTable]:
    """Renders a table per part of the measurement."""
    errors, by_total = table.where(part="errors", day="all"), (*LABELS, "estimate")
    causal = table.where(part="errors", estimate=(CONSTANT, "causal"))
    by_day = Table([row for row in causal.rows if row["day"] != "all"]).grid("day", by_total, "rows")
    series = [name for name in (by_day.rows[0] if by_day.rows else ()) if name != "day"]  # columns, one a setting
    percentile_rows = table.where(part="percentiles")
    last_day = max((row["day"] for row in percentile_rows.rows), default=1)
    parts: dict[str, tuple[Table, str, tuple[str, ...], dict[str, str] | Sequence[str]]] = {
        "mean absolute error of learned estimates, km/h": (
            errors,
            "Published days alone; 10+, 30+: HATs with so many vehicles. bar: the city's true mean, by rows, on these "
            "days; worst: a run's error over it. held back: share of days.",
            by_total,
            {"hats": "HATs", "rows": "rows", "from_10": "10+", "from_30": "30+", "bar": "bar"}
            | {"worst_run": "worst", "held_back": "held back"},
        ),
        "the same by vehicles in the HAT, causal estimates": (causal.where(day="all"), "", by_total, list(CLASSES)),
        "the same by day, by rows, causal estimates": (by_day, "-: held back", ("day",), series),
        "intervals of HATs with status ok, by true vehicles": (
            table.where(part="intervals"),
            "ok: HATs of a run. held: share whose true mean lies inside. half width: mean, km/h.",
            (*LABELS, "vehicles"),
            {"ok": "ok", "held": "held", "half_width": "half width"},
        ),
        "coarser products, rows with status ok": (
            table.where(part="products"),
            "held: share of rows whose interval holds the mean of all reports.",
            (*LABELS, "product"),
            {"ok": "ok", "error": "error", "half_width": "half width", "held": "held"},
        ),
        "error of the map of places by reports, km/h": (
            table.where(part="places"),
            "Of all days until then. learned: `value`. shown: the cell's value where a place is not ok. constant: the "
            "places' true mean. ok: reports at places that are ok, of all; held: their intervals that hold the truth.",
            (*LABELS, "day"),
            ["learned", "shown", CONSTANT, "ok", "held"],
        ),
        f"percentiles where {FROM_VEHICLES} vehicles and more passed, km/h": (
            percentile_rows.where(day=(1, last_day)),  # these two days alone
            "constant: error of the whole feed's own percentile. held: share of intervals that hold the truth.",
            (*LABELS, "product", "percentile", "day"),  # held_ok, below: the share held of those with status ok
            {name: name.replace("_", " ") for name in ("error", CONSTANT, "held", "half_width", "ok", "held_ok")},
        ),
    }
    for title, (rows, caption, labels, figures) in parts.items():
        if rows.rows:
            yield rows.show(f"NOT PRIVATE: {title}", caption, labels, figures)


def pictures(table: Table, folder: Path) -> list[Path]:
    """Draws errors over totals and days, and intervals."""
    errors = table.where(part="errors", estimate=("causal", "whole", "forecast"))
    days = Table([row for row in errors.where(estimate="causal").rows if row["day"] != "all"])
    interval_rows = table.where(part="intervals", vehicles=list(CLASSES))
    axes = ("total epsilon of a vehicle-day", "mean absolute error by rows, km/h")
    interval_axes = ("vehicles in the HAT", "share of intervals that hold the truth")
    by_estimate, by_total = ("city", "estimate", "delta"), ("city", "total", "delta")  # labels that make a line each
    return [
        errors.where(day="all").draw(folder / "learned-totals.png", "total", "rows", series=by_estimate, axes=axes),
        days.draw(folder / "learned-days.png", "day", "rows", series=by_total, axes=("", axes[1])),
        interval_rows.draw(folder / "learned-intervals.png", "vehicles", "held", series=by_total, axes=interval_axes),
    ]
