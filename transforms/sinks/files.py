"""Publishing: rows made from what the ledger returned and nothing else, in files written whole or not at all."""

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from dpops import statistics
from dpops.mechanism import Plan, fraction
from dpops.registry import registered
from transforms.atomic_files import locked, replacing
from transforms.failpoints import failpoint
from transforms.release.recorded import Released, Sealed
from transforms.sinks.published import refuse_other_values

MISS = 0.05
"""An interval [lower95, upper95] misses the true value with at most this probability."""

SCHEMA = pa.schema(
    [
        pa.field("spec_id", pa.string(), nullable=False),
        pa.field("slot_start", pa.string(), nullable=False),
        pa.field("slot_end", pa.string(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("statistic", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("lower95", pa.float64()),
        pa.field("upper95", pa.float64()),
        pa.field("noise_std", pa.float64()),
        pa.field("bias_bound", pa.float64()),
        pa.field("mechanism", pa.string(), nullable=False),
        pa.field("epsilon", pa.float64()),
        pa.field("epsilon_slot", pa.float64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
    ]
)

Row = dict[str, Any]


def rows_of(units: Sequence[Sealed]) -> list[Row]:
    """The published rows of one slot from its sealed units (one per release shard), by cell."""
    rows = [_row(unit, released) for unit in units for released in unit.released]
    return sorted(rows, key=lambda row: (int(row["cell"], 16), row["statistic"]))


def _row(unit: Sealed, released: Released) -> Row:
    value = lower = upper = std = bias = epsilon = None
    if released.plan is not None and released.integers is not None:
        mechanism = registered()[released.mechanism]
        plan = mechanism.resolve(released.integers, Plan.from_public(released.mechanism, released.plan))
        value = mechanism.value(released.integers, plan)
        half = plan.half_width(MISS)
        # The interval lies around the published value, which is the noisy one brought back into [0, U]: that moves it
        # nearer to any true value there, so the interval keeps its level and is never empty.
        lower, upper = max(value - half, 0.0), min(value + half, float(plan.upper))
        std, bias, epsilon = plan.noise_std(), plan.bias_bound, float(plan.epsilon)
    return {
        "spec_id": unit.spec_id,
        "slot_start": unit.slot_start,
        "slot_end": unit.slot_end,
        "cell": released.cell,
        "statistic": released.statistic,
        "value": _rounded(value),
        "unit": statistics.registered()[released.statistic].unit.format(unit.unit),
        "lower95": _rounded(lower),
        "upper95": _rounded(upper),
        "noise_std": _rounded(std),
        "bias_bound": _rounded(bias),
        "mechanism": released.mechanism,
        "epsilon": epsilon,
        "epsilon_slot": float(fraction(unit.epsilon_slot)),
        "status": "no-data" if value is None else "ok",
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)


def _parquet(rows: Sequence[Row], _name: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), sink)
    return sink.getvalue()


def _avro(rows: Sequence[Row], name: str) -> bytes:
    kinds = {pa.string(): "string", pa.float64(): "double"}
    fields = [{"name": f.name, "type": ["null", kinds[f.type]] if f.nullable else kinds[f.type]} for f in SCHEMA]
    schema = fastavro.parse_schema({"type": "record", "name": "HatStatistic", "fields": fields})
    sink = io.BytesIO()
    # The sync marker is random by default; the same release must give the same bytes.
    fastavro.writer(sink, schema, rows, codec="deflate", sync_marker=hashlib.sha256(name.encode()).digest()[:16])
    return sink.getvalue()


def _csv(rows: Sequence[Row], _name: str) -> bytes:
    sink = io.StringIO(newline="")
    writer = csv.DictWriter(sink, SCHEMA.names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode()


def _jsonl(rows: Sequence[Row], _name: str) -> bytes:
    return b"".join(json_of(row) + b"\n" for row in rows)


def json_of(row: Row) -> bytes:
    """A row as one JSON object, its keys in the order of SCHEMA."""
    return msgspec.json.encode(row)


FORMATS: Mapping[str, Callable[[Sequence[Row], str], bytes]] = {
    "parquet": _parquet,
    "avro": _avro,
    "csv": _csv,
    "jsonl": _jsonl,
}


def file_stem(spec_id: str, slot_start: str) -> str:
    """Fixed by specification and slot: local start with its offset, in characters that every file system takes."""
    return f"hats-{spec_id}-{datetime.fromisoformat(slot_start).strftime('%Y%m%dT%H%M%S%z')}"


def publish_slot(units: Sequence[Sealed], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Writes one file per format for one slot; a file appears whole under its name, or not at all.

    Raises OtherValues where a file of the release holds other values already.
    """
    rows, stem = rows_of(units), file_stem(units[0].spec_id, units[0].slot_start)
    written = []
    failpoint("before-publish")
    for kind in formats:
        path = folder / f"{stem}.{kind}"
        _write_whole(path, rows, FORMATS[kind](rows, stem))
        written.append(path)
    failpoint("after-publish")
    return written


def _write_whole(path: Path, rows: Sequence[Row], data: bytes) -> None:
    with locked(path.parent):
        refuse_other_values(path, rows)
        with replacing(path) as file:
            file.write(data[: len(data) // 2])
            file.flush()
            failpoint("mid-file")
            file.write(data[len(data) // 2 :])
            file.flush()
            failpoint("before-rename")
