"""The specification of a fusion: one strict TOML file that says which services report what, and how it is fused."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec

from dpops.types import Grid
from hatstream_local.mechanisms.aggregate import MOST_BUCKETS
from hatstream_local.mechanisms.means import Method
from hatstream_local.mechanisms.registry import LOCAL_MECHANISMS
from hatstream_local.mechanisms.reports import Service
from hatstream_local.reports.columns import Hours, ReportRules
from hatstream_local.reports.fuse import FUSED, FusionRules
from pipelines.errors import shortened
from pipelines.specification.checks import check_name, check_zone
from pipelines.specification.document import toml_of
from pipelines.specification.errors import SpecificationError, need
from transforms.layouts import MAPPED, Layout, layout
from transforms.value import Value

GRID_STEPS = 1_000_000
"""Speeds of telemetry are read on a grid of so many steps up to upper_kmh, finer than the mechanisms' own."""


class ServiceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    mechanism: str
    epsilon: float


class FusionSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    minutes: int
    timezone: str


class FusionCells(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    resolution: int


class FusionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mean: Method = "fixed"
    distribution: Literal["ems", "em", "none"] = "ems"
    buckets: int = 64


class TableTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    layout: str
    columns: dict[str, str] | None = None
    time_unit: str | None = None
    speed_unit: str | None = None


class FusionDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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
    """A checked specification. layout: of reports. telemetry: of raw positions, for `perturb`; None where not given."""

    name: str
    spec_id: str
    reports: ReportRules
    fusion: FusionRules
    layout: Layout
    telemetry: Layout | None
    resolution: int | None

    @property
    def epsilon_of_all(self) -> float:
        """What a user who answers every service gives away with one value."""
        return sum(service.mechanism.epsilon for service in self.fusion.services)


def load_fusion(path: Path) -> FusionSpecification:
    """Reads and checks a specification file. Raises SpecificationError."""
    try:
        document = msgspec.convert(toml_of(path), FusionDocument)
    except msgspec.ValidationError as error:
        raise SpecificationError(f"{path}: {shortened(str(error))}") from None
    return _check(document)


def _check(document: FusionDocument) -> FusionSpecification:
    check_name("name", document.name)
    need(0 < document.upper_kmh <= 100_000, "upper_kmh", "must be above 0, at most 100000", document.upper_kmh)
    services = [_service(table) for table in document.service]
    names = [service.name for service in services]
    need(bool(names) and len(set(names)) == len(names), "service.name", "needs at least one, all different", names)
    services.sort(key=lambda service: service.name)
    fusion = document.fusion
    grid = Grid(step=Fraction(document.upper_kmh) / GRID_STEPS, upper_steps=GRID_STEPS)
    need(2 <= fusion.buckets <= MOST_BUCKETS, "fusion.buckets", f"must be 2 to {MOST_BUCKETS}", fusion.buckets)
    buckets = 0 if fusion.distribution == "none" else fusion.buckets
    decisive = msgspec.json.encode(msgspec.structs.replace(document, name="", telemetry=None), order="deterministic")
    try:
        rules = _rules(document, services)
        return FusionSpecification(
            name=document.name,
            spec_id=hashlib.sha256(decisive).hexdigest()[:16],
            reports=rules,
            fusion=FusionRules(services, Value(grid), fusion.mean, fusion.distribution, buckets),
            layout=_reports(document.input, rules.fields),
            telemetry=None if document.telemetry is None else _telemetry(document.telemetry),
            resolution=None if document.cells is None else document.cells.resolution,
        )
    except ValueError as error:
        raise SpecificationError(f"input: {error}") from None


def _service(table: ServiceTable) -> Service:
    check_name("service.name", table.name)
    need(table.name != FUSED, "service.name", f"must be a name but {FUSED!r}", table.name)
    kinds = ", ".join(LOCAL_MECHANISMS)
    need(table.mechanism in LOCAL_MECHANISMS, "service.mechanism", f"must be one of {kinds}", table.mechanism)
    try:
        return Service(table.name, LOCAL_MECHANISMS[table.mechanism](table.epsilon))
    except ValueError as error:
        raise SpecificationError(f"service.epsilon: {error}; it is {table.epsilon}") from None


def _rules(document: FusionDocument, services: list[Service]) -> ReportRules:
    table = document.input
    need(table.layout in MAPPED, "input.layout", f"must be one of {', '.join(MAPPED)}", table.layout)
    need(table.speed_unit is None, "input.speed_unit", "does not go with reports", table.speed_unit)
    hours = None
    if document.slot is not None:
        minutes = document.slot.minutes
        need(1 <= minutes <= 60 and 60 % minutes == 0, "slot.minutes", "must divide an hour", minutes)
        check_zone("slot.timezone", document.slot.timezone)
        hours = Hours(document.slot.timezone, minutes * 60)
    if document.cells is not None:
        resolution = document.cells.resolution
        need(0 <= resolution <= 15, "cells.resolution", "must be between 0 and 15", resolution)
    return ReportRules(services, hours, document.cells is not None, _reports(table, ()).units.time_unit)


def _reports(table: TableTable, fields: tuple[str, ...]) -> Layout:
    """Finds the layout of reports, whose columns are called as the fields are where nothing else is said."""
    columns = {name: name for name in fields} if table.columns is None or not fields else table.columns
    return layout(table.layout, columns, table.time_unit, fields=fields)


def _telemetry(table: TableTable) -> Layout:
    try:
        return layout(table.layout, table.columns, table.time_unit, table.speed_unit)
    except ValueError as error:
        raise SpecificationError(f"telemetry: {error}") from None
