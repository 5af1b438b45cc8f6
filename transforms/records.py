"""Everything that crosses between stages: polls, observation batches, tallies, refused rows, slots, estimates."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dpops.types import Int64s


class RawBatch(NamedTuple):
    """What a layout hands over: five columns as found in the input, and what it could not read.

    rows: rows of input this batch accounts for. table: columns vehicle, time, lat, lon, speed of any Arrow type, null
    where the input has nothing. refused: rows of this batch that are not in the table, by reason.
    rows == table.num_rows + sum(refused.values()).
    """

    rows: int
    table: pa.RecordBatch
    refused: dict[str, int]


class Messages(NamedTuple):
    """One poll of one partition of a topic.

    payloads: as they came, empty where a message has none. timestamps_ms: Kafka's, of each message, -1 where it has
    none. promised_us: the partition's watermark before them, in microseconds since 1970 UTC; Beam's least if it had
    none. An event whose slot ended before it is late.
    """

    partition: int
    payloads: list[bytes]
    timestamps_ms: Int64s
    promised_us: int


class Observations(NamedTuple):
    """Accepted rows, one entry each.

    vehicle: keyed hash. event_us: microseconds since 1970 UTC. lat_e7, lon_e7: position on the 1e-7 degree grid.
    speed: steps of the specification's grid, in [0, upper_steps]. slot_start_us: start of the event's slot.
    """

    vehicle: Int64s
    event_us: Int64s
    slot_start_us: Int64s
    lat_e7: Int64s
    lon_e7: Int64s
    speed: Int64s

    def take(self, chosen: "np.typing.NDArray[np.bool_] | Int64s") -> "Observations":
        return Observations(*(column[chosen] for column in self))
