"""Everything that crosses between stages, and its keys: polls, batches, packed columns, refused rows, slots, estimates.

What crosses a group-by has a key of integers or text and a value of bytes: coders that every engine knows, and that
give equal keys equal bytes. The bytes are Arrow streams with named columns (transforms.wire), or JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

import numpy as np

from dpops.estimate import Estimates
from dpops.types import Int64s
from transforms.recorded.units import Unit

if TYPE_CHECKING:
    EventBytes = NewType("EventBytes", bytes)
    PartialBytes = NewType("PartialBytes", bytes)
    TallyBytes = NewType("TallyBytes", bytes)
    ExposureBytes = NewType("ExposureBytes", bytes)
    UnitBytes = NewType("UnitBytes", bytes)
else:  # Beam finds no coder for a NewType
    EventBytes = PartialBytes = TallyBytes = ExposureBytes = UnitBytes = bytes

SlotShard = tuple[int, int]
"""A group-by key: start of the slot (or of the first slot of a plan) in seconds since 1970 UTC, and a vehicle shard or
a release shard."""


KeyedEvents = tuple[SlotShard, EventBytes]  # packed `Events` of a slot, by vehicle shard

PaneShard = tuple[SlotShard, int]
"""A group-by key: slot and vehicle shard, and the start of a pane of the slot in seconds since 1970 UTC."""

KeyedPane = tuple[PaneShard, EventBytes]  # packed `Events` of a pane

KeyedPartial = tuple[SlotShard, PartialBytes]
"""A packed `Partial`, by slot and vehicle shard: of one of the slot's panes, or of what came late for them."""

KeyedTally = tuple[SlotShard, TallyBytes]
"""A packed `Tally` by release shard and the first slot of its plan; a heartbeat has no bytes."""

KeyedUnit = tuple[str, UnitBytes]  # an encoded `Unit` by what the ledger records in one transaction: a period or a slot


SEALED, EXPOSED = 0, 1  # kinds of what is drawn of a slot: its encoded unit, and what vehicles spend in it
KeyedDemand = tuple[str, tuple[SlotShard, bytes]]
"""By period: (slot, SEALED or EXPOSED) and the encoded Spending or packed Exposure."""


class Messages(NamedTuple):
    """One poll of a partition. timestamps_ms: -1 where none. refused: further messages with a producer's time."""

    payloads: list[bytes]
    timestamps_ms: Int64s
    refused: int = 0


BY_KEY: Final = 1 << 30  # in the place of a latitude, beyond the poles: the longitude is the number of a public key
NO_HEADING: Final = -1  # in the place of a heading, where a row does not say which way its vehicle goes


class Observations(NamedTuple):
    """Accepted rows, one entry each.

    vehicle: keyed hash. event_us: microseconds since 1970 UTC. lat_e7, lon_e7: position on the 1e-7 degree grid.
    value: steps of the specification's grid, in [0, upper_steps]. slot_start_us: start of the event's slot. heading:
    whole degrees clockwise from north, 0 to 359, or NO_HEADING.
    """

    vehicle: Int64s
    event_us: Int64s
    slot_start_us: Int64s
    lat_e7: Int64s
    lon_e7: Int64s
    value: Int64s
    heading: Int64s

    def take(self, chosen: "np.typing.NDArray[np.bool_] | Int64s") -> "Observations":
        return Observations(*(column[chosen] for column in self))


class Refused(NamedTuple):
    """Dead letters: how many rows, at which stage, for which reason. Never the rows."""

    stage: str
    reason: str
    rows: int


class PackedEvents(NamedTuple):
    """Observations of one slot, pane and vehicle shard on their way to a group-by. pane_s: start of the pane."""

    key: SlotShard
    data: EventBytes
    rows: int
    pane_s: int


CONSENT: Final = UnitBytes(b"")
"""Stands among the units of a key: all of the input was read and judged, and they may be recorded."""

REFUSED: Final = "refused"
DEMAND: Final = "demand"


class RecordedSlot(NamedTuple):
    """One slot as the ledger returned it: its units, one per release shard, and the sequence number of each entry."""

    units: list[Unit]
    sequences: list[int]


@dataclass(frozen=True, eq=False, kw_only=True)
class HatColumns:
    """Estimates in columns, an entry for each statistic of a HAT.

    epsilon_slot: rational text, the most that a vehicle spends in the slot. vehicles, reports: as the HAT's plan has
    them; None where they are secret or there is no plan. notes: further columns, of `transforms.sinks.rows.NOTES`.
    spans: start and end of each, where they are not the slot's. geometries: GeoJSON of cells that are no H3 cells.
    """

    cell: Sequence[str]
    statistic: Sequence[str]
    mechanism: Sequence[str]
    epsilon_slot: Sequence[str]
    estimates: Estimates
    vehicles: Sequence[int | None]
    reports: Sequence[int | None]
    notes: Mapping[str, Sequence[float | str | None]] = field(default_factory=dict)
    spans: Sequence[tuple[str, str]] | None = None
    geometries: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


class SlotEstimates(NamedTuple):
    """All estimates of a slot. slot_start, slot_end: ISO 8601. is_live: made while the slot's period lasted.

    product: name of a coarser product of a whole period: its rows have times of their own, and parent cells or "city".
    """

    spec_id: str
    slot_start: str
    slot_end: str
    unit: str
    statistics: tuple[str, ...]
    hats: HatColumns
    is_live: bool = False
    product: str = ""
