"""Public trips of a timetable, by cell and hour of a week.

They decide which HATs have rows, and tell learning and plans where vehicles are expected. A week has 168 hours, from
Monday on; a habit is an hour of a working day, 0 to 23, or of a day off, 24 to 47.
"""

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import h3
import numpy as np

from dpops.types import Float64s
from transforms.time.calendar import WEEKDAYS, Timetable

COLUMNS = ("cell", "weekdays", "hours")
"""Of the file: a cell, weekdays such as `sat sun`, and their hours with a trip, such as `5 6 23`."""
NUMBERS = "trips"  # column of the average number of trips in each of these hours, such as `2 4 0.5`, if it is known
_DAY_HOURS = 24
_WEEK_HOURS = _DAY_HOURS * len(WEEKDAYS)
_WORKDAYS_A_WEEK = 5


@dataclass(frozen=True)
class Trips:
    """Trips through cells in each hour of a week."""

    cells: tuple[str, ...]
    packed: bytes  # `numbers`, (cells, 168 hours of a week), as bytes can be compared and hashed
    are_counted: bool  # whether `numbers` are averages, or just 1 where there is a trip

    @cached_property
    def numbers(self) -> Float64s:
        """Average numbers of trips, (cells, 168), from Monday on."""
        return np.frombuffer(self.packed).reshape(len(self.cells), _WEEK_HOURS)

    def cells_in(self, start: str, end: str) -> frozenset[str]:
        """Lists cells with a trip in a local slot."""
        first, last = datetime.fromisoformat(start), datetime.fromisoformat(end)
        hours = week_hours(first.weekday(), 60 * first.hour + first.minute, int((last - first).total_seconds()) // 60)
        has_trip = self.numbers[:, hours].any(axis=1)  # (cells,), in any hour that the slot touches
        return frozenset(np.array(self.cells)[has_trip].tolist())

    def count_hats(self, cells: Iterable[str], table: Timetable) -> int:
        """Counts HATs with a trip in the table's weekdays and hours of service."""
        return int(np.count_nonzero(self.of_hats(cells, table)))

    def of_hats(self, cells: Iterable[str], table: Timetable) -> Float64s:
        """Adds up trips by HAT of the table's service, (slots of its weekdays, cells)."""
        days, minutes, numbers = map(WEEKDAYS.index, table.weekdays), table.slot_minutes, self._of_cells(cells)
        slots = (week_hours(day, start, minutes) for day in days for start in table.service_minutes)
        return np.array([numbers[:, hours].sum(axis=1) for hours in slots])  # an hour that a slot touches counts fully

    def of_parents(self) -> "Trips":
        """Adds up the trips of cells one resolution coarser."""
        parents, parent = np.unique([h3.cell_to_parent(cell) for cell in self.cells], return_inverse=True)
        numbers = np.zeros((parents.size, _WEEK_HOURS))
        np.add.at(numbers, parent, self.numbers)
        return Trips(tuple(parents.tolist()), numbers.tobytes(), are_counted=self.are_counted)

    def of_habits(self, cells: Iterable[str]) -> Float64s:
        """Averages numbers of trips by habit, (cells, 48)."""
        by_day = self._of_cells(cells).reshape(-1, len(WEEKDAYS), _DAY_HOURS)
        return np.hstack([by_day[:, :_WORKDAYS_A_WEEK].mean(axis=1), by_day[:, _WORKDAYS_A_WEEK:].mean(axis=1)])

    def _of_cells(self, cells: Iterable[str]) -> Float64s:
        """Looks up cells' numbers, (cells, 168): 0 for cells without trips."""
        row = {cell: index for index, cell in enumerate(self.cells)}
        return np.vstack([self.numbers, np.zeros(_WEEK_HOURS)])[[row.get(cell, -1) for cell in cells]]  # -1: the zeros


def week_hours(weekday: int, minute: int, minutes: int) -> slice:
    """Finds the hours of a week that a slot touches; minute: its start."""
    start = _DAY_HOURS * weekday
    return slice(start + minute // 60, start + (minute + minutes - 1) // 60 + 1)


def read_trips(content: str, resolution: int) -> Trips:
    """Reads a CSV text of COLUMNS, and maybe NUMBERS. Raises ValueError naming the rule."""
    rows, cells = csv.DictReader(io.StringIO(content)), dict[str, Float64s]()
    names = tuple(rows.fieldnames or ())
    if names not in (COLUMNS, (*COLUMNS, NUMBERS)):
        raise ValueError(f"needs the columns {', '.join(COLUMNS)}, and may have {NUMBERS}")
    for row in rows:
        line, cell = f"line {rows.line_num} needs", row["cell"] or ""
        days, hours = ((row[name] or "").split() for name in COLUMNS[1:])
        if not h3.is_valid_cell(cell) or h3.get_resolution(cell) != resolution:
            raise ValueError(f"{line} a cell of resolution {resolution}, as cells.resolution says")
        if not set(days) <= set(WEEKDAYS) or not set(hours) <= set(map(str, range(_DAY_HOURS))):
            raise ValueError(f"{line} weekdays like `sat sun` and hours from 0 to 23 like `5 6 23`")
        week = cells.setdefault(cell, np.zeros(_WEEK_HOURS))
        try:
            numbers = [float(text) for text in (row[NUMBERS] or "").split()] if NUMBERS in row else [1.0] * len(hours)
        except ValueError:
            numbers = [math.nan]  # refused as are others that are no averages
        if not all(0 < number < math.inf for number in numbers):
            raise ValueError(f"{line} numbers of trips above 0 like `2 4 0.5`")
        if len(numbers) != len(hours):
            raise ValueError(f"{line} as many trips as hours")
        for day in days:
            for hour, number in zip(hours, numbers, strict=True):
                week[week_hours(WEEKDAYS.index(day), minute=60 * int(hour), minutes=60)] = number  # one hour
    if not any(week.any() for week in cells.values()):
        raise ValueError("must hold an hour with a trip")
    return Trips(tuple(cells), np.stack([*cells.values()]).tobytes(), are_counted=NUMBERS in names)
