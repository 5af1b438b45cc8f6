"""Reads a feed's sample and derives its layout.

Fields are vehicle, time, lat, lon and speed; OPEN, "?", stands for a field without a column. `sample.own`: the layout
with fixed columns that the sample has, or None; its `choices` are by field the columns that may hold it, the default
first. `placed`: the rows with vehicle, time and position. A step is from one position of a vehicle to its next.
"""

import glob
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h3
import numpy as np
import pyarrow as pa

from hatstream.api import InputError, input_paths, vehicle_ids
from hatstream_city.draft import motion, notation
from hatstream_city.draft.columns import DESCRIPTION_BY_FIELD, DraftedColumns, drafted_columns, find_columns
from hatstream_city.draft.files import FILE, RESOLUTION, Counts, counted, read_folder
from hatstream_city.draft.sample import ROWS, Sample, is_timetable
from hatstream_city.timetable.positions import Floats, cells_at

_UNREAD = (
    "{:.0%} of its first rows would be read by the columns that were made out, with layout {!r}: it may have keys "
    "with dots, vehicles as keys, or text that is not UTF-8; bring it into rows of the same keys, in UTF-8"
)
_UNFIT = (
    "{:.0%} of its first rows have a vehicle, a time of this century and a position on earth, as layout {!r} reads them"
)
_NO_TIME = (
    '{:.0%} of the reports have no {}, and the feed has one for all: --header-time takes it (input.time = "{}"). A '
    "vehicle that stopped reporting then looks fresh as long as the feed names it"
)
_LEAST_USABLE = 0.5  # share of reports that must be usable, or have a field
UPPER_KMH = 65  # speed.upper_kmh of a draft
MOST_TOO_FAST = 1.5
"""Ratio of speeds to distances from which on a unit is wrong; below are bends of roads, and speeds of an instant."""
_USUAL_GAPS_S = (60, 120, 300, 600, 900, 1_800, 3_600)
_HEADING_NAMES = re.compile(r"heading|hdg|bearing|course|cog|azimuth|track|direction|richtung|rumbo|cap")
LEAST_SHARE, LEAST_DEGREES = 0.5, 10  # of rows with a heading, and of the largest: a direction_id of 0 or 1 is none


@dataclass(frozen=True)
class DraftedFeed:
    """Findings about a feed's sample.

    zone_needed: times have no offset. with_speed: share of rows. rows_without_time: without one of this century.
    too_fast: ratio of speeds to those of consecutive positions; None if unknown. no_value: numbers that stand for
    unknown speeds. strange: sentences about other strange speeds.
    """

    sample: Sample
    columns: DraftedColumns
    counts: Counts  # of the sample's rows with positions if a column is open
    zones: tuple[str, ...]
    zone_needed: bool
    unit: str
    unit_why: str
    with_speed: float
    rows_without_time: int
    max_gap_s: int
    heading: str | None
    too_fast: float | None
    no_value: tuple[float, ...]
    strange: Sequence[str]

    @property
    def is_open(self) -> bool:
        """Whether a person has to name a column."""
        return bool(self.columns.missing) or (not self.sample.own and "vehicle" in self.columns.guessed)

    @property
    def missing_speeds(self) -> str:
        """Explains missing speeds: columns of that name, and other missing fields."""
        columns, missing = self.sample.columns, self.columns.missing
        named = [name for name in notation.by_name("speed", list(columns)) if _share_of(columns[name])]
        unread = f"Values of {', '.join(map(as_text, named))} are no speeds: write numbers from 0 on, without a unit. "
        others = f"Also {about_missing(self.sample, missing)}. " if missing else about_repeated(self.sample)
        return f"no column of speeds. {unread if named else ''}{others}"

    @property
    def derived(self) -> str:
        """TOML line of the derived speeds' limits."""
        return f"derived_speed = {{ max_gap_s = {self.max_gap_s}, max_kmh = 120 }}"


