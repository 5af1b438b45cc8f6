"""A sample of a feed, and what was made out of it: layout, columns, units, zone and cells."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import InputError, MergedIds, input_paths, own_layouts, vehicle_ids
from hatstream_city.draft.by_file import FILE, advice, find_by_file, is_by_file, read_folder
from hatstream_city.draft.candidates import codes_of
from hatstream_city.draft.columns import LOOKED_FOR, DraftedColumns, as_array, find_columns, missing_fields
from hatstream_city.draft.sample import ROWS, Sample
from hatstream_city.draft.streets import find_heading
from hatstream_city.draft.units import (
    FIELDS,
    KMH,
    DraftPositions,
    are_positions,
    cells_in,
    merged,
    speed_ratio,
    speed_unit,
    units,
    zones_at,
)
from hatstream_city.draft.whole import counted, usable_share
from hatstream_city.timetable.positions import Floats, Int64s

RESOLUTION = 7
_UNREAD = (
    "{:.0%} of its first rows would be read by the columns that were made out, with layout {!r}: it may have keys "
    "with dots, vehicles as keys, or text that is not UTF-8; bring it into rows of the same keys, in UTF-8"
)
_GAPS_S = (60, 120, 300, 600, 900, 1_800, 3_600)


@dataclass(frozen=True)
class DraftedFeed:
    """What was made out of a sample. zone_needed: times have no offset. heading: the column, where there is one.

    is_cut: vehicles and cells are not those of all rows. too_fast: how many times as fast as their positions speeds are
    in that unit; None where that cannot be told. ids: of vehicles, by their spellings.
    """

    sample: Sample
    columns: DraftedColumns
    zones: tuple[str, ...]
    zone_needed: bool
    unit: str
    unit_why: str
    cells: tuple[str, ...]
    vehicles: int
    ids: MergedIds
    usable: float
    with_speed: float
    max_gap_s: int
    heading: str | None = None
    is_cut: bool = False
    too_fast: float | None = None

    @property
    def derived(self) -> str:
        return f"derived_speed = {{ max_gap_s = {self.max_gap_s}, max_kmh = 120 }}"


def feed_of(path: Path) -> DraftedFeed:
    """Reads what a feed's draft needs. path: of a file, or of a folder of them. Raises InputError."""
    files = input_paths(str(path)) if path.is_dir() else [str(path)]
    sample = read_folder(files)
    if not any(map(len, sample.columns.values())):
        raise InputError(f"{files[0]}: it holds no row")
    columns = _columns_of(Path(files[0]), sample)
    arrays = {field: as_array(sample.columns[name]) for field, name in columns.names.items()}
    fits, placed = _placed(arrays, columns)
    if not placed.us.size:
        raise InputError(f"{path}: no row has a vehicle, a time and a position")
    _check_usable(files[0], sample, columns, float(fits.mean()))
    moving = placed.where(np.isfinite(placed.speed))
    unit, why, too_fast = _unit_of(sample, columns.names.get("speed", ""), moving)
    cells = cells_in(placed.lat, placed.lon, RESOLUTION)
    ids = merged(vehicle_ids(arrays["vehicle"].filter(pa.array(fits))).ids)
    is_cut = fits.size >= ROWS
    if is_cut and FILE not in sample.columns and (whole := counted(files[0], sample, columns, RESOLUTION)):
        ids, cells, is_cut = whole
    return DraftedFeed(
        sample=sample,
        columns=columns,
        zones=tuple(zones_at(_middle(placed.lat), _middle(placed.lon))),
        zone_needed=bool(columns.instants(arrays["time"], None).no_offset.mean() > 0.5),
        unit=unit,
        unit_why=why,
        cells=tuple(f"{cell:x}" for cell in cells.tolist()),
        vehicles=len(files) if FILE in sample.columns else ids.ids,
        ids=ids,
        usable=float(fits.mean()),
        with_speed=moving.us.size / placed.us.size,
        max_gap_s=_max_gap_s(placed.vehicle, placed.us),
        heading=_heading_of(sample),
        is_cut=is_cut,
        too_fast=too_fast,
    )


def _middle(degrees: Floats) -> float:
    """Picks the median that is one of them: between both sides of the antimeridian lies the other side of the earth."""
    return float(np.quantile(degrees, 0.5, method="nearest"))


