"""Counts days of a city by vehicle; not private.

Counted rows (`counted`) are of a vehicle in a HAT or place: its `reports`, and `sums` of their speeds in grid steps, by
`period` (a date), `slot` (its number in the day) and `cell`. `tables`: those of a specification's TOML; releases
are by levels, or HAT by HAT. MEAN: the table of a mean by levels. `report(phase, done, total)` shows progress.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import h3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hatstream.api import InputError, Specification, count_days, load
from hatstream_city.timetable.service import one_digit
from hatstream_lab.evaluation.experiment import Report

HAT_KEYS = ("period", "slot", "cell")
DELTA = Decimal("1e-6")
BLOCK_H = 4  # hours of a part of the day
MEAN = {"name": "mean", "mechanism": "levels", "target": "reports"}


@dataclass(frozen=True)
class Days:
    """Counted days, with a specification's tables to release them.

    counted: rows of `count_days`; names: their periods, sorted. is_by_hat: released HAT by HAT, not by levels.
    made_region: the region is the first day's own cells, which carries no guarantee.
    """

    tables: Mapping[str, Any]
    counted: pa.Table
    made_region: bool = False

    @property
    def step_kmh(self) -> float:
        """Step of the speed grid, in km/h."""
        return float(self.tables["speed"].get("grid_kmh", Decimal("0.01")))

    @property
    def is_by_hat(self) -> bool:
        """Whether days are released HAT by HAT."""
        return "privacy" in self.tables

    @property
    def region(self) -> Sequence[str]:
        """Sorted cells of the region; the counted ones if a file or `occupied`."""
        region = self.tables["cells"]["region"]
        return sorted(set(self.counted["cell"].to_pylist())) if isinstance(region, str) else region

    @cached_property
    def names(self) -> list[str]:
        """Sorted names of the counted periods."""
        return sorted(set(self.counted["period"].to_pylist()))

    @property
    def mean_kmh(self) -> float:
        """The true mean of all reports."""
        return float(pc.sum(self.counted["sums"]).as_py() / pc.sum(self.counted["reports"]).as_py() * self.step_kmh)

    @cached_property
    def hats(self) -> pa.Table:
        """The truth of every HAT."""
        return self.truth_by(dict.fromkeys(HAT_KEYS))

    def truth_by(self, columns: Mapping[str, pa.Array | None]) -> pa.Table:
        """Sums reports by group: their number, vehicles, and means in km/h.

        Columns: `reports`, `vehicles`, `truth`, the mean of reports, and `mean_of_vehicles`, that of the means of
        counted rows, each of one vehicle in a HAT. columns: grouping columns by name; None for one of the counted rows.
        """
        table = self.counted.select(["vehicle", "reports", "sums"])
        table = table.append_column("vehicle_mean", pc.divide(table["sums"].cast(pa.float64()), table["reports"]))
        for name, column in columns.items():
            table = table.append_column(name, self.counted[name] if column is None else column)
        sums = [("reports", "sum"), ("sums", "sum"), ("vehicle", "count_distinct"), ("vehicle_mean", "mean")]
        groups = table.group_by(list(columns)).aggregate(sums)
        reports = groups["reports_sum"].cast(pa.float64())
        figures = {
            "reports": reports,
            "vehicles": groups["vehicle_count_distinct"],
            "truth": pc.multiply(pc.divide(groups["sums_sum"].cast(pa.float64()), reports), self.step_kmh),
            "mean_of_vehicles": pc.multiply(groups["vehicle_mean_mean"], self.step_kmh),
        }
        return pa.table({name: groups[name] for name in columns} | figures)

    def spec(self, total: str, delta: Decimal | None, span_days: int = 1) -> Specification:
        """Makes the specification that spends epsilon `total` in `span_days`. delta: None for pure DP."""
        epsilon = Decimal(total)
        if self.is_by_hat:  # each HAT spends the total: neither span nor delta is used
            return load({**self.tables, "privacy": {**self.tables["privacy"], "epsilon": epsilon}})
        limit: dict[str, Any] = {"epsilon": epsilon} if delta is None else {"epsilon": epsilon, "delta": delta}
        account, privacy = dict(self.tables["account"]), {**limit, "per": "period", "scope": "period"}
        if delta is not None:
            account["accounting"] = "gdp"  # the tightest sum of Gaussian claims
        if span_days == 1:
            account["limit"] = epsilon if delta is None else limit
        else:
            account["limits"], privacy["span_days"] = [{"days": span_days, **limit}], span_days
        return load({**self.tables, "account": account, "privacy": privacy})

    def chosen(self, rows: pa.Array | pa.ChunkedArray) -> "Days":
        """Selects counted rows by a mask."""
        return replace(self, counted=self.counted.filter(rows))

    def repeated(self, days: int) -> "Days":
        """Returns so many days: these in turn, each round whole weeks later.

        Whole weeks keep every day's weekday; a round is as many weeks as these days span, rounded up.
        """
        first, last = (date.fromisoformat(self.names[end]) for end in (0, -1))
        weeks = -(-((last - first).days + 1) // 7)
        tables = []
        for number in range(days):
            cycle, index = divmod(number, len(self.names))
            rows = self.counted.filter(pc.equal(self.counted["period"], self.names[index]))
            day = (date.fromisoformat(self.names[index]) + timedelta(weeks=weeks * cycle)).isoformat()
            column = rows.schema.get_field_index("period")
            tables.append(rows.set_column(column, "period", pa.array([day] * rows.num_rows, pa.string())))
        return replace(self, counted=pa.concat_tables(tables))


def tables_of(path: Path) -> dict[str, Any]:
    """Reads a specification's tables, with absolute paths of files."""
    load(path)  # its errors name the file
    tables = tomllib.loads(path.read_text(), parse_float=Decimal)
    for table, key in (("cells", "region"), ("places", "file"), ("places", "visits"), ("slot", "trips")):
        name = tables.get(table, {}).get(key)
        if isinstance(name, str) and name != "occupied":  # which stands for all cells with reports, and is no file
            tables[table][key] = str((path.parent / name).absolute())
    return tables


