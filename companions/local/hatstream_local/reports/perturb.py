"""What a vehicle's own device does: its mean value of each slot, perturbed once for each service."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dpops import Noise
from hatstream_local.mechanisms.mechanism import Float64s, Int64s
from hatstream_local.mechanisms.reports import Service
from hatstream_local.reports.fuse import Row, changes

SCHEMA = pa.schema(
    [
        pa.field("user", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("epsilon", pa.float64(), nullable=False),
        pa.field("mechanism", pa.string(), nullable=False),
        pa.field("time", pa.string(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("report", pa.float64(), nullable=False),
    ]
)


def perturb(
    vehicle: Int64s,
    slot_us: Int64s,
    cell: Int64s,
    values: Float64s,
    services: Sequence[Service],
    noise: Noise,
) -> list[Row]:
    """Reports to each service, for each vehicle, slot and cell, the mean of its values there, perturbed.

    slot_us, cell: 0 everywhere where they are not told apart. values: on [-1, 1]. Each report tells its service epsilon
    about that mean; the means of one vehicle in several slots or cells are different values, so their epsilons add up.
    """
    key, means = _means(np.stack([slot_us, cell, vehicle]), values)
    times = [f"{instant}Z" for instant in np.datetime_as_string(key[0].view("datetime64[us]"), unit="s").tolist()]
    rows: list[Row] = []
    for service in services:
        reports = service.mechanism.sample(means, noise)
        for time, instant, user, report in zip(times, key[1].tolist(), key[2].tolist(), reports.tolist(), strict=True):
            rows.append(
                {
                    "user": f"{user:016x}",
                    "service": service.name,
                    "epsilon": service.mechanism.epsilon,
                    "mechanism": service.mechanism.name,
                    "time": time,
                    "cell": f"{instant:x}" if instant else "",
                    "report": report,
                }
            )
    return rows


def _means(key: Int64s, values: Float64s) -> tuple[Int64s, Float64s]:
    """Finds the different keys, int64 (3, n), of slot, cell and vehicle, and the mean value of each."""
    order = np.lexsort(key[::-1])
    key, values = key[:, order], values[order]
    starts = np.flatnonzero(changes(*key))
    counts = np.diff(np.append(starts, values.size))
    # np.add.reduceat takes no empty list of starts.
    sums = np.add.reduceat(values, starts) if starts.size else values
    return key[:, starts], sums / counts
