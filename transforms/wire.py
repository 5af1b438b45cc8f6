"""Arrow IPC form of columns, with narrow integers.

Packed by LZ4 where an engine shuffles it over the network and keeps it in checkpoints. A partial is a pane's tally: it
has sums, or under a cap candidate samples; vehicles' `spans` of time; and `late` events, not tallied yet. Sums are by
name of the `columns` that were asked for, such as squares.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from dpops.statistics import Column
from dpops.types import Int64s
from transforms.order import changes, factorize
from transforms.records import EventBytes, ExposureBytes, Observations, PackedEvents, PartialBytes, TallyBytes
from transforms.value import SPEED

_TALLY_COLUMNS = ("slot_s", "vehicle", "cell", "kept", "dropped")
S_US = 1_000_000
_PARTIAL_COLUMNS = ("vehicle", "cell", "reported")
Packing: TypeAlias = pa.ipc.IpcWriteOptions
DENSE = Packing(compression="lz4", use_threads=False)
"""For networks and checkpoints: 22 bytes an event. LZ4 takes a third more bytes than zstd and a third of its time."""
FAST = Packing(use_threads=False)
"""For temporary files of one machine: 29 bytes an event, in a quarter of the time."""
MANY = 1 << 12  # from so many events on, vehicles and cells are dictionary-encoded: 17 bytes an event where both repeat
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)  # cores are shared out among processes, not threads


class Events(NamedTuple):
    """Observations of one slot and vehicle shard."""

    vehicle: Int64s
    offset_us: Int64s  # event time after the start of the slot
    lat_e7: Int64s
    lon_e7: Int64s
    cell: Int64s
    value: Int64s

    def take(self, chosen: "np.typing.NDArray[np.bool_] | Int64s | slice") -> "Events":
        """Selects events by mask, index or slice."""
        return Events(*(column[chosen] for column in self))


@dataclass(frozen=True)
class Tally:
    """Counts and sums, one entry per (slot, cell, vehicle)."""

    slot_s: Int64s
    vehicle: Int64s
    cell: Int64s
    kept: Int64s  # samples within the cap
    dropped: Int64s  # samples beyond the cap
    sums: Mapping[str, Int64s] = field(kw_only=True)

    def take(self, chosen: "np.typing.NDArray[np.bool_] | Int64s | slice") -> "Tally":
        """Selects entries by mask, index or slice."""
        sums = {name: column[chosen] for name, column in self.sums.items()}
        return Tally(*(column[chosen] for column in self.keys()), sums=sums)

    def keys(self) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Lists the columns that every tally has."""
        return self.slot_s, self.vehicle, self.cell, self.kept, self.dropped


class Samples(NamedTuple):
    """Candidate samples for a cap; the lowest ranks stay."""

    vehicle: Int64s
    cell: Int64s
    rank: Int64s
    value: Int64s


NO_SAMPLES = Samples(*[np.zeros(0, np.int64)] * 4)

PARTIAL_LAYOUT = 2  # of what engines keep of open slots: a savepoint fits the layout it was made with


class EventSpans(NamedTuple):
    """First and last event time of a pane's vehicles, ascending by vehicle."""

    first_us: Int64s
    last_us: Int64s


NO_SPANS = EventSpans(*[np.zeros(0, np.int64)] * 2)
NO_EVENTS = Events(*[np.zeros(0, np.int64)] * 6)


class Partial(NamedTuple):
    """Counts and sums of one pane by (vehicle, cell)."""

    vehicle: Int64s
    cell: Int64s
    reported: Int64s  # samples without duplicates
    sums: Mapping[str, Int64s]  # without a cap
    samples: Samples  # with a cap: its candidates
    spans: EventSpans = NO_SPANS
    late: Events = NO_EVENTS  # events after their panes closed, in no entry yet


def joined(tallies: Sequence[Tally]) -> Tally:
    """Joins tallies that have the same sums."""
    if len(tallies) == 1:
        return tallies[0]
    sums = {name: np.concatenate([tally.sums[name] for tally in tallies]) for name in tallies[0].sums}
    columns = zip(*(tally.keys() for tally in tallies), strict=True)
    return Tally(*map(np.concatenate, columns), sums=sums)