def feed_of(path: Path, *, header_time: bool = False, at_sea: bool = False) -> DraftedFeed:
    """Reads a sample of a feed's file or folder. Raises InputError.

    header_time: the feed's time where reports have none. at_sea: positions at sea are valid.
    """
    if is_timetable(path):
        raise InputError(f"{path}: this is a timetable, and no feed of positions: give it as --gtfs")
    files = input_paths(str(path) if path.is_dir() else glob.escape(str(path)), inside=True)
    sample = read_folder(files)
    if not any(map(len, sample.columns.values())):
        others = ": it is GTFS-realtime, but not of vehicle positions: trip updates and alerts are other feeds"
        raise InputError(f"{path}: it holds no row{others if sample.layout == 'gtfs-realtime' else ''}")
    columns = _columns_of(path, sample, header_time=header_time)
    row_count = max(map(len, sample.columns.values()))
    if columns.comes_once and len(files) > 1 and row_count < ROWS:  # ids that no file repeats are of rows
        options = {name: motion.OPEN if name == "vehicle" else value for name, value in columns.options.items()}
        names = {**columns.names, "vehicle": motion.OPEN}
        columns = replace(columns, names=names, options=options, comes_once=False)
    array_by_column = motion.arrays_of(sample.columns)
    arrays = {field: motion.array_of(array_by_column, column) for field, column in columns.names.items()}
    # Without a column of times positions are enough to see where the feed is.
    is_timed, units = columns.names["time"] != motion.OPEN, columns.units("UTC")
    track = motion.track_of(units, arrays["time"], arrays["lat"], arrays["lon"], timed=is_timed)
    placed = track.positions(arrays["vehicle"], arrays.get("speed"))  # speeds in the feed's unit, which is found later
    if not placed.us.size and not columns.missing:  # missing: fields without a column
        raise InputError(f"{path}: no row has a vehicle, a time and a position")
    if not at_sea and isinstance(columns.names["lat"], str):  # with a column of N and S no sign can be missing
        _check_on_land(path, placed)
    zones = tuple(notation.zones_at(_middle(placed.lat), _middle(placed.lon))) if placed.us.size else ()
    columns = _with_zone(columns, zones, arrays["time"], is_own=sample.own is not None)  # sets a missing time zone
    if columns.missing:  # no release reads it
        ids = vehicle_ids(arrays["vehicle"]).ids
        cells = tuple(map(h3.int_to_str, np.unique(cells_at(placed.lat, placed.lon, RESOLUTION)).tolist()))
        is_cut = track.us.size >= ROWS  # a longer sample was not read in full
        counts = Counts(ids=notation.merged(ids), vehicles=len(ids) or 1, cells=cells, is_cut=is_cut)
    else:
        counts = counted(files, sample, columns, zone=zones[0] if zones and not columns.says_utc else "UTC")
        if counts.usable < _LEAST_USABLE:
            rule = (_UNFIT if sample.own else _UNREAD).format(counts.usable, sample.layout)
            raise InputError(f"{files[0]}: {rule}. {counts.about_malformed}".rstrip(". "))
    no_value = unknown_speeds(placed.with_speed().speed)
    with_speed = placed.where(np.isfinite(placed.speed) & ~np.isin(placed.speed, no_value))
    columns, unit, unit_why, too_fast = _unit_of(sample, columns, with_speed)
    return DraftedFeed(
        sample=sample,
        columns=columns,
        counts=counts,
        zones=zones,
        zone_needed=bool(columns.units(zone=None).instants(arrays["time"]).no_offset.any()),
        unit=unit,
        unit_why=unit_why,
        with_speed=with_speed.us.size / placed.us.size if placed.us.size else 1.0,
        rows_without_time=int((~notation.in_century(units.instants(arrays["time"]))).sum()) if is_timed else 0,
        max_gap_s=_max_gap_s(placed),
        heading=None if sample.own and sample.own.heading is None else find_heading(sample.columns),
        too_fast=too_fast,
        no_value=no_value,
        strange=motion.strange_speeds(with_speed, UPPER_KMH / notation.KMH[unit]),
    )


def _check_on_land(path: Path, placed: motion.DraftPositions) -> None:
    """Raises InputError if most positions lie at sea or in Antarctica."""
    rows = np.linspace(0, placed.us.size - 1, min(15, placed.us.size)).astype(np.int64).tolist()  # looking up is slow
    if sum(notation.is_nowhere(placed.lat[row], placed.lon[row]) for row in rows) > len(rows) / 2:
        wrong_if_swapped = sum(notation.is_nowhere(placed.lon[row], placed.lat[row]) for row in rows)
        is_swapped = wrong_if_swapped < len(rows) / 2
        hint = "latitudes and longitudes may be each other's" if is_swapped else "a sign may be missing"
        raise InputError(
            f"{path}: most positions lie at sea or in Antarctica, around {_middle(placed.lat):.1f} north and "
            f"{_middle(placed.lon):.1f} east: {hint}; write input.columns by hand, a column of N and S, or of E and W, "
            'behind the degrees: lat = ["lat", "ns"]; of ferries say --at-sea'
        )