def hat_tables(base: Mapping[str, Any], statistic: Mapping[str, Any] | None = None, **privacy: Any) -> dict[str, Any]:
    """Makes tables of HAT-by-HAT releases, with a limit that no release reaches.

    base: a specification's tables. statistic: its table, by default a mean by `baseline`. privacy: further entries.
    """
    account = {"unit": "vehicle-day", "adjacency": "counts-public", "limit": Decimal(10**9)}
    tables = {name: base[name] for name in ("name", "slot", "cells", "speed", "input")}
    return tables | {
        "account": {name: base["account"][name] for name in ("name", "timezone")} | account,
        "privacy": {"epsilon": 1, "per": "hat"} | privacy,  # which may have a cap, or another epsilon
        "statistic": [statistic or {"name": "mean", "mechanism": "baseline"}],
    }


def read_days(
    pattern: str, spec_path: Path, dates: tuple[str, str] | None, report: Report, *, bins: int = 0, **tables: Any
) -> Days:
    """Counts days of telemetry, for a release by levels.

    A region and a fleet that the specification leaves open are made of the first day. bins: of values, to count in each
    row; 0 for none. tables: further ones of the specification that releases the days. Raises InputError.
    """
    base = tables_of(spec_path)
    by_levels = any(table.get("mechanism") == "levels" for table in base["statistic"])
    shared = ("name", "slot", "cells", "speed", "input", "fleet")
    spec_tables: dict[str, Any] = {name: base[name] for name in shared if name in base}
    account = {name: base["account"][name] for name in ("name", "unit", "timezone")}
    spec_tables |= {"account": account | {"adjacency": "add-remove"}, "statistic": [MEAN]}  # secret counts
    is_made = base["cells"]["region"] == "occupied"  # all cells with reports: `levels` needs a list
    if is_made:  # releases HAT by HAT may leave the region open: so the first day's cells are counted
        first = count_days(load(hat_tables(base)), pattern, dates, report=report)
        first = first.filter(pc.equal(first["period"], pc.min(first["period"])))
        spec_tables["cells"] = {**base["cells"], "region": around(first["cell"].unique().to_pylist())}  # with a ring
        spec_tables.setdefault("fleet", rough_fleet(first, spec_tables))
    days = Days(spec_tables | tables, counted=pa.table({}), made_region=is_made)  # its rows follow below
    spec = days.spec("1", DELTA)  # whatever the total: counts do not depend on it
    counted = count_days(spec, pattern, dates, bins=bins, report=report)
    if not by_levels and "fleet" not in days.tables:  # a specification by levels has one, or its default
        first = counted.filter(pc.equal(counted["period"], pc.min(counted["period"])))
        days = replace(days, tables={**days.tables, "fleet": rough_fleet(first, spec_tables)})
    if spec.places is not None and not pc.any(pc.is_valid(counted["place"])).as_py():
        raise InputError("[places]: no report lies at any of them")
    cells = {**days.tables["cells"], "region": [f"{cell:x}" for cell in spec.cells.region or ()]}
    return replace(days, tables={**days.tables, "cells": cells}, counted=counted)


