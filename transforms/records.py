"""Records that cross between stages, from polls to estimates.

Across a group-by, keys are integers or text and values bytes (Arrow streams of transforms.wire, or JSON): every engine
has their coders, and equal keys have equal bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

import numpy as np

from dpops.estimate import Estimates
from dpops.types import Int64s
from transforms.recorded.units import Unit, UnitKey

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

PaneShard = tuple[SlotShard, int]  # slot and vehicle shard, and the start of a pane of the slot in seconds since 1970

KeyedPane = tuple[PaneShard, EventBytes]  # packed `Events` of a pane

KeyedPartial = tuple[SlotShard, PartialBytes]
"""A packed `Partial`, by slot and vehicle shard: of one of the slot's panes, or of what came late for them."""

KeyedTally = tuple[SlotShard, TallyBytes]  # a packed `Tally` by first slot and release shard; a heartbeat has no bytes

KeyedUnit = tuple[str, UnitBytes]  # an encoded `Unit` by what the ledger records in one transaction: a period or a slot

SPENDING, EXPOSURE = 0, 1  # kinds of demand: a unit's spending, and its vehicles' exposure
KeyedDemand = tuple[str, tuple[SlotShard, bytes]]
"""By period: (slot, SPENDING or EXPOSURE) and the encoded UnitSpending or packed Exposure."""

UnitSpending = tuple[str, UnitKey, str]  # a unit's epsilon per HAT, its key and its debit; claims as text


class Messages(NamedTuple):
    """Messages of one poll of a partition."""

    payloads: list[bytes]
    timestamps_ms: Int64s  # -1 where none
    refused: int = 0  # further messages with a producer's time


BY_KEY: Final = 1 << 30  # in the place of a latitude, beyond the poles: the longitude is the number of a public key
NO_HEADING: Final = -1  # in the place of a heading, where a row does not say which way its vehicle goes


class Observations(NamedTuple):
    """Columns of accepted rows, one entry each."""

    vehicle: Int64s  # keyed hash
    event_us: Int64s  # microseconds since 1970 UTC
    slot_start_us: Int64s  # start of the event's slot
    lat_e7: Int64s  # latitude, 1e-7 degrees; lon_e7: longitude
    lon_e7: Int64s
    value: Int64s  # steps of the specification's grid, in [0, upper_steps]
    heading: Int64s  # degrees clockwise from north, 0 to 359, or NO_HEADING

    def take(self, chosen: "np.typing.NDArray[np.bool_] | Int64s") -> "Observations":
        """Selects rows by mask or index."""
        return Observations(*(column[chosen] for column in self))


class Refused(NamedTuple):
    """Dead letter: number of rows refused, stage and reason."""

    stage: str
    reason: str
    rows: int


class PackedEvents(NamedTuple):
    """Packed `Events` of a slot, pane and vehicle shard."""

    key: SlotShard
    data: EventBytes
    rows: int
    pane_s: int  # start of the pane, seconds since 1970 UTC


CONSENT: Final = UnitBytes(b"")  # among a key's units: the whole input was judged, and they may be recorded

REFUSED: Final = "refused"
DEMAND: Final = "demand"


class RecordedSlot(NamedTuple):
    """A slot's recorded units, with their sequence numbers."""

    units: list[Unit]
    sequences: list[int]


TRAFFIC_COLUMNS: Final = ("traffic_lower95", "traffic_upper95")
"""Bounds of the mean that very many vehicles would have had in a row's place and time; on request alone."""

ABOUT_COLUMNS: Final = ("vehicles_about", "vehicles_about_lower95", "vehicles_about_upper95", "vehicles_status")
"""How many vehicles were there, about, where their number is secret; on request alone."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HatColumns:
    """Columns of estimates, one entry per HAT and statistic."""

    cell: Sequence[str]
    statistic: Sequence[str]
    mechanism: Sequence[str]
    epsilon_slot: Sequence[str]  # rational text: the most that a vehicle spends in the slot
    estimates: Estimates
    vehicles: Sequence[int | None]  # of the HAT's plan; None where secret or without plan
    reports: Sequence[int | None]
    optional: Mapping[str, Sequence[float | str | None]] = field(default_factory=dict)  # further columns, by name
    spans: Sequence[tuple[str, str]] | None = None  # start and end, where they are not the slot's
    geometries: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # GeoJSON of cells other than H3's


class SlotEstimates(NamedTuple):
    """Estimates of a slot, or of a period's product."""

    spec_id: str
    slot_start: str  # ISO 8601, as slot_end
    slot_end: str
    unit: str
    statistics: tuple[str, ...]
    hats: HatColumns
    is_live: bool = False  # estimated while the slot's period lasted
    product: str = ""  # name of a coarser product: its rows have own times, and parent cells or "city"
