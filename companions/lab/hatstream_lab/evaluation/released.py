"""Measures of what is released of days by levels: errors, intervals, coarser products, live values, places, classes."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hatstream.api import Specification, release_days
from hatstream_lab.evaluation.days import BLOCK_H, DELTA, Days, local_hours, parents_of, text_column, truth_of
from hatstream_lab.evaluation.experiment import Mean, Row, Worst
from hatstream_lab.evaluation.telemetry import HAT_KEYS, groups_of
from hatstream_lab.types import Float64s

CLASSES: tuple[tuple[int, float], ...] = ((1, 4), (4, 10), (10, 30), (30, np.inf))
"""HATs by true vehicles: from, below."""
CONSTANT = "constant"
STORM = 0.6
"""What all speeds of the last day are multiplied with in a made-up storm."""
FROM_VEHICLES = 10
"""Of groups whose distributions are compared."""
BINS = 260
PERCENTILES = {"p15": 0.15, "p50": 0.5, "p85": 0.85}


class Variation(NamedTuple):
    """A setting: the epsilon of a vehicle and day (or of span_days), with DELTA or pure. further: tables."""

    total: str
    delta: Decimal | None
    span_days: int = 1
    further: Mapping[str, Any] = {}

    @property
    def labels(self) -> dict[str, str | int | None]:
        return {"total": self.total, "delta": None if self.delta is None else str(float(self.delta))}

    def spec(self, days: Days) -> Specification:
        return days.spec(self.total, self.delta, self.span_days, **self.further)


def settings(
    totals: Sequence[str], span_days: int = 1, kinds: Sequence[str] = ("pure", "delta"), **tables: Any
) -> list[Variation]:
    """Lists every total, pure and with delta."""
    return [
        Variation(total, DELTA if kind == "delta" else None, span_days, tables) for total in totals for kind in kinds
    ]


def beside(rows: pa.Table, truth: pa.Table, keys: Sequence[str] = HAT_KEYS) -> dict[str, NDArray[Any]]:
    """Joins released rows with what is true of them; those of which nothing is true are left out."""
    joined = rows.join(truth, list(keys), join_type="inner", use_threads=False).combine_chunks()
    return {name: joined[name].to_numpy() for name in joined.column_names}


@lru_cache(maxsize=8)
def _hat_truth(counted: "_SameRows") -> pa.Table:
    return truth_of(counted.days, dict.fromkeys(HAT_KEYS))


class _SameRows:
    """Counted days, told apart by their identity."""

    def __init__(self, days: Days) -> None:
        self.days = days

    def __hash__(self) -> int:
        return id(self.days.counted)

    def __eq__(self, days: object) -> bool:
        return isinstance(days, _SameRows) and self.days.counted is days.days.counted


def hat_truth(days: Days) -> pa.Table:
    """Adds up reports of every HAT."""
    return _hat_truth(_SameRows(days))


def errors_of(days: Days, released: pa.Table, labels: Row) -> Iterator[Row]:
    """Measures errors of HATs: of all days, and of each. Days without a value count in `held_back` alone."""
    truth = hat_truth(days)
    hats = beside(released, truth)
    error, reports, vehicles = np.abs(hats["value"] - hats["truth"]), hats["reports"], hats["vehicles"]
    has_value = ~np.isnan(error)
    constant = np.abs(hats["truth"] - days.mean_kmh)
    held_back = [not has_value[hats["period"] == day].any() for day in sorted(set(hats["period"]))]
    spans = {"from_10": (10, np.inf), "from_30": (30, np.inf)} | {span_name(*span): span for span in CLASSES}

    def figures(chosen: NDArray[np.bool_]) -> dict[str, Mean]:
        means = {"hats": Mean.of(error[chosen]), "rows": Mean.of(error[chosen], reports[chosen])}
        for name, (least, most) in spans.items():
            means[name] = Mean.of(error[chosen & (vehicles >= least) & (vehicles < most)])
        return means | {"bar": Mean.of(constant[chosen], reports[chosen])}

    bar = float(constant[has_value] @ reports[has_value])
    feed = float(error[has_value] @ reports[has_value]) / bar if bar else None
    yield {**labels, "day": "all", **figures(has_value), "worst_run": Worst(feed), "held_back": Mean.of(held_back)}
    for day in sorted(set(hats["period"])):
        yield {**labels, "day": str(day), **figures(has_value & (hats["period"] == day))}


def constant_rows(days: Days) -> pa.Table:
    """Writes the city's true mean as if it were released everywhere."""
    truth = hat_truth(days)
    return truth.select(list(HAT_KEYS)).append_column("value", pa.array(np.full(truth.num_rows, days.mean_kmh)))


def learned(days: Days, setting: Variation, run: int, *, causal_alone: bool = False) -> Iterator[Row]:
    """Measures estimates of days: causal, by all that is known in the end, before anything is known of a day."""
    further = not causal_alone
    released = release_days(setting.spec(days), days.counted, seed=run, whole=further, forecasts=further)
    for name, of in (("causal", "hats"), ("whole", "whole"), ("forecast", "forecast")):
        if of in released:
            yield from errors_of(days, released[of], {"part": "errors", **setting.labels, "estimate": name})
    yield from errors_of(days.half(), released["hats"], {"part": "errors", **setting.labels, "estimate": "half"})
    yield from covered(days, released["hats"], {"part": "intervals", **setting.labels})
    yield from products(days, released, {"part": "products", **setting.labels})