def _unit_of(sample: Sample, name: str, moving: DraftPositions) -> tuple[str, str, float | None]:
    """Finds the unit of speeds and why it is that; and `DraftedFeed.too_fast`."""
    ratio = speed_ratio(moving)
    unit, why = speed_unit(name, moving, ratio)
    own = own_layouts().get(sample.layout)
    per_unit = KMH[unit] if own is None else float(own.layout.units.value_per_unit)
    return unit, why, None if ratio is None else ratio * per_unit / 3.6


def _check_usable(file: str, sample: Sample, columns: DraftedColumns, expected: float) -> None:
    """Raises InputError where a release would read far fewer rows than the sample has."""
    usable = usable_share(file, sample, columns)
    if usable < expected / 2:
        raise InputError(f"{file}: {_UNREAD.format(usable, sample.layout)}")


def _placed(arrays: Mapping[str, pa.Array], columns: DraftedColumns) -> tuple[NDArray[np.bool_], DraftPositions]:
    """Finds the rows with a time and a place; of these the positions, in which a speed that is missing is NaN."""
    time = columns.instants(arrays["time"], "UTC")
    read = units()
    lat, lon = read.numbers(arrays["lat"]), read.longitudes(arrays["lon"])
    fits = time.valid & are_positions(lat, lon)
    vehicle = codes_of(arrays["vehicle"])
    speed = read.numbers(arrays.get("speed", pa.nulls(fits.size, pa.float64())))
    speeds = np.where(speed.valid, speed.values, np.nan)
    return fits, DraftPositions(vehicle, time.us, lat.values, lon.values, speeds).where(fits)


def _max_gap_s(vehicle: Int64s, us: Int64s) -> int:
    """Proposes a round number of seconds, at least twice what usually lies between two reports of a vehicle."""
    order = np.lexsort((us, vehicle))
    steps_s = (np.diff(us[order]) / 1e6)[np.diff(vehicle[order]) == 0]
    usual = float(np.median(steps_s[steps_s > 0])) if (steps_s > 0).any() else 0.0
    return next((gap for gap in _GAPS_S if gap >= 2 * usual), _GAPS_S[-1])


def _heading_of(sample: Sample) -> str | None:
    own = own_layouts().get(sample.layout)
    return None if own is not None and own.headed is None else find_heading(sample.columns)


def _columns_of(path: Path, sample: Sample) -> DraftedColumns:
    if own := own_layouts().get(sample.layout):
        names = dict(zip(FIELDS, own.columns, strict=True))
        if not any(speed not in (None, "") for speed in sample.columns.get(names["speed"], ())):
            del names["speed"]
        return DraftedColumns(names, own.layout.units.time_unit, ())
    columns = find_by_file(sample.columns) if is_by_file(sample) else find_columns(sample.columns)
    if columns is None:
        missing = missing_fields(sample.columns)
        told = "; ".join(f"{field}: looked for {LOOKED_FOR[field]}" for field in missing)
        raise InputError(
            f"{path}: read as {sample.layout}, no column of {' and '.join(missing)} was made out. {told}. "
            f"{_unreadable(sample)}"
            f"It has {_names(sample)}: write input.columns by hand (docs/specification.md){advice(missing)}"
        )
    return columns


def _names(sample: Sample) -> str:
    """Names the columns. Not of JSON with more keys than rows: they may be vehicles."""
    names, rows = list(sample.columns), max(map(len, sample.columns.values()))
    if sample.layout in ("json", "jsonl") and len(names) > rows:
        return f"{len(names)} keys in {rows} rows"
    return ", ".join(map(as_text, names[:20]))


def _unreadable(sample: Sample) -> str:
    """Says which columns of a table no release can read, "" where there are none."""
    if sample.repeated:
        return f"Of one name for several columns none is read: {', '.join(map(as_text, sample.repeated))}. "
    columns = sample.columns.items()
    nested = [as_text(name) for name, values in columns if any(isinstance(value, dict | list) for value in values)]
    said = f"Nested columns are not read: {', '.join(nested)}; write what they hold as columns of their own. "
    return said if nested else ""


def as_text(value: str) -> str:
    """Writes a text as TOML does."""
    return json.dumps(value, ensure_ascii=False)
