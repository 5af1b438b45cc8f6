"""Public hours of a timetable's trips, by cell and weekday."""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import h3

from transforms.time.calendar import WEEKDAYS, Timetable

COLUMNS = ("cell", "weekdays", "hours")
"""Of the file: a cell, weekdays such as `sat sun`, and their hours with a trip, such as `5 6 23`."""
_DAY_HOURS = 24


@dataclass(frozen=True)
class Trips:
    """Hours with a trip by cell: bit 24 * weekday + hour."""

    hours: Mapping[str, int] = field(hash=False)

    def cells_in(self, start: str, end: str) -> frozenset[str]:
        """Lists the cells with a trip in a local slot."""
        first, last = datetime.fromisoformat(start), datetime.fromisoformat(end)
        minutes = int((last - first).total_seconds()) // 60
        mask = hours_mask(first.weekday(), 60 * first.hour + first.minute, minutes)
        return frozenset(cell for cell, hours in self.hours.items() if hours & mask)

    def number(self, cells: Iterable[str], table: Timetable) -> int:
        """Counts the HATs with a trip of a week, or of the table's weekdays."""
        days, minutes = map(WEEKDAYS.index, table.weekdays), table.slot_minutes
        masks = [hours_mask(day, start, minutes) for day in days for start in table.service_minutes]
        return sum(bool(self.hours.get(cell, 0) & mask) for cell in cells for mask in masks)

    def of_parents(self) -> "Trips":
        """Joins the hours of cells one resolution coarser."""
        parents = dict[str, int]()
        for cell, hours in self.hours.items():
            parent = h3.cell_to_parent(cell)
            parents[parent] = parents.get(parent, 0) | hours
        return Trips(parents)


def hours_mask(weekday: int, minute: int, minutes: int) -> int:
    """Marks the hours of a week that a slot touches."""
    first, last = minute // 60, (minute + minutes - 1) // 60
    return ((1 << (last - first + 1)) - 1) << (_DAY_HOURS * weekday + first)


def read_trips(content: str, resolution: int) -> Trips:
    """Reads a file of COLUMNS. Raises ValueError naming the rule."""
    rows, cells = csv.DictReader(io.StringIO(content)), dict[str, int]()
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise ValueError(f"needs the columns {', '.join(COLUMNS)}")
    for row in rows:
        (cell, days, hours), line = (row[name] or "" for name in COLUMNS), f"line {rows.line_num} needs"
        if not h3.is_valid_cell(cell) or h3.get_resolution(cell) != resolution:
            raise ValueError(f"{line} a cell of resolution {resolution}, as cells.resolution has it")
        if not set(days.split()) <= set(WEEKDAYS) or not set(hours.split()) <= set(map(str, range(_DAY_HOURS))):
            raise ValueError(f"{line} weekdays like `sat sun` and hours from 0 to 23 like `5 6 23`")
        for day in days.split():
            for hour in hours.split():
                cells[cell] = cells.get(cell, 0) | hours_mask(WEEKDAYS.index(day), 60 * int(hour), 60)
    if not cells:
        raise ValueError("must hold an hour with a trip")
    return Trips(cells)