def by_slot(rows: Tally) -> Iterator[tuple[int, Tally]]:
    """Yields (slot's start in s, its entries) of a tally sorted by slot."""
    slots, first = np.unique(rows.slot_s, return_index=True)
    for slot_s, (start, stop) in zip(slots.tolist(), pairwise([*first.tolist(), rows.slot_s.size]), strict=True):
        yield slot_s, rows.take(slice(start, stop))


class Exposure(NamedTuple):
    """Numbers of drawn HATs, int64 (vehicles, statistics)."""

    vehicle: Int64s
    drawn: Int64s


def split(
    observations: Observations, cell: Int64s, shards: int, pane_s: int | None = None, packing: Packing = DENSE
) -> Iterable[PackedEvents]:
    """Splits a batch by slot, pane and vehicle shard.

    cell: of each event. pane_s: length of a slot's panes; None: a slot is one pane. packing: Arrow's.
    """
    pane_us = observations.slot_start_us
    if pane_s is not None:
        pane_us = observations.event_us - (observations.event_us - pane_us) % (pane_s * S_US)
    # Start of the pane and number of the shard in one: panes are seconds apart, and shards fewer than 10**6 (S_US).
    pane_and_shard = pane_us + observations.vehicle % shards if shards > 1 else pane_us
    vehicle, event_us, slot_start_us, lat_e7, lon_e7, value, _ = observations
    events = Events(vehicle, event_us - slot_start_us, lat_e7, lon_e7, cell, value)
    for first, chosen in _runs(pane_and_shard):  # first row, and all rows, of each pane and shard
        pane_start_s, shard = divmod(int(pane_and_shard[first]), S_US)
        data, slot_s = pack_events(events.take(chosen), packing), int(slot_start_us[first]) // S_US
        yield PackedEvents((slot_s, shard), data, rows=len(vehicle[chosen]), pane_s=pane_start_s)


def _runs(run_key: Int64s) -> Iterator[tuple[int, "slice | Int64s"]]:
    """Yields the first index, and a slice or indices, of entries with equal keys."""
    order = None  # None: keys ascend already
    if not (run_key[1:] >= run_key[:-1]).all():
        values, code = factorize(run_key)  # codes of few bits, which numpy sorts faster
        order = np.argsort(code.astype(np.min_scalar_type(values.size)), kind="stable")
    ordered = run_key if order is None else run_key[order]
    for start, stop in pairwise([*np.flatnonzero(changes(ordered)).tolist(), run_key.size]):
        yield (start, slice(start, stop)) if order is None else (int(order[start]), order[start:stop])


def pack_events(events: Events, packing: Packing = DENSE) -> EventBytes:
    """Packs events as an Arrow stream; large ones by dictionaries in place of LZ4."""
    columns = {name: _array(column) for name, column in _by_name(events).items()}
    if packing is DENSE and events.vehicle.size >= MANY:
        columns |= {"vehicle": _coded(events.vehicle), "cell": _coded(events.cell)}
        packing = FAST  # as small as with LZ4, and faster
    return EventBytes(_written(columns, packing))


def pack_exposure(exposure: Exposure) -> ExposureBytes:
    """Packs an exposure as an Arrow stream."""
    return ExposureBytes(_packed(exposure._asdict()))


def pack_tally(rows: Tally) -> TallyBytes:
    """Packs a tally, the sums after other columns."""
    sums = {f"sum of {name}": column for name, column in rows.sums.items()}
    return TallyBytes(_packed(dict(zip(_TALLY_COLUMNS, rows.keys(), strict=True)) | sums))


def pack_partial(rows: Partial) -> PartialBytes:
    """Packs a pane's tally as four Arrow streams: entries, samples, spans, late events."""
    columns = dict(zip(_PARTIAL_COLUMNS, (rows.vehicle, rows.cell, rows.reported), strict=True))
    entries = columns | {f"sum of {name}": column for name, column in rows.sums.items()}
    others = (rows.samples, rows.spans, rows.late)
    return PartialBytes(b"".join([_packed(entries), *(_packed(_by_name(partial)) for partial in others)]))


