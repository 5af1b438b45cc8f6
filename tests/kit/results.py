"""Made-up result rows, as sinks write them, for tests of pages."""

from pathlib import Path

import h3
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.cli import main
from transforms.sinks.published import OPTIONAL, SCHEMA

CENTRE = h3.latlng_to_cell(50.45, -104.6, 7)
CELLS = sorted(h3.grid_disk(CENTRE, 2))  # 19 hexagons
PARENT = h3.cell_to_parent(CENTRE, 6)

_PARENTS = ("parent", "parent_value", "parent_lower95", "parent_upper95")
WITH_PARENTS = pa.schema([*SCHEMA, *(pa.field(name, OPTIONAL[name]) for name in _PARENTS)])


def row(
    cell: str, hour: int, value: float | None, half_kmh: float = 5.0, status: str = "ok", day: int = 13
) -> dict[str, object]:
    return {
        "spec_id": "0" * 16,
        "slot_start": f"2026-05-{day}T{hour:02}:00:00-06:00",
        "slot_end": f"2026-05-{day}T{hour + 1:02}:00:00-06:00",
        "cell": cell,
        "statistic": "mean",
        "value": value,
        "unit": "km/h",
        "lower95": None if value is None else max(value - half_kmh, 0),
        "upper95": None if value is None else value + half_kmh,
        "noise_std": 1.0,
        "bias_bound": 0.0,
        "mechanism": "array-average",
        "epsilon": 1.0,
        "epsilon_slot": 4.0,
        "status": status if value is not None or status != "ok" else "no-data",
    }


def known_of(row: dict[str, object], parent: str, value: float, half_kmh: float = 4.0) -> dict[str, object]:
    """A row whose own value is not known, but that of something coarser."""
    numbers = (value, value - half_kmh, value + half_kmh)
    return {**row, "status": "parent", **dict(zip(_PARENTS, (parent, *numbers), strict=True))}


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    schema = WITH_PARENTS if any("parent" in row for row in rows) else SCHEMA
    if any("product" in row for row in rows):
        schema = schema.append(pa.field("product", OPTIONAL["product"]))
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def drawn_map(folder: Path, rows: list[dict[str, object]]) -> Path:
    """The page that `hatstream map` makes of these rows."""
    write(folder / "hats.parquet", rows)
    assert main(["map", "--input", str(folder / "*.parquet"), "--output", str(folder / "map.html")]) == 0
    return folder / "map.html"
