"""What a specification of which each rule holds will meet once it is released: told before an account is opened."""

from collections.abc import Iterator
from datetime import date

import h3

from dpops.accountant import Accountant
from dpops.claims import PureDP
from pipelines.specification.values import Specification


def foreseen(spec: Specification, today: date) -> tuple[str, ...]:
    """Sentences: days, in the year from today, and totals that will be refused, and a box without a cell."""
    return (*_clock(spec, today), *_limit(spec), *_box(spec))


def _clock(spec: Specification, today: date) -> Iterator[str]:
    if told := spec.timetable.never_released(today):
        yield told


def _limit(spec: Specification) -> Iterator[str]:
    """The least that is asked of one period."""
    limit, levels, allocation = spec.account.limit, spec.levels, spec.privacy.allocation
    if spec.chosen is not None:
        return
    claim = PureDP(allocation.epsilon) if levels is None else levels.claim
    if not limit.fits(Accountant().compose([claim])):
        asks = "HAT" if levels is None and allocation.per == "hat" else "period"
        epsilon = f"{float(allocation.epsilon if levels is None else levels.epsilon):g}"
        delta = "" if levels is None or levels.delta is None else f" at delta {float(levels.delta):g}"
        yield f"a {asks} asks for epsilon {epsilon}{delta}, more than account.limit allows: {limit.said()}"


def _box(spec: Specification) -> Iterator[str]:
    if spec.cells.region is None or spec.cells.bbox is None:
        return
    west, south, east, north = spec.cells.bbox
    for lat, lon in map(h3.cell_to_latlng, map(h3.int_to_str, spec.cells.region)):
        inside = west <= lon <= east if west <= east else lon >= west or lon <= east
        if inside and south <= lat <= north:
            return
    yield "no cell of cells.region lies in cells.bbox (west, south, east, north): all reports will be refused"