def read_with_bins(pattern: str, spec_path: Path, dates: tuple[str, str] | None, report: Report) -> Days:
    """Counts days with binned values, for releases as specified, or else by levels."""
    base = tables_of(spec_path)
    by_levels = {"name": "distribution", "mechanism": "levels"}
    statistic = next((table for table in base["statistic"] if table["name"] == "distribution"), by_levels)
    if statistic.get("mechanism") != "levels":
        tables = hat_tables(base, statistic)  # its distribution counts bins of its own
        return Days(tables, count_days(load(tables), pattern, dates, report=report))
    # The service's blocks of BLOCK_H hours, the first and the last one cut to it.
    first_h, last_h = (int(text[:2]) for text in base["slot"].get("service", "00:00-24:00").split("-"))
    blocks = [(max(hour, first_h), min(hour + BLOCK_H, last_h)) for hour in range(0, 24, BLOCK_H)]
    intervals = [f"{start:02d}:00-{end:02d}:00" for start, end in blocks if start < end]
    output: list[dict[str, Any]] = [{"product": "days"}, {"product": "cell-part", "parts": intervals}]
    tables = {"statistic": [MEAN, statistic], "output": output}
    if "places" in base:
        tables["places"] = base["places"]
        output.append({"product": "place-standing"})
    return read_days(pattern, spec_path, dates, report, bins=260, **tables)  # many: truth is known up to a bin


def around(cells: Iterable[str]) -> list[str]:
    """Makes a region: cells, and a ring around them."""
    return sorted({near for cell in cells for near in h3.grid_disk(cell, 1)})


def rough_fleet(day: pa.Table, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Counts a day's fleet, and what a vehicle touches, to one digit; not private."""
    rows, vehicles = day.select(["vehicle", "slot", "cell"]), pc.count_distinct(day["vehicle"]).as_py()
    for up, name in enumerate(("parents", "grandparents"), 1):
        above = [h3.cell_to_parent(cell, h3.get_resolution(cell) - up) for cell in day["cell"].to_pylist()]
        rows = rows.append_column(name, pa.array(above, pa.string()))
    hour = local_hours(day["slot"].to_numpy(), tables)
    rows = rows.append_column("hours", pa.array(hour)).append_column("parts", pa.array(hour // BLOCK_H))
    keys_of = {"hats": ("cell", "slot"), "cells": ("cell",)}  # what tells groups of a kind apart; else its own column
    visits = {
        name: one_digit(rows.group_by(["vehicle", *keys_of.get(name, (name,))]).aggregate([]).num_rows / vehicles)
        for name in ("hats", "cells", "parents", "grandparents", "hours", "parts")
    }
    profile = visits | {"reports": one_digit(float(np.mean(day["reports"].to_numpy())))}
    return {"vehicles": one_digit(vehicles), "profile": profile}


def local_hours(slot: Any, tables: Mapping[str, Any]) -> Any:
    """Computes slots' local hours from their numbers in the day, (rows,)."""
    return int(tables["slot"].get("service", "00:00")[:2]) + slot * tables["slot"]["minutes"] // 60


def indices_in(groups: pa.Table, keys: pa.Table) -> NDArray[np.int64]:
    """Finds, for each row of `keys`, its equal row of distinct `groups`, int64 (rows,)."""
    numbered = keys.append_column("row", pa.array(np.arange(keys.num_rows)))
    groups = groups.select(keys.column_names).append_column("group", pa.array(np.arange(groups.num_rows)))
    joined = numbered.join(groups, keys.column_names, use_threads=False).sort_by("row")
    return np.asarray(joined["group"].to_numpy())


def joined_with_truth(
    rows: pa.Table, truth: pa.Table, keys: Sequence[str] = HAT_KEYS, *, how: str = "inner"
) -> dict[str, NDArray[Any]]:
    """Joins released rows with true values by keys; returns columns by name, (rows,)."""
    joined = rows.join(truth, list(keys), join_type=how, use_threads=False).combine_chunks()  # in a fixed order
    return {name: joined[name].to_numpy() for name in joined.column_names}