def _with_zone(columns: DraftedColumns, zones: Sequence[str], times: pa.Array, *, is_own: bool) -> DraftedColumns:
    """Orders formats of dates by place, and sets a missing time zone.

    zones: of the place, likeliest first. is_own: the layout has fixed columns.
    """
    formats = columns.time_formats
    if zones and zones[0] in notation.MONTH_FIRST_ZONES:
        formats = tuple(sorted(formats, key=lambda text: not re.match("%m|%b", text)))
    options = dict(columns.options)
    if is_own and columns.units(zone=None).instants(times).no_offset.mean() > 0.5:  # else the template sets the zone
        options["time_zone"] = zones[0] if zones and not columns.says_utc else "Etc/UTC"
    return replace(columns, time_formats=formats, options=options)


def _middle(degrees: Floats) -> float:
    """Picks the median among the values; a mean across the antimeridian would be wrong."""
    return float(np.quantile(degrees, 0.5, method="nearest"))


def _unit_of(
    sample: Sample, columns: DraftedColumns, rows: motion.DraftPositions
) -> tuple[DraftedColumns, str, str, float | None]:
    """Finds the unit of speeds; returns columns, unit, reason, and a ratio.

    The ratio is of speeds in this unit to those of consecutive positions; None if unknown.
    """
    # ratio: way by speeds, as if in m/s, over way by positions.
    ratio, own = motion.speed_ratio(rows), sample.own  # own: None unless its columns are fixed
    unit, why = motion.speed_unit(str(columns.names.get("speed", "")), rows, ratio)
    if own is not None:  # a layout's unit is believed unless distances contradict it
        unit_kmh = float(own.layout.units.value_per_unit)
        if ratio is None or 1 / MOST_TOO_FAST < ratio * unit_kmh / notation.KMH["m/s"] < MOST_TOO_FAST:
            unit = next(name for name, kmh in notation.KMH.items() if abs(kmh - unit_kmh) < 1e-9)
            why = "as the layout has it"
        else:  # the specification overrides the layout's unit
            columns = replace(columns, options={**columns.options, "speed_unit": unit})
    return columns, unit, why, None if ratio is None else ratio * notation.KMH[unit] / notation.KMH["m/s"]


def unknown_speeds(speed: Floats) -> tuple[float, ...]:
    """Finds codes of unknown speeds: repeated negative numbers, or one far above the others.

    A high code is above three times the next lower speed; a format's largest number, such as 255, above 1.2 times.

    >>> unknown_speeds(np.array([*range(60), *[255] * 9, *[-1] * 9], float))
    (-1.0, 255.0)
    """
    values, times = np.unique(speed, return_counts=True)
    is_repeated = times >= max(3, 0.002 * speed.size)
    negatives = values[is_repeated & (values < 0)].tolist()[:4]  # more, and more than three high ones, are no codes
    high, speeds = [], speed[speed >= 0]
    for value in values[is_repeated & (values > 0)][::-1][:3].tolist():
        speeds = speeds[speeds != value]
        next_lower = float(speeds.max(initial=0))
        # A power of 2 less 1, such as 255, or only nines: a format's largest number.
        is_mark = float(value).is_integer() and (int(value + 1) & int(value) == 0 or set(str(int(value))) == {"9"})
        is_code = value > 3 * next_lower or (is_mark and value > max(90, 1.2 * next_lower))
        if not next_lower or not is_code:  # beside zeros alone, no speed tells what is far above
            break
        high.append(value)
    return tuple(sorted([*negatives, *high]))


def _max_gap_s(rows: motion.DraftPositions) -> int:
    """Proposes derived_speed's max_gap_s: the first of _USUAL_GAPS_S from twice the median step on."""
    steps_s = motion.steps_of(rows).step_s
    median_s = float(np.median(steps_s[steps_s > 0])) if (steps_s > 0).any() else 0.0
    return next((gap for gap in _USUAL_GAPS_S if gap >= 2 * median_s), _USUAL_GAPS_S[-1])  # longer than most steps


def find_heading(columns: Mapping[str, Sequence[Any]]) -> str | None:
    """Finds the column of headings in degrees, or None."""
    for name, values in columns.items():
        array = motion.as_array(values) if _HEADING_NAMES.fullmatch(notation.letters_of(name)) else None
        degrees = None if array is None or not len(array) else notation.units().numbers(array)
        if degrees is None or not degrees.valid.any() or not LEAST_DEGREES < degrees.values.max() <= 360:
            continue  # numbers up to LEAST_DEGREES alone are codes of a direction, such as 0 and 1
        if (degrees.valid & (degrees.values > 0)).mean() >= LEAST_SHARE:  # many feeds send 0 for none
            return name
    return None


