"""Checks of a specification, table by table.

`need` raises SpecificationError, which names key, rule and value, unless its first argument is true. Relative paths
begin in `folder`.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec
import numpy as np

from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit, Span, SpanLimits
from dpops.allocation import Allocation
from dpops.claims import Accounting, ClaimError
from dpops.forecast import Prior
from dpops.types import Grid
from pipelines.errors import SpecificationError, check_name, need, raise_as, shortened
from pipelines.specification.document import AccountTable, Document, PrivacyTable
from pipelines.specification.levels import LevelsRelease
from pipelines.specification.tables import not_added_up, read_keys
from pipelines.specification.values import DECISIVE, AccountTerms, Cells, Input, Privacy
from transforms.atomic_files import read_text
from transforms.count.tally import ContributionBound
from transforms.errors import did_you_mean
from transforms.layouts import FIXED, layout
from transforms.layouts.base import FIELDS, HEADING, KEY_FIELDS, with_keys
from transforms.observe.derived_speed import HeadingLimits, SpeedLimits
from transforms.places.ground import Keys
from transforms.places.hexagons import cells_of_geojson, cells_of_list
from transforms.time.calendar import DAY_MINUTES, WEEKDAYS, Interval, Timetable
from transforms.time.trips import Trips, read_trips
from transforms.value import SPEED, Value

BOUND = Fraction(1_000_000)
"""Epsilon lies between 1 / BOUND, where noise nears the 2**50 steps that can be drawn exactly, and BOUND."""

LONGEST_SPAN = 3_653  # ten years, in days
OWN_ZONES = ("localtime", "posixrules")  # files among the system's zones that differ from machine to machine
MOST_LATENESS_S = 31 * 86_400
REGION_BYTES = 64 << 20  # most of a file that a specification names
OPEN = "?"  # stands in a draft for a column that somebody has to name


def timetable_of(document: Document) -> Timetable:
    """Checks and builds the timetable. Raises SpecificationError."""
    minutes, zone, weekdays = document.slot.minutes, document.account.timezone, document.slot.weekdays
    need(1 <= minutes <= DAY_MINUTES and DAY_MINUTES % minutes == 0, "slot.minutes", "must divide a day", minutes)
    lateness_s = document.slot.allowed_lateness_s
    need(0 <= lateness_s <= MOST_LATENESS_S, "slot.allowed_lateness_s", f"must be 0 to {MOST_LATENESS_S:,}", lateness_s)
    service = service_intervals(document.slot.service, minutes)
    field = "account.timezone"
    need(zone not in OWN_ZONES, field, "must name a zone that is the same on every machine", zone)
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        hint = did_you_mean(zone, available_timezones())
        need(holds=False, name=field, rule="must be a name like America/Chicago", value=zone, hint=hint)
    need(weekdays is None or bool(weekdays), "slot.weekdays", "must name at least one day", "empty")
    served = WEEKDAYS if weekdays is None else tuple(day for day in WEEKDAYS if day in weekdays)
    return Timetable(zone, document.account.unit, minutes, service, served)


def service_intervals(text: str, slot_minutes: int) -> tuple[Interval, ...]:
    """Parses hours of service to minutes of a day, also those beyond 24:00.

    >>> service_intervals("05:00-09:00, 15:00-26:00", 60)
    ((0, 120), (300, 540), (900, 1440))
    """
    served, field = np.zeros(2 * DAY_MINUTES, np.bool_), "slot.service"  # by minute of a day and the next one
    for interval in re.split(r"\s*,\s*", text):
        match = re.fullmatch(r"(\d\d):([0-5]\d)-(\d\d):([0-5]\d)", interval)
        need(match is not None, field, 'must look like "05:00-24:00" or "05:00-09:00, 15:00-26:00"', text)
        numbers = [int(group) for group in match.groups()] if match else []
        start, end = numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
        ordered = start < DAY_MINUTES and start < end <= start + DAY_MINUTES
        need(ordered, field, "must start within one day, and end later and within 24 hours", text)
        fits = start % slot_minutes == end % slot_minutes == 0
        need(fits, field, f"must lie on slots of {slot_minutes} minutes", text)
        need(not served[start:end].any(), field, "must not name an hour twice", text)
        served[start:end] = True
    by_day = served.reshape(2, DAY_MINUTES)  # hours beyond 24:00 are served on every day: its early ones
    need(not by_day.all(axis=0).any(), field, "must not name an hour twice", text)
    edges = np.flatnonzero(np.diff(by_day.any(axis=0), prepend=False, append=False)).tolist()
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def account_of(account: AccountTable) -> AccountTerms:
    """Checks and builds the account's terms, with its limit. Raises SpecificationError."""
    check_name("account.name", account.name)
    ever = account.unit == "vehicle-ever"
    need(not ever or account.until is not None, "account.until", "is needed with vehicle-ever", "missing")
    for name, day in (("since", account.since), ("until", account.until)):
        need(ever or day is None, f"account.{name}", "goes with vehicle-ever only", day)
    if account.since is not None and account.until is not None:
        need(account.since < account.until, "account.since", "must be before account.until", account.since)
    fields = {name: getattr(account, name) for name in DECISIVE}  # all but the limit
    if account.limit is not None:
        need(not account.limits, "account.limits", "stands in place of account.limit: write one of them", "both")
        return AccountTerms(limit=_accounted(account.limit, account.accounting), **fields)
    need(bool(account.limits), "account.limit", "or account.limits must be set", "missing")
    need(account.unit == "vehicle-day", "account.limits", "goes with account.unit = 'vehicle-day'", account.unit)
    days = [span.days for span in account.limits]
    need(min(days) >= 1 and max(days) <= LONGEST_SPAN, "account.limits", f"must be of 1 to {LONGEST_SPAN} days", days)
    need(len({*days}) == len(days), "account.limits", "must name each length once", days)
    spans = []
    with raise_as(SpecificationError, ClaimError, "account.limits: "):
        for span in sorted(account.limits, key=lambda span: span.days):
            fits = span.delta is not None or span.pure is None
            need(fits, "account.limits", "have pure only beside delta", f"{span.days} days without delta")
            limit = PureLimit(span.epsilon) if span.delta is None else DeltaLimit(span.epsilon, span.delta, span.pure)
            spans.append(Span(span.days, _accounted(limit, account.accounting)))
        return AccountTerms(limit=SpanLimits(tuple(spans)), **fields)


