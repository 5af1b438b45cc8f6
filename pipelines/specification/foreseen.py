"""What a specification of which each rule holds will meet once it is released: told before an account is opened."""

from collections.abc import Iterator
from datetime import date

import h3
import numpy as np

from dpops.accountant import Accountant
from pipelines.specification.limits import not_added_up
from pipelines.specification.values import Specification
from transforms.observe.parse import E7, in_box


def foreseen(spec: Specification, today: date) -> tuple[str, ...]:
    """Tells in sentences: days, in the year from today, and totals that will be refused, and a box without a cell."""
    return (*_clock(spec, today), *_limit(spec), *_box(spec), *_scale(spec))


def _scale(spec: Specification) -> Iterator[str]:
    if spec.value.scale != 1 and spec.kind == "levels":
        one = f"{float(spec.value.scale):.3g} {spec.value.unit}"
        yield f"`hatstream plan` tells errors by 'levels' as if bounds were 0 to 65 km/h: 1 km/h is {one} of this value"


def _clock(spec: Specification, today: date) -> Iterator[str]:
    if told := spec.timetable.never_released(today):
        yield told


def _limit(spec: Specification) -> Iterator[str]:
    if spec.chosen is not None:
        return
    limit, (claim, asked) = spec.account.limit, spec.least
    spent = Accountant().compose([claim])
    if why := not_added_up(limit, spent):
        yield why
    elif not limit.fits(spent):
        asks = "HAT" if spec.privacy.allocation.per == "hat" else "period"
        yield f"a {asks} asks for epsilon {asked.said()}, more than account.limit allows: {limit.said()}"


def _box(spec: Specification) -> Iterator[str]:
    if spec.cells.region is None or spec.cells.bbox is None or spec.keys is not None:
        return
    centres = np.array([h3.cell_to_latlng(h3.int_to_str(cell)) for cell in spec.cells.region]).reshape(-1, 2)
    lat_e7, lon_e7 = np.rint(centres.T * E7).astype(np.int64)
    if not in_box(lat_e7, lon_e7, spec.cells.bbox).any():
        yield "no cell of cells.region lies in cells.bbox (west, south, east, north): all reports will be refused"
