"""What a vehicle's own device does: its mean value of each slot, perturbed once for each service."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dpops.noise import Noise
from dpops.types import Int64s
from hatstream_local.mechanisms.mechanism import Float64s
from hatstream_local.mechanisms.reports import Service
from transforms.order import changes
from transforms.records import Observations
from transforms.sinks.rows import Row

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
    observed: Observations,
    cell: Int64s,
    upper_steps: int,
    services: Sequence[Service],
    noise: Noise,
) -> list[Row]:
    """Reports to each service, for each vehicle, slot and cell, the mean of its values there, perturbed.

    cell: 0 everywhere where cells are not told apart. Each report tells its service epsilon about that mean; the means
    of one vehicle in several slots or cells are different values, so their epsilons add up.
    """
    key, means = _means(observed, cell, upper_steps)
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


def _means(observed: Observations, cell: Int64s, upper_steps: int) -> tuple[Int64s, Float64s]:
    """Finds slot, cell and vehicle, int64 (3, n), and the mean value of each on [-1, 1]."""
    key = np.stack([observed.slot_start_us, cell, observed.vehicle])
    order = np.lexsort(key[::-1])
    key, values = key[:, order], observed.value[order]
    starts = np.flatnonzero(changes(*key))
    counts = np.diff(np.append(starts, values.size))
    # np.add.reduceat takes no empty list of starts.
    sums = np.add.reduceat(values, starts) if starts.size else values
    return key[:, starts], 2 * sums / (counts * upper_steps) - 1
