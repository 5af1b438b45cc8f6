"""What a folder holds already of a release: slots that were published, and values that are never overwritten."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from transforms.sinks.readers import DAMAGE, READERS

SAME = 2e-6
"""Values are published with six digits after the point."""

DATES = "date=*"
"""The folders that a dataset has, as a pattern."""

_NAME, _LIVE_NAME = "hats-{}-", "live-{}-"

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
        table = READERS[path.suffix[1:]](path)
        before = _values(zip(*(table[name].to_pylist() for name in (*_KEYS, "value")), strict=True))
    except DAMAGE:
        raise OtherValues(path) from None
    now = _values(zip(*(columns[name] for name in (*_KEYS, "value")), strict=True))
    if before.keys() != now.keys() or not all(_same(before[key], now[key]) for key in now):
        raise OtherValues(path)


def _values(rows: Iterable[Iterable[Any]]) -> Values:
    return {(cell, name, start): None if value is None else float(value) for cell, name, start, value in rows}


def _same(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is now
    return math.isclose(before, now, rel_tol=0, abs_tol=SAME)