def _accounted(limit: Limit, accounting: Accounting) -> Limit:
    """Returns a limit with this accounting. Raises SpecificationError for "gdp" without delta."""
    if accounting == "zcdp":  # the default of limits, whether they have a delta or not
        return limit
    if not isinstance(limit, DeltaLimit):
        raise SpecificationError(
            f"account.accounting goes with limits that all have a delta; it is {accounting!r}, and {limit} has none"
        )
    return replace(limit, accounting=accounting)


def check_span(account: AccountTerms, levels: LevelsRelease) -> None:
    """Checks a span's total against account limits. Raises SpecificationError."""
    if levels.span is None:
        return
    # The most that a span's days take: `claim` is of a day of share 1, `share_sum` the largest sum of a span's shares.
    of_days = Accountant().compose([levels.claim.times(levels.span.share_sum)])
    if why := not_added_up(account.limit, of_days):
        raise SpecificationError(why)
    limit = next(span.limit for span in account.limit.spans if span.days == levels.span.days)
    rule = f"must be within the account's limit of {levels.span.days} days, {limit.describe()}"
    need(limit.fits(of_days), "privacy.epsilon", rule, levels.span.epsilon)
    rule = f"must give each day what the account allows it, {account.limit.describe()}"
    of_day = f"{float(levels.epsilon):.4g} a day"
    need(account.limit.fits(Accountant().compose([levels.claim])), "privacy.epsilon", rule, of_day)


def privacy_of(privacy: PrivacyTable, account: AccountTerms) -> Privacy:
    """Checks the division of the budget, apart from `levels`."""
    need(1 / BOUND <= privacy.epsilon <= BOUND, "privacy.epsilon", "must be between 1e-6 and 1e6", privacy.epsilon)
    is_capped = privacy.composition == "cap"
    for name in ("max_cells", "max_samples"):
        value = getattr(privacy, name)
        if is_capped:
            need(value is not None and value >= 1, f"privacy.{name}", "is needed with 'cap', at least 1", value)
        else:
            need(value is None, f"privacy.{name}", "goes with composition = 'cap'", value)
    cap = ContributionBound(privacy.max_cells or 1, privacy.max_samples or 1) if is_capped else None
    shards = privacy.release_shards
    need(1 <= shards <= 1024, "privacy.release_shards", "must be between 1 and 1024", shards)
    need(shards == 1 or is_capped, "privacy.release_shards", "must be 1 without composition = 'cap'", shards)
    most_hats = cap.max_cells if cap is not None and shards > 1 else None  # a shard sees not all of a vehicle's HATs
    allocation = Allocation(epsilon=privacy.epsilon, per=privacy.per, scope=privacy.scope, most_hats=most_hats)
    fits = shards == 1 or not allocation.whole_periods
    need(fits, "privacy.release_shards", "must be 1 with scope = 'period'", shards)
    if allocation.needs_period and account.unit == "vehicle-ever":
        need(account.since is not None, "account.since", "is needed to divide a vehicle-ever period", "missing")
    return Privacy(allocation=allocation, cap=cap, release_shards=shards)


