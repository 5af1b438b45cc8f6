"""What a folder holds already of a release: slots that were published, and values that are never overwritten."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

SAME = 2e-6
"""Values are published with six digits after the point."""

DATES = "date=*"
"""The folders that a dataset has, as a pattern."""

_NAME, _LIVE_NAME = "hats-{}-", "live-{}-"
_DAMAGE = (OSError, ValueError, LookupError, TypeError, EOFError, csv.Error, msgspec.MsgspecError, pa.ArrowException)

Values = dict[tuple[str, str, str], float | None]
"""What was published, by cell, statistic and start."""
_KEYS = ("cell", "statistic", "slot_start")


class OtherValues(Exception):
    """A file of the same release id holds other values, or cannot be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds other values of the same release, or cannot be read, and is left as it is: a release is "
            "published once. Was it released with another ledger or key? Name those with --ledger and --key; a file "
            "that is damaged can be moved away"
        )


def published_slots(folder: Path, spec_id: str, *, is_live: bool = False) -> dict[int, Path]:
    """Finds the start of each slot, in seconds since 1970 UTC, of which the folder has a file; with one of them."""
    slots = {}
    prefix = (_LIVE_NAME if is_live else _NAME).format(spec_id)
    for path in (*folder.glob(f"{prefix}*"), *folder.glob(f"{DATES}/{prefix}*")):
        try:
            start = datetime.strptime(path.name.removeprefix(prefix).partition(".")[0], "%Y%m%dT%H%M%S%z")
        except ValueError:
            continue
        slots[int(start.timestamp())] = path
    return slots


def published_specifications(folder: Path) -> set[str]:
    """Finds the spec_ids of all files of slots that the folder has."""
    specifications = set()
    for name in (_NAME, _LIVE_NAME):
        before, after = name.split("{}")
        for path in (*folder.glob(f"{before}*"), *folder.glob(f"{DATES}/{before}*")):
            specifications.add(path.name.removeprefix(before).partition(after)[0])
    return specifications


def refuse_other_values(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Raises OtherValues where the path has a file that does not hold the values of rows with these columns."""
    if not path.exists():
        return
    try:
        before = _values([row[name] for name in (*_KEYS, "value")] for row in READERS[path.suffix[1:]](path))
    except _DAMAGE:
        raise OtherValues(path) from None
    now = _values(zip(*(columns[name] for name in (*_KEYS, "value")), strict=True))
    if before.keys() != now.keys() or not all(_same(before[key], now[key]) for key in now):
        raise OtherValues(path)


def _values(rows: Iterable[Iterable[Any]]) -> Values:
    return {(cell, name, start): None if value in (None, "") else float(value) for cell, name, start, value in rows}


def _same(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is now
    return math.isclose(before, now, rel_tol=0, abs_tol=SAME)


def _parquet(path: Path) -> Sequence[Mapping[str, Any]]:
    return pq.read_table(path, columns=[*_KEYS, "value"]).to_pylist()


def _avro(path: Path) -> Sequence[Mapping[str, Any]]:
    import fastavro

    with path.open("rb") as file:
        return [row for row in fastavro.reader(file) if isinstance(row, dict)]


def _csv(path: Path) -> Sequence[Mapping[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _jsonl(path: Path) -> Sequence[Mapping[str, Any]]:
    return [msgspec.json.decode(line, type=dict[str, Any]) for line in path.read_bytes().splitlines()]


def _geojson(path: Path) -> Sequence[Mapping[str, Any]]:
    features = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["features"]
    return [feature["properties"] for feature in features]


READERS: Mapping[str, Callable[[Path], Sequence[Mapping[str, Any]]]] = {
    "parquet": _parquet,
    "avro": _avro,
    "csv": _csv,
    "jsonl": _jsonl,
    "geojson": _geojson,
}
"""Of each format that transforms/sinks/files.py writes."""
