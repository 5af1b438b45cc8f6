"""Telemetry to compare with: files, the days of them that are asked for, and what they count. Not private."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpops import Totals
from hatstream.api import Specification, count_days, load
from hatstream_lab.evaluation.days import tables_of
from hatstream_lab.types import Float64s, Int64s, Report

HAT_KEYS = ("period", "slot", "cell")
_CAP = ("composition", "max_cells", "max_samples")
_MEAN = ({"name": "mean", "mechanism": "baseline"},)


@dataclass(frozen=True)
class Telemetry:
    """Files, and the specification that says how they are read. dates: first and last day or time; None for all."""

    spec: Specification
    base: Mapping[str, Any]
    pattern: str
    dates: tuple[str, str] | None = None

    @classmethod
    def of(cls, pattern: str, spec_path: Path, dates: tuple[str, str] | None) -> "Telemetry":
        """Raises SpecificationError."""
        return cls(load(spec_path), tables_of(spec_path), pattern, dates)

    @property
    def cap(self) -> dict[str, Any]:
        """The cap of the specification, as of its `[privacy]`."""
        privacy = self.base["privacy"]
        return {name: privacy[name] for name in _CAP if name in privacy} if self.spec.privacy.cap else {}

    def tables(self, statistics: Any = _MEAN, **privacy: Any) -> dict[str, Any]:
        """Writes the tables that release statistics of HATs on a day's account without a limit worth the name."""
        kept = {name: self.base[name] for name in ("name", "slot", "cells", "speed", "input")}
        account = {"unit": "vehicle-day", "adjacency": "counts-public", "limit": Decimal(10**9)}
        names = {name: self.base["account"][name] for name in ("name", "timezone")}
        return {
            **kept,
            "account": names | account,
            "privacy": {"epsilon": 1, "per": "hat"} | privacy,
            "statistic": [*statistics],
        }

    def counted(self, tables: Mapping[str, Any], report: Report, bins: int = 0) -> pa.Table:
        """Counts the days by some tables. Raises InputError."""
        return count_days(load(dict(tables)), self.pattern, self.dates, bins=bins, report=report)


class CountedTotals(NamedTuple):
    """HATs as mechanisms see them. reports: of each, those that a cap drops too. keys: HAT_KEYS of each."""

    keys: pa.Table
    totals: list[Totals]
    reports: list[int]

    @classmethod
    def of(cls, whole: pa.Table, kept: pa.Table) -> "CountedTotals":
        """Groups counted rows, of which a cap kept some reports of each."""
        rows = pa.concat_tables([whole.select(HAT_KEYS), kept.select(HAT_KEYS)])
        keys, hat = groups_of(rows)
        reports = np.bincount(hat[: whole.num_rows], whole["reports"].to_numpy(), keys.num_rows).astype(np.int64)
        counts, sums, vehicle = (kept[name].to_numpy() for name in ("reports", "sums", "vehicle"))
        hat = hat[whole.num_rows :]
        order = np.lexsort((vehicle, -counts, hat))
        order = order[counts[order] > 0]
        first = np.flatnonzero(np.diff(hat[order], prepend=-1))
        of = hat[order][first]
        totals = [Totals(counts[some], sums[some]) for some in np.split(order, first[1:])]
        return cls(keys.take(pa.array(of)), totals, reports[of].tolist())


def groups_of(keys: pa.Table) -> tuple[pa.Table, Int64s]:
    """Finds distinct rows, and which one each row is."""
    numbered = keys.append_column("row", pa.array(np.arange(keys.num_rows)))
    distinct = keys.group_by(keys.column_names).aggregate([])
    distinct = distinct.append_column("group", pa.array(np.arange(distinct.num_rows)))
    joined = numbered.join(distinct, keys.column_names, use_threads=False).sort_by("row")
    return distinct.drop_columns(["group"]), joined["group"].to_numpy()


def true_values(whole: pa.Table, step: float) -> pa.Table:
    """Finds true values of HATs by the names of statistics, beside `vehicles` and `reports`.

    Args:
        whole: Counted rows that no cap touched; with the column `squares` variances too.
        step: Of the grid, km/h.
    """
    own = pc.divide(whole["sums"].cast(pa.float64()), whole["reports"].cast(pa.float64()))
    table = whole.append_column("own", own)
    added = [name for name in ("reports", "sums", "squares") if name in table.column_names]
    wanted = [*((name, "sum") for name in added), ("own", "mean"), ("vehicle", "count")]
    grouped = table.group_by(list(HAT_KEYS), use_threads=False).aggregate(wanted)
    reports = grouped["reports_sum"].cast(pa.float64())
    mean = pc.divide(grouped["sums_sum"].cast(pa.float64()), reports)
    values = {"mean": pc.multiply(mean, step), "mean-of-vehicles": pc.multiply(grouped["own_mean"], step)}
    if "squares" in added:
        second = pc.divide(grouped["squares_sum"].cast(pa.float64()), reports)
        values["variance"] = pc.multiply(pc.subtract(second, pc.multiply(mean, mean)), step * step)
    columns = {name: grouped[name] for name in HAT_KEYS} | values
    return pa.table(columns | {"vehicles": grouped["vehicle_count"], "reports": reports})


def beside_truth(rows: pa.Table, truth: pa.Table) -> dict[str, Any]:
    """Finds of every true HAT its released row, with nulls where there is none. Names of both get `_released`."""
    left = truth.select(HAT_KEYS).append_column("hat", pa.array(np.arange(truth.num_rows)))
    right = rows.select(HAT_KEYS).append_column("row", pa.array(np.arange(rows.num_rows)))
    joined = left.join(right, list(HAT_KEYS), join_type="left outer", use_threads=False).sort_by("hat")
    columns = {name: truth[name].combine_chunks() for name in truth.column_names}
    taken = rows.take(joined["row"].combine_chunks())
    return columns | {
        f"{name}_released" if name in columns else name: taken[name].combine_chunks() for name in taken.column_names
    }


def floats(column: Any) -> Float64s:
    """Reads a column of numbers, nan for null."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
