"""Strict checks of raw columns: observations, refusals, cells; shares of implausible speeds.

Field SPEED holds a row's value, of any kind; a step is one of its grid. Names ending in _e7 are in 1e-7 degrees. A code
is the index of a row's entry among the distinct ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpops.types import Grid, Int64s
from transforms.layouts.base import HEADING, KEY, Units
from transforms.layouts.columns import Bools, Floats
from transforms.observe.derived_speed import HeadingLimits, SpeedLimits
from transforms.observe.vehicle_ids import VehicleForm, join_ids, vehicle_hashes, vehicle_ids
from transforms.order import factorize
from transforms.places.ground import BETWEEN, NOWHERE, Ground, Keys
from transforms.places.hexagons import cells_at
from transforms.records import BY_KEY, NO_HEADING, Observations
from transforms.time.calendar import Locator
from transforms.value import SPEED

# In the order of the checks: the first that fails is the row's reason.
REASONS = (
    *("missing-vehicle", "bad-vehicle", "missing-time", "no-offset", "clock-change", "bad-time", "implausible-time"),
    *("outside-range", "outside-service", "missing-position", "bad-position", "latitude-range", "longitude-range"),
    *("zero-position", "outside-bbox", f"missing-{SPEED}", f"bad-{SPEED}", "missing-value", "bad-value"),
    *("missing-key", "unknown-key"),
)
OUTSIDE_REGION = "outside-region"  # reason of `locate`
E7 = 10_000_000  # steps of a degree, in which positions are counted

FROM_US = 946_684_800_000_000  # 2000-01-01 UTC
TO_US = 4_102_444_800_000_000  # 2100-01-01 UTC


@dataclass(frozen=True)
class Rules:
    """Rules of acceptance of input rows.

    bbox: west, south, east, north in degrees, inclusive; west above east crosses the antimeridian. derived, turning:
    limits of speeds and headings from positions, which replace the rows' own. lower: origin of the grid. keys: public
    keys, of which rows name one in place of a position. no_value: numbers that stand for unknown, in the input's unit.
    """

    grid: Grid
    units: Units
    bbox: tuple[float, float, float, float] | None
    calendar: Locator
    vehicle_key: bytes = field(repr=False)
    derived: SpeedLimits | None = None
    turning: HeadingLimits | None = None
    vehicle_form: VehicleForm = "text"
    lower: Fraction = Fraction(0)
    keys: Keys | None = None
    no_value: tuple[float, ...] = ()
    is_speed: bool = True

    @property
    def need_whole_periods(self) -> bool:
        """Whether values are derived from consecutive rows."""
        return self.derived is not None or self.turning is not None


def parse(table: pa.RecordBatch, rules: Rules) -> tuple[Observations, dict[str, int]]:
    """Converts accepted rows to observations; counts refusals by reason.

    Acceptance depends neither on a finite value, except those publicly declared to be none, nor on a heading.
    """
    vehicles = vehicle_ids(table.column("vehicle"), rules.vehicle_form)
    time = rules.units.instants(table.column("time"))
    zeros = pa.array(np.zeros(table.num_rows, np.int64))
    value = rules.units.values(zeros if rules.derived is not None else table.column(SPEED))  # speeds are derived later
    slot = rules.calendar.locate(time.us)

    failure = np.zeros(table.num_rows, np.uint8)  # the reason's index + 1, else 0

    def refuse(reason: str, failed: Bools) -> None:
        if failed.any():
            failure[failed & (failure == 0)] = REASONS.index(reason) + 1

    refuse("missing-vehicle", vehicles.missing)
    refuse("bad-vehicle", vehicles.bad)
    refuse("missing-time", time.missing)
    refuse("no-offset", time.no_offset)
    refuse("clock-change", time.clock_change)
    refuse("bad-time", ~time.valid)
    refuse("implausible-time", (time.us < FROM_US) | (time.us >= TO_US))
    refuse("outside-range", ~slot.in_range)
    refuse("outside-service", ~slot.in_service)
    if rules.keys is None:
        lat, lon = rules.units.numbers(table.column("lat")), rules.units.longitudes(table.column("lon"))
        refuse("missing-position", lat.missing | lon.missing)
        refuse("bad-position", ~(lat.valid & lon.valid))
        refuse("latitude-range", np.abs(lat.values) > 90)
        refuse("longitude-range", np.abs(lon.values) > 180)
        lat_e7, lon_e7 = _snap(lat.values, 90), _snap(lon.values, 180)  # clipped to these bounds
        refuse("zero-position", (lat_e7 == 0) & (lon_e7 == 0))
        if rules.bbox is not None:
            refuse("outside-bbox", ~in_box(lat_e7, lon_e7, rules.bbox))
    else:
        lat_e7 = np.full(table.num_rows, BY_KEY)  # which says that the longitude is a key's number
        lon_e7 = _check_keys(refuse, table, rules.keys)
    if rules.no_value:
        with np.errstate(over="ignore"):  # a value that float32 cannot hold is none of `no_value`
            is_no_value = np.isin(value.values.astype(np.float32), np.array(rules.no_value, np.float32))
        value = value._replace(missing=value.missing | (value.valid & is_no_value))
    name = SPEED if rules.is_speed else "value"
    refuse(f"missing-{name}", value.missing)
    refuse(f"bad-{name}", ~value.valid)

    steps, heading = _steps(value.values, rules), _headings(table, rules.units)
    no_hash = time.us  # any column in the place of `vehicle`: hashes are made last, of accepted rows alone
    observations = Observations(no_hash, time.us, slot.slot_start_us, lat_e7, lon_e7, steps, heading)
    period, vehicle, refused = slot.period, vehicles.code, dict[str, int]()
    if failure.any():
        rows, counts = np.flatnonzero(failure == 0), np.bincount(failure, minlength=len(REASONS) + 1)[1:].tolist()
        observations, period, vehicle = observations.take(rows), period[rows], vehicle[rows]
        refused = {reason: count for reason, count in zip(REASONS, counts, strict=True) if count}
    hashes = _hashes(rules.vehicle_key, slot.periods, period, vehicle, vehicles.ids)
    return observations._replace(vehicle=hashes), refused


def _check_keys(refuse: Callable[[str, Bools], None], table: pa.RecordBatch, keys: Keys) -> Int64s:
    """Refuses rows without a public key; returns keys' numbers.

    refuse: marks rows as refused for a reason; each row's first one counts.
    """
    # A public key may be a word such as NA, which in the place of an id says that there is none.
    columns = [vehicle_ids(table[name], null_words=()) for name in table.schema.names if name.startswith(KEY)]
    code, ids, missing, bad = join_ids(columns, BETWEEN.encode())  # BETWEEN: in a pair's name
    numbers = np.array([*(keys.number.get(name, -1) for name in ids), -1], np.int64)  # the last: of rows without one
    number: Int64s = numbers[np.where(missing | bad, len(ids), code)]
    refuse("missing-key", missing)
    refuse("unknown-key", number < 0)
    return np.maximum(number, 0)  # 0: refused rows'


def in_box(lat_e7: Int64s, lon_e7: Int64s, bbox: tuple[float, float, float, float]) -> NDArray[np.bool_]:
    """Marks positions that lie in `bbox`; west above east crosses the antimeridian."""
    west, south, east, north = (round(edge * E7) for edge in bbox)
    is_east, is_west = lon_e7 >= west, lon_e7 <= east
    return (is_east & is_west if west <= east else is_east | is_west) & (lat_e7 >= south) & (lat_e7 <= north)


def _snap(degrees: Floats, bound: float) -> Int64s:
    return np.rint(np.clip(degrees, -bound, bound) * E7).astype(np.int64)


def _steps(values: Floats, rules: Rules) -> Int64s:
    """Converts values from the input's unit to grid steps, clamped to the bounds."""
    steps_per_unit = float(rules.units.value_per_unit / rules.grid.step)
    upper = rules.grid.upper_steps
    above_lower = values - float(rules.lower / rules.units.value_per_unit)
    steps = np.rint(np.clip(above_lower, 0.0, (upper + 1) / steps_per_unit) * steps_per_unit).astype(np.int64)
    return np.minimum(steps, upper)  # clamped twice: first so that no integer overflows, then exactly


