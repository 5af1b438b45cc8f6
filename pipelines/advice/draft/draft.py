"""A drafted specification: TOML with a comment wherever a person has to decide, and what was found, in words."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpops.levels.defaults import Profile
from dpops.types import Int64s
from pipelines.advice.draft.budget import PLACES, limits, total
from pipelines.advice.draft.by_file import BEWARE, advice, find_by_file, is_by_file, read_folder
from pipelines.advice.draft.columns import LOOKED_FOR, Found, as_array, find_columns, missing_fields
from pipelines.advice.draft.sample import Sample
from pipelines.advice.draft.units import Positions, same_clock, speed_unit, zones_at
from pipelines.advice.timetable.town import REGION, Town, read_town
from pipelines.errors import InputError
from pipelines.input_files import paths_of
from transforms.layouts import FIXED
from transforms.layouts.base import FIELDS
from transforms.layouts.by_file import FILE
from transforms.layouts.capmetro import CAPMETRO
from transforms.layouts.columns import TimeUnit, numbers
from transforms.layouts.iudx import COLUMNS as OF_IUDX
from transforms.layouts.mds import COLUMNS as OF_MDS
from transforms.layouts.tides import TIDES
from transforms.observe.hexagons import cells_at
from transforms.observe.parse import E7
from transforms.places.hexagons import cell_text

RESOLUTION = 7
_FIXED_COLUMNS = {
    "capmetro": CAPMETRO.columns,
    "iudx": OF_IUDX,
    "gtfs-realtime": FIELDS,
    "siri-vm": FIELDS,
    "tides": TIDES.columns,
    "mds": OF_MDS,
}
_PER_LINE = 5
_GAPS_S = (60, 120, 300, 600, 900, 1_800, 3_600)


@dataclass(frozen=True)
class Draft:
    """toml: the specification. found: what sample and timetable say, a line each. warnings: what a person must look at.

    files: beside the specification, by name: of a timetable the region, names of places, and lines for maps.
    """

    toml: str
    found: tuple[str, ...]
    warnings: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class _Feed:
    """What was made out of a sample. zone_needed: times have no offset."""

    sample: Sample
    columns: Found
    zones: tuple[str, ...]
    zone_needed: bool
    unit: str
    unit_why: str
    cells: tuple[str, ...]
    vehicles: int
    usable: float
    with_speed: float
    max_gap_s: int

    @property
    def derived(self) -> str:
        return f"derived_speed = {{ max_gap_s = {self.max_gap_s}, max_kmh = 120 }}"


def draft(path: Path | None, *, adds_and_removes: bool, timetable: Path | None = None, stem: str = "") -> Draft:
    """Drafts from a sample of the feed, a file or a folder, a GTFS timetable, or both: public facts are then its.

    adds_and_removes: secret counts, with one small total; else public counts, with an epsilon for each HAT. stem: of
    the names of files beside the specification. Raises InputError where vehicles, times or positions are not found.
    """
    feed = None if path is None else _feed(path, paths_of(str(path)) if path.is_dir() else [str(path)])
    town = None if timetable is None else read_town(timetable, RESOLUTION)
    if feed is not None and "speed" not in feed.columns.names and not adds_and_removes:
        raise InputError(
            f"{path}: no column of speeds. Speeds that are made from positions are for --adjacency add-remove: under "
            "counts-public positions are public, and with them the speeds"
        )
    origins = [file.name for file in (timetable, path) if file is not None]
    name = re.sub(r"[^a-z0-9]+", "-", (stem or origins[-1].split(".")[0]).lower()).strip("-") or "feed"
    parts = [
        f"# Drafted from {' and '.join(origins)}. Look at every line with a comment before `hatstream init`.",
        f"name = {_text(name)}\n",
        _account(name, feed, town, adds_and_removes),
        _slot(town),
        _cells(feed, town, adds_and_removes, stem or name),
        "[speed]\nupper_kmh = 65      # speeds are clamped to it: a public choice, not the fastest report\n",
        _privacy(feed, town, adds_and_removes),
        _input(feed),
    ]
    files = town.files(stem or name) if town else {}
    return Draft("\n".join(parts), _said(feed, town), _warnings(feed, town, adds_and_removes), files)


def _feed(path: Path, files: list[str]) -> _Feed:
    sample = read_folder(files)
    columns = _columns_of(Path(files[0]), sample)
    arrays = {field: as_array(sample.columns[name]) for field, name in columns.names.items()}
    fits, found = _placed(arrays, columns)
    if not found.us.size:
        raise InputError(f"{path}: no row has a vehicle, a time and a position")
    moving = np.isfinite(found.speed)
    unit, why = speed_unit(columns.names.get("speed", ""), found.where(moving))
    lat_e7, lon_e7 = (np.rint(column * E7).astype(np.int64) for column in (found.lat, found.lon))
    cells = np.unique(cells_at(lat_e7, lon_e7, RESOLUTION))
    bare = columns.instants(arrays["time"], None)
    return _Feed(
        sample=sample,
        columns=columns,
        zones=tuple(zones_at(float(np.median(found.lat)), float(np.median(found.lon)))),
        zone_needed=bool(bare.no_offset.mean() > 0.5),
        unit=unit,
        unit_why=why,
        cells=tuple(cell_text(cell) for cell in cells.tolist()),
        vehicles=len(files) if FILE in sample.columns else int(np.unique(found.vehicle).size),
        usable=float(fits.mean()),
        with_speed=float(moving.mean()),
        max_gap_s=_max_gap_s(found.vehicle, found.us),
    )


def _placed(arrays: Mapping[str, pa.Array], columns: Found) -> tuple[NDArray[np.bool_], Positions]:
    """Which rows have a time and a place, and these rows; a speed that is missing is NaN."""
    time = columns.instants(arrays["time"], "UTC")
    lat, lon = numbers(arrays["lat"]), numbers(arrays["lon"])
    fits = time.valid & lat.valid & lon.valid & (np.abs(lat.values) <= 90) & (np.abs(lon.values) <= 180)
    fits &= (lat.values != 0) | (lon.values != 0)
    ids = [str(value) for value in arrays["vehicle"].to_pylist()]
    vehicle = np.unique(ids, return_inverse=True)[1].astype(np.int64)
    speed = numbers(arrays["speed"]) if "speed" in arrays else numbers(pa.nulls(fits.size, pa.float64()))
    known = np.where(speed.valid, speed.values, np.nan)
    return fits, Positions(vehicle, time.us, lat.values, lon.values, known).where(fits)


def _max_gap_s(vehicle: Int64s, us: Int64s) -> int:
    """A round number of seconds, at least twice what usually lies between two reports of a vehicle."""
    order = np.lexsort((us, vehicle))
    steps_s = (np.diff(us[order]) / 1e6)[np.diff(vehicle[order]) == 0]
    usual = float(np.median(steps_s[steps_s > 0])) if (steps_s > 0).any() else 0.0
    return next((gap for gap in _GAPS_S if gap >= 2 * usual), _GAPS_S[-1])


def _columns_of(path: Path, sample: Sample) -> Found:
    if sample.layout in FIXED:
        names = dict(zip(FIELDS, _FIXED_COLUMNS[sample.layout], strict=True))
        if not any(speed not in (None, "") for speed in sample.columns.get(names["speed"], ())):
            del names["speed"]
        return Found(names, FIXED[sample.layout].units.time_unit, ())
    columns = find_by_file(sample.columns) if is_by_file(sample) else find_columns(sample.columns)
    if columns is None:
        there = ", ".join(_text(name) for name in list(sample.columns)[:20])
        missing = missing_fields(sample.columns)
        told = "; ".join(f"{field}: looked for {LOOKED_FOR[field]}" for field in missing)
        raise InputError(
            f"{path}: a {sample.layout} file, but no column of {' and '.join(missing)} was made out. {told}. "
            f"It has {there or 'none'}: write input.columns by hand (docs/specification.md){advice(missing)}"
        )
    return columns


# --- tables of the specification ----------------------------------------------------------------------------------


def _account(name: str, feed: _Feed | None, town: Town | None, secret: bool) -> str:
    zones = (town.zone,) if town else feed.zones if feed else ()
    others = f", or {' or '.join(zones[1:])}" if len(zones) > 1 else ""
    why = "of the timetable's agency" if town else f"the zone where the sample lies{others}: check"
    limit = limits(_vehicles(feed, town)) if secret else "limit = 300.0\n"
    adjacency = "add-remove" if secret else "counts-public"
    hidden = "that a vehicle drove at all is hidden" if secret else "speeds are hidden, presence is not"
    return (
        f"[account]\nname = {_text(name + '-speeds')}\n"
        'unit = "vehicle-day"\n'
        f"timezone = {_text(zones[0] if zones else 'Etc/UTC')}  # {why}\n"
        f'adjacency = "{adjacency}"  # {hidden}\n'
        f"{limit}"
    )


def _slot(town: Town | None) -> str:
    if town is None:
        return "[slot]\nminutes = 60\n"
    start, end = town.service.hours
    left = f"; {town.service.outside:.1%} of its stops are at other hours" if town.service.outside else ""
    return f'[slot]\nminutes = 60\nservice = "{start:02d}:00-{end:02d}:00"  # of the timetable{left}\n'


def _cells(feed: _Feed | None, town: Town | None, secret: bool, stem: str) -> str:
    head = f"[cells]\nresolution = {RESOLUTION}\n"
    if town:
        file = _text(f"{stem}-{REGION}.geojson")
        return (
            f"{head}region = {file}  # the cells of the timetable's lines and stops: public\n"
            'region_source = "timetable"\n'
        )
    if not secret or feed is None:
        return f'{head}region = "occupied"\n'
    lines = [feed.cells[index : index + _PER_LINE] for index in range(0, len(feed.cells), _PER_LINE)]
    listed = "\n".join("  " + " ".join(f'"{cell}",' for cell in line) for line in lines)
    return (
        f"{head}"
        "# WARNING: these are the cells of the sample. A region is public, and must not be made from reports that are\n"
        "# to be protected: keep it only if the sample is older than the account, else name a GeoJSON of the service\n"
        "# area, or draft with --gtfs.\n"
        'region_source = "sample"  # refused by `hatstream init` unless --region-is-public\n'
        f"region = [\n{listed}\n]\n"
    )


def _privacy(feed: _Feed | None, town: Town | None, secret: bool) -> str:
    if not secret:
        return (
            "[privacy]\nepsilon = 1.0  # of each HAT; `hatstream plan` says what adds up\n"
            'per = "hat"\n\n'
            '[[statistic]]\nname = "mean"\nmechanism = "auto"\n'
        )
    return (
        f"[privacy]\n{total(_vehicles(feed, town))}"
        'per = "period"\nscope = "period"\n\n'
        '[[statistic]]\nname = "mean"\nmechanism = "levels"\n'
        f'target = "reports"  # the mean of all reports; "vehicles": each vehicle counts once\n\n'
        f"{_fleet(feed, town)}\n{PLACES}"
    )


def _vehicles(feed: _Feed | None, town: Town | None) -> int:
    """That drive on a day, roughly: the timetable's, else those of the sample."""
    return town.service.vehicles if town else _roughly(feed.vehicles) if feed else 0


