"""The keyed digest of a unit's input, by which a later run notices that its input is another one.

A digest covers the columns that the statistics asked for, and begins with their names. Before tallies had named
columns, it covered sums and squares whatever was asked for, and had no names: a plain digest. A specification that has
plain digests in a ledger goes on with them there, so that every release of it can still be compared.
"""

import hmac
from collections.abc import Sequence

import numpy as np

from dpops.statistics import SQUARES, SUMS
from dpops.types import Int64s
from transforms.wire import Tally

PLAIN = (SUMS, SQUARES)


def is_plain(digest: str) -> bool:
    return ":" not in digest


def digest_of(rows: Tally, where: str, key: bytes, *, plain: bool) -> str:
    """Digests rows, by slot, cell and vehicle. Keyed, for a plain hash of small totals is found by trying them all."""
    if plain:
        columns = (rows.slot_s, rows.vehicle, rows.cell, rows.kept, *(rows.sums[c.name] for c in PLAIN), rows.dropped)
        return _hex(where, columns, key)
    names = ",".join(rows.sums)
    return f"{names}:{_hex(f'{where}{names}/', [*rows.keys(), *rows.sums.values()], key)}"


def _hex(where: str, columns: Sequence[Int64s], key: bytes) -> str:
    told = hmac.new(key, where.encode(), "sha256")
    for column in columns:
        told.update(np.ascontiguousarray(column, "<i8").data)
    return told.hexdigest()
