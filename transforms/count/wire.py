"""How columns travel between stages that do not share memory: Arrow IPC with zstd, integers as narrow as they fit.

What a group-by shuffles, the local runner holds several times over, so every byte of an event counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dpops.statistics import Column
from dpops.types import Int64s
from transforms.records import EventBytes, ExposureBytes, Observations, SlotShard, TallyBytes

_KEYS = ("slot_s", "vehicle", "cell", "kept", "dropped")
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class Events(NamedTuple):
    """Observations of one slot and vehicle shard. offset_us: event time after the start of the slot."""

    vehicle: Int64s
    offset_us: Int64s
    lat_e7: Int64s
    lon_e7: Int64s
    cell: Int64s
    speed: Int64s


@dataclass(frozen=True)
class Tally:
    """What vehicles did in cells, one entry per (slot, cell, vehicle).

    slot_s: start of the slot. kept: samples that count. dropped: samples that a cap left out. sums: what the kept
    samples add up to, by the names of the columns that statistics asked for; int64 (entries,) or (entries, K).
    """

    slot_s: Int64s
    vehicle: Int64s
    cell: Int64s
    kept: Int64s
    dropped: Int64s
    sums: Mapping[str, Int64s] = field(kw_only=True)

    def take(self, chosen: "np.typing.NDArray[np.bool_] | Int64s") -> "Tally":
        sums = {name: column[chosen] for name, column in self.sums.items()}
        return Tally(*(column[chosen] for column in self.keys()), sums=sums)

    def keys(self) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """The columns that every tally has."""
        return self.slot_s, self.vehicle, self.cell, self.kept, self.dropped


def joined(parts: Sequence[Tally]) -> Tally:
    """Tallies one behind another; all with the same sums, and at least one."""
    sums = {name: np.concatenate([part.sums[name] for part in parts]) for name in parts[0].sums}
    return Tally(
        *(np.concatenate(columns) for columns in zip(*(part.keys() for part in parts), strict=True)), sums=sums
    )


class Exposure(NamedTuple):
    """In how many cells of one slot each vehicle takes part."""

    vehicle: Int64s
    cells: Int64s


def split(observations: Observations, cell: Int64s, shards: int) -> Iterable[tuple[SlotShard, EventBytes, int]]:
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
        yield (slot_us // 1_000_000, int(group[start] % shards)), pack_events(events), chosen.size


def pack_events(events: Events) -> EventBytes:
    return EventBytes(_packed(events._asdict()))


def pack_exposure(exposure: Exposure) -> ExposureBytes:
    return ExposureBytes(_packed(exposure._asdict()))


def pack_tally(rows: Tally) -> TallyBytes:
    """The sums follow the columns that every tally has."""
    sums = {f"sum of {name}": column for name, column in rows.sums.items()}
    return TallyBytes(_packed(dict(zip(_KEYS, rows.keys(), strict=True)) | sums))


def _packed(columns: Mapping[str, Int64s]) -> bytes:
    """The columns as one compressed Arrow stream."""
    arrays = [_array(column) for column in columns.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_events(parts: Iterable[bytes]) -> Events:
    return Events(*_columns(parts, len(Events._fields)))


def unpack_tally(parts: Iterable[bytes], columns: Sequence[Column]) -> Tally:
    """columns: those that the parts were packed with."""
    whole = [_unpacked(part, columns) for part in parts]
    nothing = np.zeros(0, np.int64)
    return joined([Tally(*[nothing] * 5, sums={c.name: c.add_up(nothing, nothing, 0) for c in columns}), *whole])


def _unpacked(part: bytes, columns: Sequence[Column]) -> Tally:
    batch = pa.ipc.open_stream(part).read_next_batch()
    sums = {column.name: _numbers(batch.column(f"sum of {column.name}")) for column in columns}
    return Tally(*(_numbers(batch.column(name)) for name in _KEYS), sums=sums)


def unpack_exposure(parts: Iterable[bytes]) -> Exposure:
    return Exposure(*_columns(parts, len(Exposure._fields)))


def _columns(parts: Iterable[bytes], width: int) -> list[Int64s]:
    batches = [pa.ipc.open_stream(part).read_next_batch() for part in parts]
    if not batches:
        return [np.zeros(0, np.int64) for _ in range(width)]
    return [np.concatenate([_numbers(batch.column(i)) for batch in batches]) for i in range(width)]


def _numbers(column: pa.Array) -> Int64s:
    """int64 (entries,), or (entries, K) of a column of lists."""
    if pa.types.is_fixed_size_list(column.type):
        return _numbers(column.flatten()).reshape(-1, column.type.list_size)
    found: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _array(column: Int64s) -> pa.Array:
    flat = pa.array(_narrow(column.ravel()))
    return flat if column.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, column.shape[1])


def _narrow(column: Int64s) -> "np.typing.NDArray[np.integer]":
    """The column in the smallest integer type that holds it."""
    if column.size:
        least, most = int(column.min()), int(column.max())
        for kind in (np.uint8, np.uint16, np.int32, np.uint32):
            bounds = np.iinfo(kind)
            if bounds.min <= least and most <= bounds.max:
                return column.astype(kind)
    return column
