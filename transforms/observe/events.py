"""From rows to events by slot: what the road does before its first group-by, without an engine."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dpops.types import Int64s
from transforms import wire
from transforms.observe import hexagons
from transforms.observe.parse import Rules, parse
from transforms.records import Observations


class Located(NamedTuple):
    """Observations with their cells; outside: how many lay in none of the region's."""

    observations: Observations
    cell: Int64s
    outside: int


def locate(observations: Observations, resolution: int, region: Sequence[int] | Int64s | None) -> Located:
    """The cells of observations. region: the only cells that are released, or None for all."""
    cell = hexagons.cells_of(observations, resolution)
    if region is None:
        return Located(observations, cell, 0)
    inside = np.isin(cell, np.asarray(region, np.int64))
    return Located(observations.take(inside), cell[inside], int((~inside).sum()))


def events_of(
    table: pa.RecordBatch, rules: Rules, resolution: int, region: Sequence[int] | None = None
) -> Iterator[tuple[int, bytes]]:
    """The accepted rows of a batch as packed events, with the start of their slot in seconds since 1970 UTC."""
    observations, _ = parse(table, rules)
    found = locate(observations, resolution, region)
    for part in wire.split(found.observations, found.cell, 1):
        yield part.slot_s, part.data