def cells_of(document: Document, folder: Path) -> Cells:
    """Reads the cells, or the keys that replace them. Raises SpecificationError."""
    table, places = document.cells, document.places
    if places is not None and places.column is not None:
        need(table is None, "cells", "goes without places.column: keys stand in the place of hexagons", "given")
        with raise_as(SpecificationError, ValueError, "places: "):
            keys = read_keys(places, lambda name: text_of(folder, name, "places.keys"))
        return Cells(resolution=0, region=keys, exact_bbox=None)  # keys have no resolution
    if table is None:
        raise SpecificationError("[cells] or places.column must be set")
    if table.bbox is not None:
        west, south, east, north = edges = [float(edge) for edge in table.bbox]
        fits = max(abs(west), abs(east)) <= 180 and west != east and -90 <= south < north <= 90
        rule = "must be west, south, east, north in degrees, longitudes from -180 to 180, south < north"
        need(fits, "cells.bbox", f"{rule} (west > east crosses the antimeridian)", edges)
    need(0 <= table.resolution <= 15, "cells.resolution", "must be between 0 and 15", table.resolution)
    region = None  # of "occupied": all cells with reports
    if table.region != "occupied":
        try:
            if isinstance(table.region, list):
                region = cells_of_list(table.region, table.resolution)
            else:
                alternatives = '; it is a GeoJSON file, a list of cells, or "occupied" for all cells with reports'
                content = msgspec.json.decode(text_of(folder, table.region, "cells.region", alternatives))
                region = cells_of_geojson(content, table.resolution)
        except RecursionError:
            name = shortened(repr(table.region))
            raise SpecificationError(f"cells.region: {name} is JSON nested too deeply") from None
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, msgspec.MsgspecError) as error:
            raise SpecificationError(f"cells.region: {shortened(str(error))}") from None
        need(bool(region), "cells.region", "must hold at least one cell at this resolution", "empty")
    return Cells(resolution=table.resolution, region=region, exact_bbox=table.bbox, source=table.region_source)


def text_of(folder: Path, name: str, field: str, alternatives: str = "") -> str:
    """Reads a field's file. alternatives: advice for the SpecificationError if it is missing."""
    try:
        return read_text(folder / name, REGION_BYTES)
    except OSError as error:
        raise SpecificationError(f"{field}: {error.strerror}: {shortened(repr(name))}{alternatives}") from None


def trips_of(document: Document, cells: Cells, folder: Path) -> Trips | None:
    """Reads the public hours with a trip, or None. Raises SpecificationError."""
    name = document.slot.trips
    if name is None:
        return None
    need(not isinstance(cells.region, Keys), "slot.trips", "goes with [cells]", "places.column")
    try:
        return read_trips(text_of(folder, name, "slot.trips"), cells.resolution)
    except (ValueError, csv.Error) as error:
        raise SpecificationError(f"slot.trips: {shortened(repr(name))}: {shortened(str(error))}") from None


def input_of(document: Document, *, headed: bool) -> Input:
    """Checks and builds the input's layout. headed: whether places need headings. Raises SpecificationError."""
    table, places = document.input, document.places
    speed, heading = table.derived_speed, table.derived_heading
    columns = dict(table.columns or {})
    key_columns = [] if places is None else [places.column, places.within]
    speed_unit, unit, value = table.speed_unit, None, document.value
    if value is not None:
        if value.name in columns or table.layout in FIXED:  # FIXED: built-in; all read the value as SPEED
            columns[SPEED] = columns.pop(value.name, value.name)
        speed_unit, unit = table.value_unit, value.unit
    by_key = {field: name for field, name in zip(KEY_FIELDS, key_columns, strict=False) if name is not None}
    fields = with_keys(len(by_key)) if by_key else None  # None: the layout's own
    columns |= by_key
    columns_read = columns if table.columns is not None or columns else None  # None: those of a built-in layout
    if heading is not None:
        gap_s, least_m = heading.max_gap_s, heading.min_m
        need(headed, "input.derived_heading", "goes with places that have the property directed", "given")
        need(1 <= gap_s <= 3_600, "input.derived_heading.max_gap_s", "must be 1 to 3600", gap_s)
        need(1 <= least_m <= 1_000, "input.derived_heading.min_m", "must be 1 to 1000", least_m)
        headed = False  # rows themselves have none
    if speed is not None:
        gap_s, kmh = speed.max_gap_s, speed.max_kmh
        need(1 <= gap_s <= 3_600, "input.derived_speed.max_gap_s", "must be between 1 and 3600", gap_s)
        need(1 <= kmh <= 1_000, "input.derived_speed.max_kmh", "must be between 1 and 1000", kmh)
    names = ("time_zone", "time_format", "decimal", "delimiter", "header", "records", "vehicle", "time")
    options: dict[str, Any] = {name: getattr(table, name) for name in names}
    options |= {"with_value": speed is None, "headed": headed, "fields": fields, "unit": unit}
    with raise_as(SpecificationError, ValueError, "input: "):
        chosen = layout(table.layout, columns_read, table.time_unit, speed_unit, **options)
    need(speed is None or not table.no_value, "input.no_value", "goes with a column of speeds", "input.derived_speed")
    need(len(table.no_value) <= 16, "input.no_value", "must be at most 16 numbers", len(table.no_value))
    return Input(
        name=table.layout,
        columns=columns_read,
        layout=chosen,
        derived=None if speed is None else SpeedLimits(speed.max_gap_s, speed.max_kmh),
        allowed_lateness_s=document.slot.allowed_lateness_s,
        headed=headed,
        turning=None if heading is None else HeadingLimits(heading.max_gap_s, heading.min_m),
        vehicle_form=table.vehicle_form,
        keyed=fields,
        no_value=tuple(sorted({float(number) for number in table.no_value})),
        chosen={name: options[name] for name in ("vehicle", "time") if options[name] is not None},
    )


