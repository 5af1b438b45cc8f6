"""Files of one vehicle each, whose id is no column but the file's name: `vehicle = "{file}"`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from transforms.layouts.base import Layout, RawBatch, Units
from transforms.layouts.open_file import INSIDE

FILE = "{file}"
"""Stands where a column of vehicles would be named."""

_COMPRESSED = (b".gz", b".zst", b".zip")


@dataclass(frozen=True)
class ByFile:
    """inner: reads rows without a vehicle. A file of the same name in another folder is of the same vehicle."""

    inner: Layout

    @property
    def units(self) -> Units:
        return self.inner.units

    def read(self, path: str) -> Iterator[RawBatch]:
        vehicle = pa.scalar(vehicle_of(path), pa.binary())
        for batch in self.inner.read(path):
            column = pa.repeat(vehicle, batch.table.num_rows)
            names = ["vehicle", *batch.table.schema.names]
            table = pa.RecordBatch.from_arrays([column, *batch.table.columns], names=names)
            yield RawBatch(batch.rows, table, batch.refused)


def vehicle_of(path: str) -> bytes:
    """Strips a file's name of what says its form.

    >>> vehicle_of("/feed/2008-02-02/366.txt.gz")
    b'366'
    """
    name = os.path.basename(os.fsencode(path.rpartition(INSIDE)[2]))
    stem, suffix = os.path.splitext(name)
    return os.path.splitext(stem)[0] if suffix in _COMPRESSED else stem