def _fleet(feed: _Feed | None, town: Town | None) -> str:
    if town is None:
        why = "seen in the sample, roughly: replace it by the timetable's number"
        return f"[fleet]\nvehicles = {_vehicles(feed, town)}  # {why}\n{_PROFILE}"
    service = town.service
    touched = ", ".join(f"{name} = {number}" for name, number in asdict(service.profile).items())
    return (
        f"[fleet]\nvehicles = {service.vehicles}  # under way at once on {service.day}, the day with the most trips; "
        f"{service.blocks:,} duties in all: put what you know\n"
        f"profile = {{ {touched} }}  # what one of them touches on that day\n"
    )


_PROFILE = (
    "# profile = { "
    + ", ".join(f"{name} = {number}" for name, number in asdict(Profile()).items())
    + " }  # what a vehicle touches on a day: put the timetable's, which makes better figures\n"
)


def _roughly(number: int) -> int:
    """Rounded up to one digit."""
    power = 10 ** (len(str(number)) - 1)
    return int(-(-number // power) * power)


def _input(feed: _Feed | None) -> str:
    if feed is None:
        return (
            "# No sample was given: say what the feed is like (docs/specification.md), or draft again with --sample.\n"
            '[input]\nlayout = "gtfs-realtime"\n'
        )
    sample, found = feed.sample, feed.columns
    lines = ["[input]", f"layout = {_text(sample.layout)}"]
    derived = f"{feed.derived}  # public limits: no position that follows later, nothing that would be faster"
    if sample.records is not None:
        lines.append(f"records = {_text(sample.records)}  # the array of which each object is a report")
    if sample.layout in FIXED:
        return "\n".join([*lines, *([] if "speed" in found.names else [derived]), ""])
    names = ", ".join(f"{field} = {_text(found.names[field])}" for field in FIELDS if field in found.names)
    guess = f"  # {', '.join(found.guessed)} by values alone: check" if found.guessed else ""
    guess += "  # each file is of one vehicle and named by it: check" if found.names["vehicle"] == FILE else ""
    lines += [f"columns = {{ {names} }}{guess}", _times(found)]
    if "speed" in found.names:
        lines.append(f"speed_unit = {_text(feed.unit)}  # {feed.unit_why}")
    else:
        lines.append(derived)
    if feed.zone_needed and found.time_unit == "iso":
        zone = feed.zones[0] if feed.zones else "Etc/UTC"
        lines.append(f"time_zone = {_text(zone)}  # times have no offset: check whose clock they show")
    if sample.delimiter is not None:
        lines.append(f"delimiter = {_text(sample.delimiter)}")
    if sample.decimal is not None:
        lines.append(f"decimal = {_text(sample.decimal)}")
    if sample.header is not None:
        lines.append("header = false")
    return "\n".join([*lines, ""])


def _times(found: Found) -> str:
    if not found.time_formats:
        return f"time_unit = {_text(found.time_unit)}"
    form, *others = found.time_formats
    also = f"  # or {_text(others[0])}: all of the sample fits both" if others else ""
    return f"time_format = {_text(form)}{also}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- words --------------------------------------------------------------------------------------------------------


def _said(feed: _Feed | None, town: Town | None) -> tuple[str, ...]:
    return (*(_said_of_town(town) if town else ()), *(_said_of_feed(feed) if feed else ()))


def _said_of_town(town: Town) -> tuple[str, ...]:
    service = town.service
    days = "every day" if len(service.weekdays) == 7 else ", ".join(service.weekdays)
    hours = "{:02d}:00 to {:02d}:00".format(*service.hours)
    return (
        f"timetable {town.origin}: {service.first} to {service.last}, {days}, {hours} {town.zone}",
        f"{service.vehicles:,} vehicles under way at once, {service.blocks:,} duties on {service.day}",
        f"{len(town.cells):,} cells of resolution {town.resolution} with lines or stops",
    )


def _said_of_feed(feed: _Feed) -> tuple[str, ...]:
    unit: TimeUnit = feed.columns.time_unit
    names = ", ".join(f"{field} = {name}" for field, name in feed.columns.names.items())
    written = feed.columns.time_formats[0] if feed.columns.time_formats else unit
    clock = f"as {written}{', without an offset' if feed.zone_needed else ''}"
    rows = len(next(iter(feed.sample.columns.values())))
    lines = [
        f"layout {feed.sample.layout}; {rows:,} rows looked at, {feed.usable:.0%} with vehicle, time and position",
        f"columns: {names}",
        f"times {clock}; time zone {' or '.join(feed.zones) or 'unknown'}",
        f"{len(feed.cells):,} cells of resolution {RESOLUTION}",
    ]
    if "speed" in feed.columns.names and feed.sample.layout not in FIXED:
        lines.append(f"speeds in {feed.unit}, {feed.unit_why}")
    if "speed" not in feed.columns.names:
        lines.append("no column of speeds: they will be derived from consecutive positions (input.derived_speed)")
    return tuple(lines)


def _warnings(feed: _Feed | None, town: Town | None, secret: bool) -> tuple[str, ...]:
    if feed is None:
        return ("No sample was given: [input] is a guess.",)
    found = [] if town is None else _disagreements(feed, town)
    if secret and town is None:
        found.append(
            "The region and the fleet were made from the sample. Under add-remove they must be public facts, not made "
            "from reports that are to be protected: replace them, unless the sample is older than the account."
        )
    if feed.with_speed < 0.9 and "speed" in feed.columns.names:
        how = f"; or derive all speeds from positions: {feed.derived}" if secret else ""
        found.append(f"Only {feed.with_speed:.0%} of the rows carry a speed; the others are refused{how}.")
    if feed.columns.time_formats[1:]:
        both = " or ".join(feed.columns.time_formats)
        found.append(f"Day and month cannot be told apart in this sample: times may be {both}. Give a later sample.")
    if feed.columns.guessed:
        found.append(f"Found by values alone, not by name: {', '.join(feed.columns.guessed)}.")
    if feed.columns.names["vehicle"] == FILE:
        found.append(BEWARE)
    if feed.columns.is_doubtful:
        found.append(
            f"Column {feed.columns.names['vehicle']} looks like no vehicle: its rows are far from each other, or "
            "one a day. What is protected is what one id does: name the column that stays the same for a vehicle."
        )
    others = [name for name in feed.sample.columns if name not in feed.columns.names.values()]
    if "speed" not in feed.columns.names and others:
        found.append(f"If one of these columns holds speeds, name it in input.columns: {', '.join(others[:20])}.")
    return tuple(found)


def _disagreements(feed: _Feed, town: Town) -> list[str]:
    """Where the sample is not as the timetable has it."""
    found = []
    outside = len(set(feed.cells) - town.cells)
    if outside:
        found.append(
            f"{outside:,} of the sample's {len(feed.cells):,} cells are not in the timetable's region: reports there "
            "are refused. Depots and detours are no loss; a line that is missing is."
        )
    if feed.zones and not any(same_clock(town.zone, zone) for zone in feed.zones):
        found.append(f"The sample lies in {' or '.join(feed.zones)}, and the timetable says {town.zone}.")
    return found