def covered(days: Days, released: pa.Table, labels: Row) -> Iterator[Row]:
    """Measures intervals of HATs with status ok, by true vehicles."""
    hats = beside(released, hat_truth(days))
    ok = hats["status"] == "ok"
    held = (hats["lower95"] <= hats["truth"]) & (hats["truth"] <= hats["upper95"])
    half = (hats["upper95"] - hats["lower95"]) / 2
    for least, most in ((1, np.inf), *CLASSES):
        chosen = ok & (hats["vehicles"] >= least) & (hats["vehicles"] < most)
        name = "all" if (least, most) == (1, np.inf) else span_name(least, most)
        there = {"ok": Mean(float(chosen.sum())), "held": Mean.of(held[chosen]), "half_width": Mean.of(half[chosen])}
        yield {**labels, "vehicles": name, **there}


def products(days: Days, released: Mapping[str, pa.Table], labels: Row) -> Iterator[Row]:
    """Measures coarser products: rows with status ok of groups that have reports."""
    keys: dict[str, tuple[pa.Array | None, Sequence[str]]] = {
        "cell-day": (None, ("period", "cell")),
        "parent-hour": (parents_of(days), HAT_KEYS),
        "city-hour": (text_column(days, "city"), HAT_KEYS),
    }
    for name, (cells, by) in keys.items():
        if name in released:
            rows = beside(released[name], truth_of(days, {key: cells if key == "cell" else None for key in by}), by)
            ok = rows["status"] == "ok"
            held = ((rows["lower95"] <= rows["truth"]) & (rows["truth"] <= rows["upper95"]))[ok]
            error, half = np.abs(rows["value"] - rows["truth"])[ok], (rows["upper95"] - rows["lower95"])[ok] / 2
            means = {"error": Mean.of(error), "half_width": Mean.of(half), "held": Mean.of(held)}
            yield {**labels, "product": name, "ok": Mean(float(ok.sum())), **means}


def live(days: Days, setting: Variation, run: int) -> Iterator[Row]:
    """Measures live values of every day but the first, and what part of a storm on the last day they show."""
    released = release_days(setting.spec(days), days.counted, seed=run, live=True, forecasts=True)
    truth, means = hat_truth(days), {}
    for name, of in (("live", "live"), ("forecast", "forecast"), ("end", "hats")):
        means[name] = beside(released[of], truth)
    leans, last = means["live"], days.names[-1]
    for day in days.names[1:]:
        row: dict[str, Any] = {"part": "errors", **setting.labels, "day": day}
        for name, hats in means.items():
            row[name] = _error_of_day(hats, day)
        of_day = leans["period"] == day
        yield row | {"leans": Mean.of(leans["leans_on_day"][of_day], leans["reports"][of_day])}
    stormy = days.times(STORM, last)
    storm = release_days(setting.spec(days), stormy.counted, seed=run, live=True)
    slower = beside(storm["live"], hat_truth(stormy))
    both = pa.table({name: slower[name] for name in (*HAT_KEYS, "value", "truth")}).filter(
        pc.equal(pa.array(slower["period"]), last)
    )
    usual = pa.table({name: leans[name] for name in (*HAT_KEYS, "value", "truth", "reports")})
    pairs = beside(both, usual.rename_columns([*HAT_KEYS, "usual", "usual_truth", "reports"]))
    known = ~np.isnan(pairs["value"]) & ~np.isnan(pairs["usual"])
    drop = ((pairs["usual_truth"] - pairs["truth"]) * pairs["reports"])[known].sum()
    shown = ((pairs["usual"] - pairs["value"]) * pairs["reports"])[known].sum()
    yield {"part": "storm", **setting.labels, "day": last, "storm": Mean(float(shown), float(drop))}


def _error_of_day(hats: Mapping[str, NDArray[Any]], day: str) -> Mean:
    there = (hats["period"] == day) & ~np.isnan(hats["value"])
    return Mean.of(np.abs(hats["value"] - hats["truth"])[there], hats["reports"][there])


