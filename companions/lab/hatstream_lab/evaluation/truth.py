"""What truly was: days of telemetry on public cells, as they are simulated and compared with. Not private."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import h3.api.basic_int as h3_int
import numpy as np

from dpops.levels import Fleet, Profile, Rows
from dpops.levels.groups import BLOCK_H
from dpops.statistics import SUMS, Column
from dpops.types import Float64s, Grid, Int64s
from hatstream_city.timetable.service import one_digit
from pipelines.progress import Report
from transforms import wire
from transforms.count.tally import tally
from transforms.places.ground import Ground
from transforms.places.hierarchy import hats_of
from transforms.releases.periods.stages import rows_of
from transforms.time.days_off import hours_of

if TYPE_CHECKING:
    from hatstream_lab.evaluation.feed import Feed
    from pipelines.specification import Specification


@dataclass(frozen=True)
class TrueDay:
    """A day's reports in the region. reports, vehicles: (cells, slots); means: km/h, nan without a report."""

    name: str
    rows: Rows
    hours: tuple[int, ...]
    reports: Float64s
    vehicles: Float64s
    means: Float64s


@dataclass(frozen=True)
class TrueCity:
    """Days of telemetry on public cells. made_region: whether the region was made of the first day's own cells."""

    region: tuple[int, ...]
    grid: Grid
    fleet: Fleet
    days: list[TrueDay]
    made_region: bool

    @property
    def mean_kmh(self) -> float:
        total = sum(float(np.nansum(day.means * day.reports)) for day in self.days)
        return total / sum(float(day.reports.sum()) for day in self.days)


def read_city(feed: "Feed", report: Report) -> TrueCity:
    """Reads the days of some files. A region or fleet that the specification does not name is made of the first day."""
    spec = feed.spec
    tallies, periods = read_tallies(feed, spec.cells.ground, report)
    first = next(iter(periods.values()))
    region = spec.cells.region or around(tallies[slot_s].cell for slot_s in first if slot_s in tallies)
    days = [
        _true_day(name, slots, [tallies[slot_s] for slot_s in slots if slot_s in tallies], region, spec)
        for name, slots in periods.items()
    ]
    fleet = spec.fleet or rough_fleet(region, days)
    return TrueCity(region, spec.value.grid, fleet, days, spec.cells.region is None)


def read_tallies(
    feed: "Feed", ground: Ground, report: Report, columns: Sequence[Column] = (SUMS,)
) -> tuple[dict[int, wire.Tally], dict[str, list[int]]]:
    """Tallies what vehicles did by start of slot, and lists all slots' starts of each period with reports."""
    when, parts = feed.events(report, ground)
    tallies = {}
    for slot_s in sorted(parts):
        tallies[slot_s] = tally(wire.unpack_events(parts[slot_s]), slot_s, None, columns).tally
    periods: dict[str, list[int]] = {}
    for slot in when.slots:
        periods.setdefault(slot.period, []).append(slot.start_s)
    return tallies, {name: slots for name, slots in periods.items() if any(slot_s in tallies for slot_s in slots)}


def rough_fleet(region: tuple[int, ...], days: Sequence[TrueDay]) -> Fleet:
    """Estimates what an operator would have known of the first day's fleet, to one digit. Not private: counted here."""
    day = next((day_of_reports for day_of_reports in days if day_of_reports.rows.vehicle.size), None)
    if day is None:
        return Fleet()
    rows, hats = day.rows, hats_of(region, day.hours)
    vehicle = np.unique(rows.vehicle, return_inverse=True)[1]
    parent, grandparent = (np.array(cells)[rows.cell] for cells in (hats.parents, hats.grandparents))
    hour = np.array(day.hours)[rows.slot]

    def touched(of: Int64s) -> int:
        return one_digit(np.unique(np.stack([vehicle, of]), axis=1).shape[1] / (int(vehicle.max()) + 1))

    profile = Profile(
        hats=touched(rows.cell * hats.slots + rows.slot),
        cells=touched(rows.cell),
        parents=touched(parent),
        grandparents=touched(grandparent),
        hours=touched(hour),
        parts=touched(hour // BLOCK_H),
        reports=one_digit(float(rows.reports.mean())),
    )
    return Fleet(vehicles=one_digit(int(vehicle.max()) + 1), profile=profile)


def around(cells: Iterable[Int64s]) -> tuple[int, ...]:
    """Makes a region: these cells, and a ring around them."""
    occupied = {int(cell) for part in cells for cell in part.tolist()}
    return tuple(sorted({near for cell in occupied for near in h3_int.grid_disk(cell, 1)}))


def _true_day(
    name: str, slots: Sequence[int], tallies: Sequence[wire.Tally], region: tuple[int, ...], spec: "Specification"
) -> TrueDay:
    inside = [tally.take(np.isin(tally.cell, np.array(region, np.int64))) for tally in tallies]
    parts = [rows_of(tally, region, slots) for tally in inside]
    rows = Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return true_day(name, rows, hours_of(slots, spec.timetable.zone), len(region), spec.value.grid)


def true_day(name: str, rows: Rows, hours: Sequence[int], cells: int, grid: Grid) -> TrueDay:
    """Makes a day from what vehicles did in HATs of a region of so many cells. rows: in any order."""
    rows = Rows(*(column[np.lexsort((rows.slot, rows.cell, rows.vehicle))] for column in rows))
    shape = (cells, len(hours))
    hat = rows.cell * shape[1] + rows.slot
    reports, vehicles, total = (
        np.bincount(hat, weights, shape[0] * shape[1]).astype(np.float64).reshape(shape)
        for weights in (rows.reports, None, rows.total)
    )
    means = np.divide(total, reports, out=np.full(shape, np.nan), where=reports > 0) * float(grid.step)
    return TrueDay(name, rows, tuple(hours), reports, vehicles, means)


def half_of(city: TrueCity) -> TrueCity:
    """Keeps a random half of each day's vehicles, always the same one."""
    rng, days = np.random.default_rng(1), []
    for day in city.days:
        vehicles = np.unique(day.rows.vehicle)
        chosen = np.isin(day.rows.vehicle, rng.permutation(vehicles)[: -(-vehicles.size // 2)])
        rows = Rows(*(column[chosen] for column in day.rows))
        days.append(true_day(day.name, rows, day.hours, len(city.region), city.grid))
    return replace(city, days=days)