def _headings(table: pa.RecordBatch, units: Units) -> Int64s:
    """Reads headings in (0, 360], as whole degrees below 360; others are NO_HEADING.

    Exactly 0 is none: feeds use it for standing vehicles or for unknown (30 % of MBTA's buses).
    """
    if HEADING not in table.schema.names:
        return np.broadcast_to(np.int64(NO_HEADING), table.num_rows)  # without memory
    degrees = units.numbers(table.column(HEADING))
    has_heading = degrees.valid & (degrees.values > 0) & (degrees.values <= 360)
    return np.where(has_heading, np.rint(degrees.values) % 360, NO_HEADING).astype(np.int64)


def _hashes(key: bytes, periods: Sequence[str], period: Int64s, code: NDArray[np.integer], ids: list[bytes]) -> Int64s:
    """Computes accepted rows' keyed hashes, once per (period, id)."""
    pairs, pair_code = factorize(period * len(ids) + code)  # period, code: indices into `periods` and `ids`
    period_names = [periods[i] for i in (pairs // len(ids)).tolist()]
    return vehicle_hashes(key, period_names, [ids[i] for i in (pairs % len(ids)).tolist()])[pair_code]


def locate(observations: Observations, ground: Ground) -> tuple[Observations, Int64s, int]:
    """Finds observations' cells, pieces of places, or keys; drops and counts those outside."""
    resolution = ground.resolution  # of cells; None: rows have keys
    cells = observations.lon_e7  # rows with a key in place of a position have its number here
    if resolution is not None:
        cells = cells_at(observations.lat_e7, cells, resolution)
    key = ground.keys(cells, observations.heading)  # each row's cell, piece or key number
    inside = key != NOWHERE
    if inside.all():
        return observations, key, 0
    return observations.take(inside), key[inside], int((~inside).sum())


MOVED_M, STEP_S = 50.0, 300
"""A vehicle has moved if two consecutive positions, at most STEP_S seconds apart, are so many metres apart."""
_M_PER_DEGREE = 111_195.0
_COUNTER_PREFIX = "speeds/"  # begins the names of counters
_RARE, _COMMON = 0.01, 0.1  # shares above which an honest feed is unlikely


class SpeedShares(NamedTuple):
    """Counts of reports with implausible speeds."""

    reports: int = 0
    below_zero: int = 0
    above_bound: int = 0
    commonest: int = 0  # with the most frequent speed other than 0
    moving: int = 0  # pairs of consecutive positions of a moving vehicle
    standing: int = 0  # of these pairs, those with speed 0 at both ends

    @property
    def sentences(self) -> list[str]:
        """Lists suspicious shares as sentences; no speed is shown."""
        of_reports = {  # number, and the share above which it is named
            "are below 0, and count as 0": (self.below_zero, 0),
            "are above speed.upper_kmh, and count as it (if input.speed_unit is theirs)": (self.above_bound, _RARE),
            "are one and the same number": (self.commonest, _COMMON),
        }
        words = [
            f"{number / self.reports:.1%} of the speeds {fault}"
            for fault, (number, limit) in of_reports.items()
            if number > limit * self.reports
        ]
        if self.standing > max(_COMMON * self.moving, 1):  # one pair of positions alone shows nothing
            words.append(f"{self.standing / self.moving:.1%} of the speeds of vehicles that move are 0")
        return words


def speed_counts(table: pa.RecordBatch, rules: Rules) -> dict[str, int]:
    """Counts implausible speeds among a batch's complete rows, by counter's name."""
    if rules.derived is not None or rules.keys is not None or not rules.is_speed:
        return {}  # the feed has no speeds, or no positions to compare them with
    units = rules.units
    ids, time = vehicle_ids(table.column("vehicle"), rules.vehicle_form), units.instants(table.column("time"))
    lat, lon = units.numbers(table.column("lat")), units.longitudes(table.column("lon"))
    value = units.numbers(table.column(SPEED))
    fits = ~(ids.missing | ids.bad) & time.valid & lat.valid & lon.valid & value.valid
    fits &= ~np.isin(value.values.astype(np.float32), np.array(rules.no_value, np.float32))  # feeds may hold float32
    order = np.flatnonzero(fits)[np.lexsort((time.us[fits], ids.code[fits]))]
    step_s, lat_deg, speed = np.diff(time.us[order]) / 1e6, lat.values[order], value.values[order]
    east = np.diff(lon.values[order]) * np.cos(np.radians(lat_deg[:-1]))
    metres = np.hypot(np.diff(lat_deg), east) * _M_PER_DEGREE
    moves = (np.diff(ids.code[order].astype(np.int64)) == 0) & (step_s > 0) & (step_s <= STEP_S) & (metres >= MOVED_M)
    moves &= metres <= 50 * step_s  # faster than 50 m/s is a wrong position
    repeats = np.unique(speed[speed != 0], return_counts=True)[1]  # how often each speed but 0 occurs
    shares = SpeedShares(
        reports=speed.size,
        below_zero=int((speed < 0).sum()),
        above_bound=int((speed > float(rules.grid.upper / units.value_per_unit)).sum()),  # in the feed's unit
        commonest=int(repeats.max(initial=0)) if repeats.sum() > 1 else 0,  # a single row repeats nothing
        moving=int(moves.sum()),
        standing=int((moves & (speed[:-1] == 0) & (speed[1:] == 0)).sum()),
    )
    return {f"{_COUNTER_PREFIX}{name}": number for name, number in shares._asdict().items()}


def shares_in(counts: Mapping[str, int]) -> SpeedShares:
    """Makes shares from the counts of `speed_counts`, added up over batches."""
    return SpeedShares(**{name: counts.get(f"{_COUNTER_PREFIX}{name}", 0) for name in SpeedShares._fields})