def places(days: Days, setting: Variation, run: int) -> Iterator[Row]:
    """Measures the map of places after each day, by all reports until then."""
    shown = release_days(setting.spec(days), days.counted, seed=run)["place-standing"]
    for number, day in enumerate(days.names, 1):
        until = days.chosen(pc.and_(pc.less_equal(days.counted["period"], day), pc.is_valid(days.counted["place"])))
        truth = truth_of(until, {"place": None}).rename_columns(["cell", "reports", "vehicles", "truth"])
        rows = beside(shown.filter(pc.equal(shown["period"], day)).drop_columns(["place"]), truth, ("cell",))
        reports, ok, truth_kmh = rows["reports"], rows["status"] == "ok", rows["truth"]
        known = ~np.isnan(rows["value"])
        copied = np.where(ok | np.isnan(rows["parent_value"]), rows["value"], rows["parent_value"])
        city = float(truth_kmh @ reports / reports.sum()) if reports.size else 0.0
        held = ((rows["lower95"] <= truth_kmh) & (truth_kmh <= rows["upper95"]))[ok]
        yield {
            "part": "places",
            **setting.labels,
            "day": number,
            "learned": Mean.of(np.abs(rows["value"] - truth_kmh)[known], reports[known]),
            "shown": Mean.of(np.abs(copied - truth_kmh)[known], reports[known]),
            CONSTANT: Mean.of(np.abs(truth_kmh - city), reports),
            "ok": Mean.of(ok, reports),
            "held": Mean.of(held),
        }


def spread(days: Days, setting: Variation, run: int) -> Iterator[Row]:
    """Measures percentiles of cells' days, and of parts of them, that FROM_VEHICLES vehicles and more passed."""
    released = release_days(setting.spec(days), days.counted, seed=run)
    upper, counts = days.upper_kmh, lists_of(days.counted["histograms"])
    whole = quantiles(counts.sum(axis=0)[None], upper)
    block = pa.array(local_hours(days.counted["slot"].to_numpy(), days.tables) // BLOCK_H)
    for product in ("cell-day", "cell-part"):
        if product not in released:
            continue
        rows = released[product]
        part = block if product == "cell-part" else pa.array(np.zeros(len(block), np.int64))
        starts = local_hours(rows["slot"].to_numpy(), days.tables) // BLOCK_H
        rows = rows.append_column("part", pa.array(starts if product == "cell-part" else 0 * starts))
        keys = pa.table({"period": days.counted["period"], "cell": days.counted["cell"], "part": part})
        groups, index = groups_of(keys)
        added = np.zeros((groups.num_rows, counts.shape[1]), np.int64)
        np.add.at(added, index, counts)
        vehicles = truth_of(days, {"period": None, "cell": None, "part": part})
        truth = groups
        for name, values in zip(PERCENTILES, quantiles(added, upper), strict=True):
            truth = truth.append_column(f"true_{name}", pa.array(values))
        truth = truth.join(vehicles, ["period", "cell", "part"], join_type="inner", use_threads=False)
        told = beside(
            rows, truth.filter(pc.greater_equal(truth["vehicles"], FROM_VEHICLES)), ("period", "cell", "part")
        )
        yield from _percentiles(days, setting, product, told, whole, upper)


def _percentiles(
    days: Days, setting: Variation, product: str, rows: Mapping[str, NDArray[Any]], whole: Float64s, upper: float
) -> Iterator[Row]:
    for number, day in enumerate(days.names, 1):
        for index, name in enumerate(PERCENTILES):
            there = (rows["period"] == day) & ~np.isnan(rows[name])
            truth, ok = rows[f"true_{name}"][there], rows["distribution_status"][there] == "ok"
            low, high = rows[f"{name}_lower95"][there], rows[f"{name}_upper95"][there]
            held = (low <= truth + upper / BINS) & (truth - upper / BINS <= high)
            yield {
                "part": "spread",
                **setting.labels,
                "product": product,
                "percentile": name.upper(),
                "day": number,
                "error": Mean.of(np.abs(rows[name][there] - truth)),
                CONSTANT: Mean.of(np.abs(whole[index, 0] - truth)),
                "held": Mean.of(held),
                "half_width": Mean.of((high - low) / 2),
                "ok": Mean.of(ok),
                "held_ok": Mean.of(held[ok]),
            }


def lists_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Reads a column of lists equally long, (rows, entries)."""
    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(joined.flatten().to_numpy()).reshape(len(joined), -1)


def quantiles(counts: NDArray[np.int64], upper: float) -> Float64s:
    """Finds percentiles (levels, groups) of reports in bins, (groups, BINS), in which they are taken to lie evenly."""
    below = np.cumsum(counts, axis=-1)
    result = []
    for level in PERCENTILES.values():
        wanted = level * below[:, -1]
        index = np.argmax(below >= wanted[:, None], axis=-1)
        row = np.arange(index.size)
        there = np.maximum(counts[row, index], 1)
        result.append((index + 1 - (below[row, index] - wanted) / there) * upper / counts.shape[1])
    return np.stack(result).astype(np.float64)


def part_tables(tables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Lists products whose rows say how values are spread: of cells' days, and of blocks of hours in service."""
    first, last = (int(text[:2]) for text in tables["slot"].get("service", "00:00-24:00").split("-"))
    starts = [max(start, first) for start in range(0, 24, BLOCK_H) if first < start + BLOCK_H and start < last]
    parts = [f"{start:02d}:00-{min(start // BLOCK_H * BLOCK_H + BLOCK_H, last):02d}:00" for start in starts]
    return [{"product": "cell-day"}, {"product": "cell-part", "parts": parts}]


def span_name(least: float, most: float) -> str:
    """Names numbers of vehicles from the least on, below the most."""
    return f"{least:g}+" if most == np.inf else f"{least:g}-{most - 1:g}"
