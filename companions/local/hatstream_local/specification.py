"""Parses a fusion's specification: services, reports and methods."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal
from zoneinfo import available_timezones

import msgspec

from hatstream.api import SpecificationError, layout, read_tables
from hatstream_local.fusion.columns import NEEDED, Hours
from hatstream_local.mechanisms.aggregate import MOST_BUCKETS
from hatstream_local.mechanisms.estimates import Method
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Service

LAYOUTS = ("avro", "csv", "json", "jsonl", "parquet")  # forms of reports: all whose columns are named
NAME_LETTERS = 200
FUSED = "all"  # the service of a fused row; the rows of single services stand beside it for comparison
GRID_STEPS = 1_000_000
"""Speeds of telemetry are read on a grid of so many steps up to upper_kmh, finer than the mechanisms' own."""


class ServiceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Service with its mechanism and epsilon."""

    name: str
    mechanism: str
    epsilon: float


class FusionSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Slots of reports."""

    minutes: int
    timezone: str


class FusionCells(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """H3 cells of reports."""

    resolution: int


class FusionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Methods of fusion, and their outputs."""

    mean: Method = "fixed"
    distribution: Literal["ems", "em", "none"] = "ems"
    buckets: int = 64


class TableTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Layout of report files."""

    layout: str
    columns: dict[str, str] | None = None
    time_unit: str | None = None
    speed_unit: str | None = None


class FusionDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Specification of a fusion, as written."""

    name: str
    upper_kmh: float
    service: list[ServiceTable]
    input: TableTable
    slot: FusionSlot | None = None
    cells: FusionCells | None = None
    fusion: FusionTable = FusionTable()
    telemetry: TableTable | None = None


@dataclass(frozen=True, kw_only=True)
class FusionSpecification:
    """Checked specification of a fusion."""

    name: str
    spec_id: str
    services: Sequence[Service]
    upper_kmh: float
    mean: Method
    distribution: str
    buckets: int  # 0 without distribution
    hours: Hours | None  # None: all times are fused
    resolution: int | None  # None: all places are fused
    layout: Any  # of reports
    telemetry: Any  # layout of positions for `perturb`, or None

    @property
    def step(self) -> Fraction:
        """Step of the grid of telemetry's speeds, in km/h."""
        return Fraction(self.upper_kmh) / GRID_STEPS

    @property
    def epsilon_of_all(self) -> float:
        """Epsilon of a user who answers every service."""
        return sum(service.mechanism.epsilon for service in self.services)


def load_fusion(path: Path) -> FusionSpecification:
    """Reads and checks a specification file. Raises SpecificationError."""
    return _check(read_tables(path, FusionDocument))


def _need(holds: bool, field: str, rule: str, value: object) -> None:
    """Raises SpecificationError, with field, rule and value, unless the rule holds."""
    if not holds:
        text = repr(value) if isinstance(value, str) else str(value)
        raise SpecificationError(f"{field} {rule}; it is {text[:300]}")


def _check_name(field: str, name: str) -> None:
    fits = bool(name.strip()) and name.isprintable() and len(name) <= NAME_LETTERS
    _need(fits, field, f"must be 1 to {NAME_LETTERS} printable letters", name)


def _check(document: FusionDocument) -> FusionSpecification:
    """Checks a document's values, and returns the specification. Raises SpecificationError.

    `spec_id` is a digest of all that decides results: neither of the name nor of the telemetry, which `perturb` reads.
    A service is one collector of locally perturbed reports, with an epsilon of its own.
    """
    _check_name("name", document.name)
    _need(0 < document.upper_kmh <= 100_000, "upper_kmh", "must be above 0, at most 100000", document.upper_kmh)
    services = [_service(table) for table in document.service]
    names = [service.name for service in services]
    _need(bool(names) and len(set(names)) == len(names), "service.name", "needs at least one, all different", names)
    services.sort(key=lambda service: service.name)
    fusion, table = document.fusion, document.input
    _need(2 <= fusion.buckets <= MOST_BUCKETS, "fusion.buckets", f"must be 2 to {MOST_BUCKETS}", fusion.buckets)
    buckets = 0 if fusion.distribution == "none" else fusion.buckets
    _need(table.layout in LAYOUTS, "input.layout", f"must be one of {', '.join(LAYOUTS)}", table.layout)
    _need(table.speed_unit is None, "input.speed_unit", "does not go with reports", table.speed_unit)
    decisive = msgspec.json.encode(msgspec.structs.replace(document, name="", telemetry=None), order="deterministic")
    hours, resolution = _hours(document.slot), None if document.cells is None else document.cells.resolution
    _need(resolution is None or 0 <= resolution <= 15, "cells.resolution", "must be between 0 and 15", resolution)
    fields = (*NEEDED, *(("time",) if hours else ()), *(() if resolution is None else ("cell",)), "report")
    columns = {name: name for name in fields} if table.columns is None else table.columns
    try:
        return FusionSpecification(
            name=document.name,
            spec_id=hashlib.sha256(decisive).hexdigest()[:16],
            services=services,
            upper_kmh=document.upper_kmh,
            mean=fusion.mean,
            distribution=fusion.distribution,
            buckets=buckets,
            hours=hours,
            resolution=resolution,
            layout=layout(table.layout, columns, table.time_unit, fields=fields),
            telemetry=None if document.telemetry is None else _telemetry(document.telemetry),
        )
    except ValueError as error:
        raise SpecificationError(f"input: {error}") from None


def _service(table: ServiceTable) -> Service:
    """Checks a service's name, mechanism and epsilon. Raises SpecificationError."""
    _check_name("service.name", table.name)
    _need(table.name != FUSED, "service.name", f"must be a name but {FUSED!r}", table.name)
    kinds = ", ".join(LOCAL_MECHANISMS)
    _need(table.mechanism in LOCAL_MECHANISMS, "service.mechanism", f"must be one of {kinds}", table.mechanism)
    try:
        return Service(table.name, LOCAL_MECHANISMS[table.mechanism](table.epsilon))
    except ValueError as error:
        raise SpecificationError(f"service.epsilon: {error}; it is {table.epsilon}") from None


def _hours(slot: FusionSlot | None) -> Hours | None:
    """Checks slots of a fusion, which divide an hour; None without. Raises SpecificationError."""
    if slot is None:
        return None
    _need(1 <= slot.minutes <= 60 and 60 % slot.minutes == 0, "slot.minutes", "must divide an hour", slot.minutes)
    zone, rule = slot.timezone, "must be a name like America/Chicago"
    # "localtime" would be another zone on every machine.
    _need(zone in available_timezones() and zone != "localtime", "slot.timezone", rule, zone)
    return Hours(zone, slot.minutes * 60)


def _telemetry(table: TableTable) -> Any:
    """Makes the layout of raw positions, which `perturb` reads. Raises SpecificationError."""
    try:
        return layout(table.layout, table.columns, table.time_unit, table.speed_unit)
    except ValueError as error:
        raise SpecificationError(f"telemetry: {error}") from None
