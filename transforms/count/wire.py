"""How columns travel between stages that do not share memory: Arrow IPC with zstd, integers as narrow as they fit.

What a group-by shuffles, the local runner holds several times over, so every byte of an event counts.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dpops.types import Int64s
from transforms.records import Observations

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class Events(NamedTuple):
    """Observations of one slot and vehicle shard. offset_us: event time after the start of the slot."""

    vehicle: Int64s
    offset_us: Int64s
    lat_e7: Int64s
    lon_e7: Int64s
    cell: Int64s
    speed: Int64s


class Tally(NamedTuple):
    """What vehicles did in cells, one entry per (slot, cell, vehicle).

    slot_s: start of the slot. kept: samples that count. total, square: sums of their grid steps and of the squares of
    these. dropped: samples that a cap left out.
    """

    slot_s: Int64s
    vehicle: Int64s
    cell: Int64s
    kept: Int64s
    total: Int64s
    square: Int64s
    dropped: Int64s

    def take(self, chosen: "np.typing.NDArray[np.bool_] | Int64s") -> "Tally":
        return Tally(*(column[chosen] for column in self))


class Exposure(NamedTuple):
    """In how many cells of one slot each vehicle takes part."""

    vehicle: Int64s
    cells: Int64s


def split(observations: Observations, cell: Int64s, shards: int) -> Iterable[tuple[tuple[int, int], bytes, int]]:
    """Cuts a batch by (slot start in seconds, vehicle shard); yields key, packed events and their number."""
    slots, slot_code = np.unique(observations.slot_start_us, return_inverse=True)
    group = slot_code * shards + observations.vehicle % shards
    order = np.argsort(group, kind="stable")
    group = group[order]
    cuts = np.flatnonzero(np.diff(group)) + 1
    for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), group.size], strict=True):
        if start == stop:
            continue
        chosen = order[start:stop]
        slot_us = int(slots[group[start] // shards])
        events = Events(
            vehicle=observations.vehicle[chosen],
            offset_us=observations.event_us[chosen] - slot_us,
            lat_e7=observations.lat_e7[chosen],
            lon_e7=observations.lon_e7[chosen],
            cell=cell[chosen],
            speed=observations.speed[chosen],
        )
        yield (slot_us // 1_000_000, int(group[start] % shards)), pack(events), chosen.size


def pack(columns: Events | Tally | Exposure) -> bytes:
    """The columns as one compressed Arrow stream."""
    arrays = [pa.array(_narrow(column)) for column in columns]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(columns._fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_events(parts: Iterable[bytes]) -> Events:
    return Events(*_columns(parts, len(Events._fields)))


def unpack_tally(parts: Iterable[bytes]) -> Tally:
    return Tally(*_columns(parts, len(Tally._fields)))


def unpack_exposure(parts: Iterable[bytes]) -> Exposure:
    return Exposure(*_columns(parts, len(Exposure._fields)))


def _columns(parts: Iterable[bytes], width: int) -> list[Int64s]:
    batches = [pa.ipc.open_stream(part).read_next_batch() for part in parts]
    if not batches:
        return [np.zeros(0, np.int64) for _ in range(width)]
    return [
        np.concatenate([batch.column(i).to_numpy(zero_copy_only=False) for batch in batches]).astype(np.int64)
        for i in range(width)
    ]


def _narrow(column: Int64s) -> "np.typing.NDArray[np.integer]":
    """The column in the smallest integer type that holds it."""
    if column.size:
        least, most = int(column.min()), int(column.max())
        for kind in (np.uint8, np.uint16, np.int32, np.uint32):
            bounds = np.iinfo(kind)
            if bounds.min <= least and most <= bounds.max:
                return column.astype(kind)
    return column
