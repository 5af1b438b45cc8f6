"""What a specification of which each rule holds will meet once it is released: told before an account is opened."""

from collections.abc import Iterator
from datetime import date

import h3

from dpops.accountant import Accountant
from pipelines.specification.values import Specification


def foreseen(spec: Specification, today: date) -> tuple[str, ...]:
    """Sentences: days, in the year from today, and totals that will be refused, and a box without a cell."""
    return (*_clock(spec, today), *_limit(spec), *_box(spec))


def _clock(spec: Specification, today: date) -> Iterator[str]:
    if told := spec.timetable.never_released(today):
        yield told


def _limit(spec: Specification) -> Iterator[str]:
    if spec.chosen is not None:
        return
    limit, (claim, asked) = spec.account.limit, spec.least
    if not limit.fits(Accountant().compose([claim])):
        asks = "HAT" if spec.privacy.allocation.per == "hat" else "period"
        yield f"a {asks} asks for epsilon {asked.said()}, more than account.limit allows: {limit.said()}"


def _box(spec: Specification) -> Iterator[str]:
    if spec.cells.region is None or spec.cells.bbox is None:
        return
    west, south, east, north = spec.cells.bbox
    for lat, lon in map(h3.cell_to_latlng, map(h3.int_to_str, spec.cells.region)):
        inside = west <= lon <= east if west <= east else lon >= west or lon <= east
        if inside and south <= lat <= north:
            return
    yield "no cell of cells.region lies in cells.bbox (west, south, east, north): all reports will be refused"
