"""From rows to events by slot: what the road does before its first group-by, without an engine."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from dpops.types import Int64s
from transforms import wire
from transforms.observe import hexagons
from transforms.observe.parse import Rules, parse
from transforms.places.ground import NOWHERE, Ground
from transforms.records import Observations


class Located(NamedTuple):
    """Observations with what each is counted under, as `cell`; outside: how many lay outside of the ground."""

    observations: Observations
    cell: Int64s
    outside: int


def locate(observations: Observations, ground: Ground) -> Located:
    """Finds what each observation is counted under: its key, or one H3 lookup and one in the ground's public table."""
    resolution = ground.resolution
    cells = observations.lat_e7 if resolution is None else hexagons.cells_of(observations, resolution)
    key = ground.keys(cells, observations.heading)
    inside = key != NOWHERE
    if inside.all():
        return Located(observations, key, 0)
    return Located(observations.take(inside), key[inside], int((~inside).sum()))


def events_of(table: pa.RecordBatch, rules: Rules, ground: Ground) -> Iterator[tuple[int, bytes]]:
    """Packs the accepted rows of a batch as events, with the start of their slot in seconds since 1970 UTC."""
    observations, _ = parse(table, rules)
    located = locate(observations, ground)
    for part in wire.split(located.observations, located.cell, 1):
        yield part.slot_s, part.data
