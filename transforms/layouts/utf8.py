"""Rows whose bytes are not UTF-8 are refused one by one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa


def refuse_not_utf8(columns: Mapping[str, Any], source: bytes) -> tuple[dict[str, Any], int]:
    """Leaves out rows that are not UTF-8, and counts them. columns: binary columns cut from `source`."""
    if is_utf8(source):
        return dict(columns), 0
    rows = len(next(iter(columns.values())))
    kept = np.ones(rows, np.bool_)
    for column in columns.values():
        kept &= np.fromiter((value is None or is_utf8(value) for value in column.to_pylist()), np.bool_, rows)
    mask = pa.array(kept)
    return {name: column.filter(mask) for name, column in columns.items()}, rows - int(np.count_nonzero(kept))


def is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
