"""Made-up result rows, as sinks write them, for tests of pages."""

from pathlib import Path

import h3
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.sinks.rows import SCHEMA

CENTRE = h3.latlng_to_cell(50.45, -104.6, 7)
CELLS = sorted(h3.grid_disk(CENTRE, 2))
"""19 hexagons."""


def row(cell: str, hour: int, value: float | None, half_kmh: float = 5.0, status: str = "ok") -> dict[str, object]:
    return {
        "spec_id": "0" * 16,
        "slot_start": f"2026-05-13T{hour:02}:00:00-06:00",
        "slot_end": f"2026-05-13T{hour + 1:02}:00:00-06:00",
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
        "status": status if value is not None else "no-data",
    }


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return path