def check_closed(columns: Mapping[str, str | Sequence[str]]) -> None:
    """Refuses all columns that a draft left open."""
    parts = {field: [column] if isinstance(column, str) else column for field, column in columns.items()}
    if missing := ", ".join(f"columns.{field}" for field, names in parts.items() if OPEN in names):
        raise SpecificationError(f"input.{missing}: left open by a draft: name the input's column in place of ?")


def check_derived(document: Document) -> None:
    """Refuses derived speeds where positions are public or absent, or slots are live."""
    if document.input.derived_speed is None:
        return
    if document.account.adjacency == "counts-public":
        raise SpecificationError(
            "input.derived_speed goes with account.adjacency = 'add-remove' only: under 'counts-public' it is public "
            "where a vehicle was and when, so anyone can compute that speed; nothing would be protected"
        )
    keyed = document.places is not None and document.places.column is not None
    need(not keyed, "input.derived_speed", "goes without places.column: such rows have no position", "given")
    need(document.live is None, "input.derived_speed", "goes without [live]: a vehicle's whole day is needed", "given")


def value_of(document: Document) -> tuple[Value, Prior | None]:
    """Checks and builds the value, and a speed's prior. Raises SpecificationError."""
    speed, value = document.speed, document.value
    if speed is not None:
        need(document.input.value_unit is None, "input.value_unit", "goes with [value]", document.input.value_unit)
        need(value is None, "value", "stands in the place of [speed]: write one of them", "both")
        upper, grid = speed.upper_kmh, speed.grid_kmh
        need(0 < upper <= 100_000, "speed.upper_kmh", "must be above 0, at most 100000", upper)  # more: a wrong unit
        need(grid > 0, "speed.grid_kmh", "must be above 0", grid)
        steps = upper / grid  # at most 10**6, as squares of steps are summed in int64
        need(steps.denominator == 1, "speed.grid_kmh", "must divide speed.upper_kmh", grid)
        need(steps <= 1_000_000, "speed.grid_kmh", "must give at most 1,000,000 steps up to upper_kmh", grid)
        measured = Value(Grid(step=grid, upper_steps=int(steps)))
        if speed.prior is None:
            return measured, None
        mean, sd, between = speed.prior.mean_kmh, speed.prior.sd_kmh, speed.prior.between
        need(0 <= mean <= upper, "speed.prior.mean_kmh", "must be between 0 and upper_kmh", mean)
        need(upper / 1000 <= sd <= upper, "speed.prior.sd_kmh", "must be upper_kmh/1000 to upper_kmh", sd)
        need(0 <= between <= 1, "speed.prior.between", "must be between 0 and 1", between)
        return measured, Prior(float(mean), float(sd), float(between))
    if value is None:
        raise SpecificationError("[speed] or [value] must be set")
    need(re.fullmatch(r"[a-z][a-z0-9_]{0,59}", value.name) is not None, "value.name", "must be a-z, 0-9, _", value.name)
    need(value.name not in (*FIELDS, HEADING), "value.name", "must differ from the names of fields", value.name)
    check_name("value.unit", value.unit)
    need(value.lower < value.upper, "value.lower", "must be below value.upper", value.lower)
    need(max(abs(value.lower), abs(value.upper)) <= 10**6, "value", "must lie within 1e6", value.upper)
    of_speeds = document.input.derived_speed or document.input.speed_unit
    need(of_speeds is None, "input", "goes without speed_unit and derived_speed where [value] is measured", "given")
    return Value.between(value.name, value.unit, value.lower, value.upper), None
