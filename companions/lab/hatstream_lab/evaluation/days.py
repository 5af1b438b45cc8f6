"""Days of one city, counted by vehicle: read from telemetry or made up, with specifications that would release them.

Not private: these are true values.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import h3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hatstream.api import InputError, Specification, UsageError, count_days, load
from hatstream_lab.types import Report

DELTA = Decimal("1e-6")
BLOCK_H = 4


@dataclass(frozen=True)
class Days:
    """Counted days, and the tables of a specification by levels that releases them at some total.

    made_region: whether the region was made of the first day's own cells, which carries no guarantee.
    """

    tables: Mapping[str, Any]
    counted: pa.Table
    made_region: bool = False

    @property
    def step_kmh(self) -> float:
        return float(self.tables["speed"].get("grid_kmh", Decimal("0.01")))

    @property
    def upper_kmh(self) -> float:
        return float(self.tables["speed"]["upper_kmh"])

    @property
    def region(self) -> Sequence[str]:
        region: Sequence[str] = self.tables["cells"]["region"]
        return region

    @property
    def names(self) -> list[str]:
        return sorted(set(self.counted["period"].to_pylist()))

    @property
    def mean_kmh(self) -> float:
        """The true mean of all reports."""
        return float(pc.sum(self.counted["sums"]).as_py() / pc.sum(self.counted["reports"]).as_py() * self.step_kmh)

    def spec(self, total: str, delta: Decimal | None, span_days: int = 1, **further: Any) -> Specification:
        """Makes the specification that releases these days. total, delta: of so many days, which share it alike."""
        return load({**self.tables, **_total(self.tables["account"], total, delta, span_days), **further})

    def chosen(self, rows: pa.Array | pa.ChunkedArray) -> "Days":
        """Keeps some rows, by booleans."""
        return replace(self, counted=self.counted.filter(rows))

    def half(self) -> "Days":
        """Keeps a random half of each day's vehicles, always the same one."""
        rng, period = np.random.default_rng(1), np.array(self.counted["period"].to_pylist())
        vehicle, chosen = self.counted["vehicle"].to_numpy(), np.zeros(period.size, np.bool_)
        for day in self.names:
            vehicles = np.unique(vehicle[period == day])
            chosen |= (period == day) & np.isin(vehicle, rng.permutation(vehicles)[: -(-vehicles.size // 2)])
        return self.chosen(pa.array(chosen))

    def times(self, factor: float, first_day: str) -> "Days":
        """Multiplies speeds from one day on."""
        later = pc.greater_equal(self.counted["period"], first_day)
        sums = self.counted["sums"].to_numpy()
        changed = np.where(later.to_numpy(), np.floor(sums * factor).astype(np.int64), sums)
        index = self.counted.schema.get_field_index("sums")
        return replace(self, counted=self.counted.set_column(index, "sums", pa.array(changed)))

    def repeated(self, days: int) -> "Days":
        """Takes so many days: the first ones again, whole weeks later, behind the last."""
        names = self.names
        weeks = -(-((date.fromisoformat(names[-1]) - date.fromisoformat(names[0])).days + 1) // 7)
        parts = []
        for number in range(days):
            again, index = divmod(number, len(names))
            part = self.counted.filter(pc.equal(self.counted["period"], names[index]))
            moved = (date.fromisoformat(names[index]) + timedelta(weeks=weeks * again)).isoformat()
            column = part.schema.get_field_index("period")
            parts.append(part.set_column(column, "period", pa.array([moved] * part.num_rows, pa.string())))
        return replace(self, counted=pa.concat_tables(parts))


def _total(account: Mapping[str, Any], total: str, delta: Decimal | None, span_days: int) -> dict[str, Any]:
    """Writes the tables of a total."""
    with_delta: dict[str, Any] = {} if delta is None else {"delta": delta}
    limit = {"epsilon": Decimal(total), **with_delta}
    accounting = {} if delta is None else {"accounting": "gdp"}
    limits: dict[str, Any] = {"limit": limit} if delta is not None else {"limit": Decimal(total)}
    span: dict[str, Any] = {}
    if span_days != 1:
        limits, span = {"limits": [{"days": span_days, **limit}]}, {"span_days": span_days}
    return {
        "account": {**account, **accounting, **limits},
        "privacy": {"epsilon": Decimal(total), **with_delta, "per": "period", "scope": "period", **span},
    }


def tables_of(path: Path) -> dict[str, Any]:
    """Reads a specification's tables; files that they name are then named from anywhere."""
    load(path)  # its errors name the file
    tables = tomllib.loads(path.read_text(), parse_float=Decimal)
    for table, key in (("cells", "region"), ("places", "file"), ("places", "visits")):
        named = tables.get(table, {}).get(key)
        if isinstance(named, str) and named != "occupied":
            tables[table][key] = str((path.parent / named).absolute())
    return tables


def read_days(
    pattern: str,
    spec_path: Path,
    dates: tuple[str, str] | None,
    report: Report,
    *,
    bins: int = 0,
    **further: Any,
) -> Days:
    """Counts days of telemetry. A region or fleet that the specification does not name is made of the first day.

    further: tables of the specification that releases them.
    """
    base = tables_of(spec_path)
    levels = any(table.get("mechanism") == "levels" for table in base["statistic"])
    kept = ("name", "slot", "cells", "speed", "input", "fleet")
    learned: dict[str, Any] = {name: base[name] for name in kept if name in base}
    learned["account"] = {name: base["account"][name] for name in ("name", "unit", "timezone")}
    learned["account"]["adjacency"] = "add-remove"
    learned["statistic"] = [{"name": "mean", "mechanism": "levels", "target": "reports"}]
    is_made = base["cells"]["region"] == "occupied"
    if is_made:
        first = count_days(load(_plain(base)), pattern, dates, report=report)
        of_first = first.filter(pc.equal(first["period"], pc.min(first["period"])))
        learned["cells"] = {**base["cells"], "region": around(of_first["cell"].unique().to_pylist())}
        if "fleet" not in learned:
            learned["fleet"] = rough_fleet(of_first, learned)
    days = Days(learned | further, pa.table({}), is_made)
    spec = days.spec("1", DELTA)
    counted = count_days(spec, pattern, dates, bins=bins, report=report)
    if not levels and "fleet" not in days.tables:
        first_day = counted.filter(pc.equal(counted["period"], pc.min(counted["period"])))
        days = replace(days, tables={**days.tables, "fleet": rough_fleet(first_day, learned)})
    if spec.places is not None and not pc.any(pc.is_valid(counted["place"])).as_py():
        raise InputError("--places: no report lies at any of them")
    region = [f"{cell:x}" for cell in spec.cells.region or ()]
    cells = {**days.tables["cells"], "region": region}
    return replace(days, tables={**days.tables, "cells": cells}, counted=counted)


def _plain(base: Mapping[str, Any]) -> dict[str, Any]:
    """Writes a specification that counts all reports and releases their means at some epsilon of a HAT."""
    kept = {name: base[name] for name in ("name", "slot", "cells", "speed", "input")}
    account = {name: base["account"][name] for name in ("name", "unit", "timezone")}
    return kept | {
        "account": {**account, "adjacency": "counts-public", "limit": 1000},
        "privacy": {"epsilon": 1, "per": "hat"},
        "statistic": [{"name": "mean", "mechanism": "baseline"}],
    }


def around(cells: Iterable[str]) -> list[str]:
    """Makes a region: these cells, and a ring around them."""
    return sorted({near for cell in cells for near in h3.grid_disk(cell, 1)})


def rough_fleet(day: pa.Table, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Estimates what an operator would know of a day's fleet, to one digit. Not private: counted here."""
    vehicles = len(day["vehicle"].unique())
    hour = local_hours(day["slot"].to_numpy(), tables)
    cells = np.array(day["cell"].to_pylist())
    parents, grandparents = (
        np.array([h3.cell_to_parent(cell, h3.get_resolution(cell) - up) for cell in cells]) for up in (1, 2)
    )
    slot, vehicle = day["slot"].to_numpy(), day["vehicle"].to_numpy()

    def touched(*columns: Any) -> int:
        return one_digit(
            len(set(zip(vehicle.tolist(), *(column.tolist() for column in columns), strict=True))) / vehicles
        )

    profile = {
        "hats": touched(cells, slot),
        "cells": touched(cells),
        "parents": touched(parents),
        "grandparents": touched(grandparents),
        "hours": touched(hour),
        "parts": touched(hour // BLOCK_H),
        "reports": one_digit(float(np.mean(day["reports"].to_numpy()))),
    }
    return {"vehicles": one_digit(vehicles), "profile": profile}


def local_hours(slot: Any, tables: Mapping[str, Any]) -> Any:
    """Finds the local hour in which slots of a day begin."""
    return int(tables["slot"].get("service", "00:00")[:2]) + slot * tables["slot"]["minutes"] // 60


def one_digit(number: float) -> int:
    """Rounds to one digit, at least 1."""
    return max(1, int(float(f"{number:.0e}")))


def truth_of(days: Days, columns: Mapping[str, pa.Array | None]) -> pa.Table:
    """Adds up reports by columns: `reports`, `vehicles` and `truth`, the mean in km/h.

    columns: by name, what rows are put together by; None for a column of the counted rows.
    """
    table = days.counted.select(["vehicle", "reports", "sums"])
    for name, column in columns.items():
        table = table.append_column(name, days.counted[name] if column is None else column)
    grouped = table.group_by(list(columns)).aggregate(
        [("reports", "sum"), ("sums", "sum"), ("vehicle", "count_distinct")]
    )
    reports = grouped["reports_sum"].cast(pa.float64())
    mean = pc.multiply(pc.divide(grouped["sums_sum"].cast(pa.float64()), reports), days.step_kmh)
    kept = grouped.select(list(columns))
    for name, column in (("reports", reports), ("vehicles", grouped["vehicle_count_distinct"]), ("truth", mean)):
        kept = kept.append_column(name, column)
    return kept


def parents_of(days: Days) -> pa.Array:
    """Names the parent cell of each counted row."""
    cells = days.counted["cell"].combine_chunks().dictionary_encode()
    parents = [h3.cell_to_parent(cell, h3.get_resolution(cell) - 1) for cell in cells.dictionary.to_pylist()]
    return pa.array(parents).take(cells.indices)


def text_column(days: Days, name: str) -> pa.Array:
    """Makes a column of one text."""
    return pa.array([name] * days.counted.num_rows)


def place_tables(which: str, base: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the tables of places: those of the specification, H3 cells of a resolution, or those of a file."""
    named = base.get("places", {})
    of_share = {"share": named["share"]} if "share" in named else {}
    if which == "own":
        if not named:
            raise UsageError("--places needs a specification with [places], or a resolution or a file: --places 8")
        return {"places": named}
    if which.isdecimal():
        coarse = base["cells"]["resolution"]
        if not coarse < int(which) <= 15:
            raise UsageError(
                f"--places needs a resolution from {coarse + 1} to 15, finer than the cells'; it is {which}"
            )
        return {"places": {"resolution": int(which), **of_share}}
    return {"places": {"file": str(Path(which).absolute()), **of_share}}