def _columns_of(path: Path, sample: Sample, *, header_time: bool) -> DraftedColumns:
    """Finds the feed's columns, by names or its layout's rules, with deviations. Raises InputError.

    header_time: reports without a time take that of the message's header, the feed's time.
    """
    own = sample.own
    if own is None:
        drafted = find_columns(sample.columns, vehicle=FILE if FILE in sample.columns else None)
        if len(drafted.missing) > 2:  # of the four fields: a table that lacks more of them is no feed of positions
            raise InputError(f"{path}: read as {sample.layout}, {about_missing(sample, drafted.missing)}")
        return drafted
    names: dict[str, motion.Column] = dict(zip(notation.FIELDS, own.columns, strict=True))
    columns, options = sample.columns, dict[str, Any]()
    if not _share_of(columns.get(str(names["speed"]), ())):  # 0: no report has a speed
        del names["speed"]
    has_choices = own.form not in ("csv", "json")  # but XML or protocol buffers
    if has_choices:  # several fields may name the vehicle: the first that most reports have
        share_of = {choice: _share_of(columns[choice]) for choice in own.choices["vehicle"]}
        names["vehicle"] = next((choice for choice, share in share_of.items() if share >= _LEAST_USABLE), motion.OPEN)
        if names["vehicle"] == motion.OPEN:
            shares = ", ".join(f"{share:.0%} have {choice}" for choice, share in share_of.items())
            raise InputError(f"{path}: most reports name no vehicle: {shares}")
        times, (of_report, of_feed) = [time or None for time in columns["time"]], own.choices["time"][:2]
        with_time = _share_of(times)  # a time of 0 is what protocol buffers have where none was set
        if with_time < _LEAST_USABLE and of_feed in columns:
            if not header_time:
                raise InputError(f"{path}: {_NO_TIME.format(1 - with_time, of_report, of_feed)}")
            names["time"] = options["time"] = of_feed
    arrays = motion.arrays_of(columns)
    times = motion.array_of(arrays, names["time"])
    unit = notation.time_unit_of(times, (own.layout.units.time_unit, *notation.TIME_UNITS), _LEAST_USABLE)
    if unit is None:
        raise InputError(f"{path}: {_UNFIT.format(0.0, sample.layout)}")  # a share of 0: no time is read without a unit
    drafted = drafted_columns(arrays, names, unit)
    if has_choices and drafted.names["vehicle"] != own.choices["vehicle"][0]:
        options = {"vehicle": drafted.names["vehicle"]} | options
    if unit != own.layout.units.time_unit:
        options["time_unit"] = unit
    return replace(drafted, options=options)


def _share_of(values: Sequence[Any]) -> float:
    """Computes the share of values that are there."""
    return sum(value not in (None, "") for value in values) / max(len(values), 1)


def about_missing(sample: Sample, missing: Sequence[str]) -> str:
    """Explains missing fields: the values looked for, and the columns that there are."""
    sentences = "; ".join(f"{field}: looked for {DESCRIPTION_BY_FIELD[field]}" for field in missing)
    by_file = f'; where each file is of one vehicle and named by it, vehicle = "{FILE}", or give the folder as --sample'
    names, rows, objects = list(sample.columns), max(map(len, sample.columns.values())), dict[str, set[str]]()
    for name in names:
        objects.setdefault(name.rpartition(".")[0], set()).add(name.rpartition(".")[2])  # keys by object
    objects_by_keys = Counter(frozenset(keys) for keys in objects.values() if len(keys) > 1)
    shown = ", ".join(map(as_text, names[:20]))
    # Keys of JSON may be ids, which are not shown: they make a wide row, or alike objects under many keys.
    if sample.layout in ("json", "jsonl") and (len(names) > rows or max(objects_by_keys.values(), default=0) > 1):
        shown = f"{len(names)} keys in {rows} rows"
    return (
        f"no column of {' and '.join(missing)} was made out. {sentences}. {about_repeated(sample)}It has {shown}: "
        f"write input.columns by hand (docs/specification.md){by_file if list(missing) == ['vehicle'] else ''}"
    )


def about_repeated(sample: Sample) -> str:
    """Names columns whose name is repeated, in a sentence; empty for none."""
    names = ", ".join(map(as_text, sample.repeated))
    return f"Of one name for several columns none is read: {names}. " if names else ""


def as_text(value: Any) -> str:
    """Writes a text, or several, as TOML does."""
    return json.dumps(value, ensure_ascii=False)