def unpack_partial(data: PartialBytes, columns: Sequence[Column]) -> Partial:
    """Unpacks a pane's partial tally with its columns."""
    source = pa.BufferReader(data)
    streams = (pa.ipc.open_stream(source, options=_READ_OPTIONS) for _ in range(4))  # those of `pack_partial`
    entries, *others = (stream.read_all().combine_chunks() for stream in streams)
    sums = {column.name: _numbers(entries.column(f"sum of {column.name}").combine_chunks()) for column in columns}
    vehicle, cell, reported = (_numbers(entries.column(name).combine_chunks()) for name in _PARTIAL_COLUMNS)
    samples, spans, late = ([_numbers(column.combine_chunks()) for column in table.columns] for table in others)
    return Partial(vehicle, cell, reported, sums, Samples(*samples), EventSpans(*spans), Events(*late))


def _by_name(columns: Events | Samples | EventSpans) -> dict[str, Int64s]:
    """Names columns as in engines' checkpoints."""
    return {SPEED if field == "value" else field: column for field, column in columns._asdict().items()}


def _packed(columns: Mapping[str, Int64s]) -> bytes:
    """Writes integers as one Arrow stream."""
    return _written({name: _array(column) for name, column in columns.items()}, DENSE)


def _written(columns: Mapping[str, pa.Array], packing: Packing) -> bytes:
    """Writes Arrow columns as a stream of one batch."""
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=packing) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_events(packed: Iterable[bytes]) -> Events:
    """Unpacks and joins events."""
    return Events(*_columns(packed, len(Events._fields)))


def unpack_tally(packed: Iterable[bytes], columns: Sequence[Column]) -> Tally:
    """Unpacks tallies with the columns they were packed with."""
    nothing = np.zeros(0, np.int64)  # of an empty first tally, as there may be no other
    no_sums = {column.name: column.add_up(nothing, nothing, groups=0) for column in columns}
    tallies = [Tally(*[nothing] * len(_TALLY_COLUMNS), sums=no_sums)]
    for data in packed:
        batch = pa.ipc.open_stream(data, options=_READ_OPTIONS).read_next_batch()
        sums = {column.name: _numbers(batch.column(f"sum of {column.name}")) for column in columns}
        tallies.append(Tally(*(_numbers(batch.column(name)) for name in _TALLY_COLUMNS), sums=sums))
    return joined(tallies)


def unpack_exposure(packed: Iterable[bytes], statistics: int) -> Exposure:
    """Unpacks and joins exposures, (vehicles, statistics)."""
    vehicle, drawn = _columns(packed, len(Exposure._fields))
    return Exposure(vehicle, drawn.reshape(-1, statistics))


def _columns(packed: Iterable[bytes], width: int) -> list[Int64s]:
    """Reads and joins the `width` columns of packed streams."""
    batches = [pa.ipc.open_stream(data, options=_READ_OPTIONS).read_next_batch() for data in packed]
    if not batches:
        return [np.zeros(0, np.int64) for _ in range(width)]
    return [np.concatenate([_values(batch.column(i)) for batch in batches], dtype=np.int64) for i in range(width)]


def _numbers(column: pa.Array) -> Int64s:
    return _values(column).astype(np.int64)


def _values(column: pa.Array) -> "np.typing.NDArray[np.integer]":
    """Reads a column of integers, dictionary codes or lists, keeping the integers' type."""
    if pa.types.is_dictionary(column.type):
        return _values(column.dictionary).take(_values(column.indices))
    if pa.types.is_fixed_size_list(column.type):
        return _values(column.flatten()).reshape(-1, column.type.list_size)
    values: np.typing.NDArray[np.integer] = column.to_numpy(zero_copy_only=False)
    return values


def _array(column: Int64s) -> pa.Array:
    """Makes an Arrow column of the smallest integer type that holds all numbers."""
    flat = column.ravel()
    if flat.size:
        lowest, highest = int(flat.min()), int(flat.max())
        for kind in (np.uint8, np.uint16, np.int32, np.uint32):  # negative ones are positions, of 32 bits
            if np.iinfo(kind).min <= lowest and highest <= np.iinfo(kind).max:
                flat = flat.astype(kind)
                break
    array = pa.array(flat)
    return array if column.ndim == 1 else pa.FixedSizeListArray.from_arrays(array, column.shape[1])


def _coded(column: Int64s) -> pa.Array:
    """Dictionary-encodes a column whose values occur twice or more on average."""
    values, code = factorize(column)
    if 2 * values.size > code.size:
        return _array(column)
    return pa.DictionaryArray.from_arrays(_array(code), pa.array(values))
