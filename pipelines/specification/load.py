"""The specification: one strict TOML file, checked here and translated into the small values of the other packages."""

import hashlib
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec

from dpops import statistics as registry
from dpops.accountant import Limit
from dpops.allocation import Allocation, Per, Scope
from dpops.forecast import Prior
from dpops.mechanism import Mechanism
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.tree import Tree
from dpops.registry import registered
from dpops.statistics import RequestedStatistic
from dpops.types import Grid
from pipelines.specification.levels import MECHANISM, FleetTable, LevelsRelease, levels_release, refusal
from pipelines.specification.limits import limit_from_toml
from pipelines.specification.numbers import from_toml, shortened
from transforms.count.tally import ContributionBound
from transforms.layouts import Layout, layout
from transforms.observe.hexagons import cells_of_geojson, cells_of_list
from transforms.regular_files import read_regular
from transforms.release.policy import weights_of
from transforms.time.calendar import DAY_MINUTES, Timetable, Unit

SPEC_BYTES, REGION_BYTES = 1 << 20, 64 << 20
NAME_LETTERS = 200
BOUND = Fraction(1_000_000)
"""Epsilon lies between 1 / BOUND, where noise nears the 2**50 steps that can be drawn exactly, and BOUND."""


class SpecificationError(Exception):
    """The specification is wrong; the message names the field, the rule and the value."""


class AccountTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    unit: Unit
    timezone: str
    adjacency: str
    limit: Limit
    since: date | None = None
    until: date | None = None


class SlotTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    minutes: int
    service: str = "00:00-24:00"
    allowed_lateness_s: int = 0


class CellsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    resolution: int
    region: str | list[str]
    bbox: tuple[Fraction, Fraction, Fraction, Fraction] | None = None


class PriorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mean_kmh: Fraction
    sd_kmh: Fraction
    between: Fraction = Fraction(0)


class SpeedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    upper_kmh: Fraction
    grid_kmh: Fraction = Fraction(1, 100)
    prior: PriorTable | None = None


class PrivacyTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    epsilon: Fraction
    per: Per
    delta: Fraction | None = None
    composition: Literal["none", "clip-user", "cap"] = "none"
    scope: Scope = "slot"
    release_shards: int = 1
    max_cells: int | None = None
    max_samples: int | None = None


class InputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    layout: str
    columns: dict[str, str] | None = None
    time_unit: str | None = None
    speed_unit: str | None = None


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    account: AccountTable
    slot: SlotTable
    cells: CellsTable
    speed: SpeedTable
    privacy: PrivacyTable
    statistic: list[dict[str, Any]]
    input: InputTable
    fleet: FleetTable | None = None


@dataclass(frozen=True, kw_only=True)
class Specification:
    """A checked specification. region: sorted cells, or None for `occupied`. text: what the spec_id is the hash of.

    levels: a mean by `levels`, which then is the only statistic and not among `statistics`.
    """

    name: str
    account: AccountTable
    timetable: Timetable
    resolution: int
    region: tuple[int, ...] | None
    bbox: tuple[float, float, float, float] | None
    grid: Grid
    allocation: Allocation
    cap: ContributionBound | None
    release_shards: int
    statistics: tuple[RequestedStatistic, ...]
    levels: LevelsRelease | None
    prior: Prior | None
    layout: Layout
    allowed_lateness_s: int
    text: str

    @property
    def spec_id(self) -> str:
        """16 hex digits: the hash of everything that decides a release."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def counts_are_public(self) -> bool:
        """Whether it may be told, and may decide what is recorded, that there are reports of a time at all."""
        return self.account.adjacency == "counts-public"

    def slots_of_period(self, start_s: int) -> tuple[int, ...]:
        """All slots of the period that one is in; none where nothing depends on them."""
        if not self.allocation.needs_period:
            return ()
        day = datetime.fromtimestamp(start_s, ZoneInfo(self.timetable.zone)).date()
        days = self.timetable.period_days(day, self.account.since, self.account.until)
        return tuple(at for day in days for at in self.timetable.day_slots(day))


def load(path: Path) -> Specification:
    """Reads and checks a specification file. Raises SpecificationError."""
    try:
        data = tomllib.loads(read_regular(path, SPEC_BYTES).decode(), parse_float=Decimal)
    except OSError as error:
        raise SpecificationError(f"the specification cannot be read: {error.strerror}: {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecificationError(f"{path} is not TOML: {shortened(str(error))}") from None
    except RecursionError:
        raise SpecificationError(f"{path} is nested too deeply") from None
    except ValueError:  # the only other one: of a number that is too long for Python
        raise SpecificationError(
            f"{path} holds a number of more than {sys.get_int_max_str_digits():,} digits"
        ) from None
    try:
        document = msgspec.convert(data, Document, dec_hook=_value)
    except msgspec.ValidationError as error:
        raise SpecificationError(f"{path}: {shortened(str(error))}") from None
    return _check(document, path.parent)


def _value(kind: type, value: object) -> Fraction | Limit:
    return limit_from_toml(value) if kind is Limit else from_toml(kind, value)


def _check(document: Document, folder: Path) -> Specification:
    _check_name("name", document.name)
    timetable = _timetable(document)
    _check_account(document.account)
    grid = _grid(document.speed)
    allocation, cap = _privacy(document.privacy, document.account)
    region = _region(document.cells, folder)
    levels = _levels(document, region, timetable)
    statistics = _statistics(document) if levels is None else ()
    if document.privacy.composition == "clip-user":
        allocation = replace(allocation, suppress=weights_of(grid, statistics))
    source = _layout(document.input)
    bbox = _bbox(document.cells)
    return Specification(
        name=document.name,
        account=document.account,
        timetable=timetable,
        resolution=document.cells.resolution,
        region=region,
        bbox=bbox,
        grid=grid,
        allocation=allocation,
        cap=cap,
        release_shards=document.privacy.release_shards,
        statistics=statistics,
        levels=levels,
        prior=_prior(document.speed),
        layout=source,
        allowed_lateness_s=document.slot.allowed_lateness_s,
        text=_decisive_text(document, region, statistics, levels, source),
    )


def _check_name(field: str, name: str) -> None:
    _need(bool(name.strip()), field, "must not be empty", name)
    _need(
        name.isprintable() and len(name) <= NAME_LETTERS,
        field,
        f"must be at most {NAME_LETTERS} printable letters",
        name,
    )


def _need(holds: bool, name: str, rule: str, value: object) -> None:
    if not holds:
        raise SpecificationError(f"{name} {rule}; it is {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, Fraction):
        try:
            return f"{float(value):g}"
        except OverflowError:
            return "beyond all floating-point numbers"
    return shortened(repr(value) if isinstance(value, str) else str(value))


def _timetable(document: Document) -> Timetable:
    minutes = document.slot.minutes
    _need(1 <= minutes <= DAY_MINUTES and DAY_MINUTES % minutes == 0, "slot.minutes", "must divide a day", minutes)
    _need(document.slot.allowed_lateness_s >= 0, "slot.allowed_lateness_s", "must not be negative", "negative")
    service = document.slot.service
    found = re.fullmatch(r"(\d\d):(\d\d)-(\d\d):(\d\d)", service)
    _need(found is not None, "slot.service", 'must look like "05:00-24:00"', service)
    numbers = [int(group) for group in found.groups()] if found else []
    start, end = numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
    ordered = max(numbers[1], numbers[3]) < 60 and start < end <= DAY_MINUTES
    _need(ordered, "slot.service", "must start before it ends, within one day", service)
    _need(start % minutes == end % minutes == 0, "slot.service", f"must lie on slots of {minutes} minutes", service)
    zone = document.account.timezone
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise SpecificationError(f"account.timezone must be a name like America/Chicago; it is {zone!r}") from None
    return Timetable(zone, document.account.unit, minutes, start, end)


def _check_account(account: AccountTable) -> None:
    _check_name("account.name", account.name)
    ever = account.unit == "vehicle-ever"
    _need(not ever or account.until is not None, "account.until", "is needed with vehicle-ever", "missing")
    for name in ("since", "until"):
        value = getattr(account, name)
        _need(ever or value is None, f"account.{name}", "goes with vehicle-ever only", value)
    if account.since is not None and account.until is not None:
        _need(account.since < account.until, "account.since", "must be before account.until", account.since)
    _need(
        account.adjacency in ("counts-public", "add-remove"),
        "account.adjacency",
        "must be 'counts-public' or 'add-remove'",
        account.adjacency,
    )


def _grid(speed: SpeedTable) -> Grid:
    _need(0 < speed.upper_kmh <= 100_000, "speed.upper_kmh", "must be above 0, at most 100000", speed.upper_kmh)
    _need(speed.grid_kmh > 0, "speed.grid_kmh", "must be above 0", speed.grid_kmh)
    steps = speed.upper_kmh / speed.grid_kmh
    _need(steps.denominator == 1, "speed.grid_kmh", "must divide speed.upper_kmh", speed.grid_kmh)
    _need(steps <= 1_000_000, "speed.grid_kmh", "must give at most 1,000,000 steps up to upper_kmh", speed.grid_kmh)
    return Grid(step=speed.grid_kmh, upper_steps=int(steps))


def _privacy(privacy: PrivacyTable, account: AccountTable) -> tuple[Allocation, ContributionBound | None]:
    _need(1 / BOUND <= privacy.epsilon <= BOUND, "privacy.epsilon", "must be between 1e-6 and 1e6", privacy.epsilon)
    cap = None
    if privacy.composition == "cap":
        for name, value in (("max_cells", privacy.max_cells), ("max_samples", privacy.max_samples)):
            _need(value is not None and value >= 1, f"privacy.{name}", "is needed with 'cap', at least 1", value)
        cap = ContributionBound(privacy.max_cells or 1, privacy.max_samples or 1)
    else:
        for name, value in (("max_cells", privacy.max_cells), ("max_samples", privacy.max_samples)):
            _need(value is None, f"privacy.{name}", "goes with composition = 'cap'", value)
    shards = privacy.release_shards
    _need(1 <= shards <= 1024, "privacy.release_shards", "must be between 1 and 1024", shards)
    _need(shards == 1 or cap is not None, "privacy.release_shards", "must be 1 without composition = 'cap'", shards)
    most_hats = cap.max_cells if cap is not None and shards > 1 else None
    allocation = Allocation(epsilon=privacy.epsilon, per=privacy.per, scope=privacy.scope, most_hats=most_hats)
    fits = shards == 1 or not allocation.whole_periods
    _need(fits, "privacy.release_shards", "must be 1 with scope = 'period'", shards)
    if allocation.needs_period and account.unit == "vehicle-ever":
        _need(account.since is not None, "account.since", "is needed to divide a vehicle-ever period", "missing")
    return allocation, cap


def _bbox(cells: CellsTable) -> tuple[float, float, float, float] | None:
    if cells.bbox is None:
        return None
    west, south, east, north = (float(edge) for edge in cells.bbox)
    fits = max(abs(west), abs(east)) <= 180 and west != east and -90 <= south < north <= 90
    rule = "must be west, south, east, north in degrees, south < north (west > east crosses the antimeridian)"
    _need(fits, "cells.bbox", rule, [west, south, east, north])
    return west, south, east, north


def _region(cells: CellsTable, folder: Path) -> tuple[int, ...] | None:
    _need(0 <= cells.resolution <= 15, "cells.resolution", "must be between 0 and 15", cells.resolution)
    if cells.region == "occupied":
        return None
    try:
        if isinstance(cells.region, list):
            found = cells_of_list(cells.region, cells.resolution)
        else:
            document = msgspec.json.decode(read_regular(folder / cells.region, REGION_BYTES))
            found = cells_of_geojson(document, cells.resolution)
    except OSError as error:
        raise SpecificationError(
            f"cells.region: {error.strerror}: {shortened(repr(cells.region))}; "
            'it is a GeoJSON file, a list of cells, or "occupied" for all cells with reports'
        ) from None
    except RecursionError:
        raise SpecificationError(f"cells.region: {shortened(repr(cells.region))} is nested too deeply") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, msgspec.MsgspecError) as error:
        raise SpecificationError(f"cells.region: {shortened(str(error))}") from None
    _need(bool(found), "cells.region", "must hold at least one cell at this resolution", "empty")
    return found


def _layout(table: InputTable) -> Layout:
    try:
        return layout(table.layout, table.columns, table.time_unit, table.speed_unit)
    except ValueError as error:
        raise SpecificationError(f"input: {error}") from None


def _statistics(document: Document) -> tuple[RequestedStatistic, ...]:
    _need(bool(document.statistic), "statistic", "needs at least one entry", "empty")
    prior = _prior(document.speed)
    parsed = [_statistic(dict(table), document, prior) for table in document.statistic]
    names = [name for name, _, _ in parsed]
    _need(len(set(names)) == len(names), "statistic.name", "must not repeat", names)
    whole = sum((weight for _, _, weight in parsed), Fraction(0))
    return tuple(RequestedStatistic(name, mechanism, weight / whole) for name, mechanism, weight in parsed)


def _levels(document: Document, region: tuple[int, ...] | None, timetable: Timetable) -> LevelsRelease | None:
    """The `levels` release that is asked for, if it is; under secret counts nothing else is."""
    account, privacy, tables = document.account, document.privacy, document.statistic
    wanted = [table.get("mechanism", "levels") for table in tables]
    if account.adjacency == "counts-public" and "levels" not in [table.get("mechanism") for table in tables]:
        for name, value in (("privacy.delta", privacy.delta), ("fleet", document.fleet)):
            _need(value is None, name, "goes with mechanism = 'levels'", "given")
        return None
    other = next((name for name in wanted if name != "levels"), None)
    _need(other is None, "statistic.mechanism", "must be 'levels', alone, under add-remove", other)
    refused = refusal(
        adjacency=account.adjacency,
        unit=account.unit,
        region=region,
        per=privacy.per,
        scope=privacy.scope,
        composition=privacy.composition,
        release_shards=privacy.release_shards,
        statistics=[str(table.get("name")) for table in tables],
    )
    if refused is not None:
        raise SpecificationError(refused)
    delta = privacy.delta
    _need(delta is None or 0 < delta < Fraction(1, 100), "privacy.delta", "must be above 0 and below 0.01", delta)
    options = {name: value for name, value in tables[0].items() if name not in ("name", "mechanism", "weight")}
    try:
        return levels_release(
            options,
            epsilon=privacy.epsilon,
            delta=delta,
            fleet=document.fleet or FleetTable(),
            region=region or (),
            timetable=timetable,
            counts_public=account.adjacency == "counts-public",
        )
    except (msgspec.ValidationError, ValueError) as error:
        raise SpecificationError(f"statistic with mechanism 'levels': {error}") from None


def _prior(speed: SpeedTable) -> Prior | None:
    if speed.prior is None:
        return None
    mean, sd, between = speed.prior.mean_kmh, speed.prior.sd_kmh, speed.prior.between
    _need(0 <= mean <= speed.upper_kmh, "speed.prior.mean_kmh", "must be between 0 and upper_kmh", mean)
    _need(
        speed.upper_kmh / 1000 <= sd <= speed.upper_kmh, "speed.prior.sd_kmh", "must be upper_kmh/1000 to upper_kmh", sd
    )
    _need(0 <= between <= 1, "speed.prior.between", "must be between 0 and 1", between)
    return Prior(float(mean), float(sd), float(between))


def _statistic(table: dict[str, Any], document: Document, prior: Prior | None) -> tuple[str, Mechanism, Fraction]:
    name, offered = table.pop("name", None), registry.registered()
    _need(name in offered, "statistic.name", f"must be one of {', '.join(offered)}", name)
    wanted = table.pop("mechanism", offered[str(name)].default)
    weight, adjacency = table.pop("weight", 1), document.account.adjacency
    known = {key: cls for key, cls in registered().items() if name in cls.statistics}
    fit = [key for key, cls in known.items() if adjacency in cls.adjacencies]
    if wanted not in known:
        raise SpecificationError(f"statistic.mechanism = {wanted!r} is not available; those that fit: {', '.join(fit)}")
    _need(wanted in fit, "statistic.mechanism", f"must fit {adjacency} ({', '.join(fit)})", wanted)
    try:
        second_stage = _second_stage(known[wanted]) if document.privacy.composition == "clip-user" else {}
        mechanism = _mechanism(known[wanted], second_stage | table)
        if isinstance(mechanism, Auto):
            mechanism = Auto(prior=prior, statistic=name)
        if isinstance(mechanism, Tree):
            mechanism = replace(mechanism, prior=prior)
        return str(name), mechanism, _weight(weight)
    except (msgspec.ValidationError, ValueError) as error:
        raise SpecificationError(f"statistic with mechanism {wanted!r}: {error}") from None


def _weight(value: object) -> Fraction:
    weight = from_toml(Fraction, value)
    _need(weight > 0, "statistic.weight", "must be above 0", weight)
    return weight


def _second_stage(cls: type[Mechanism]) -> dict[str, str]:
    """After suppression the plain estimators also cap the vehicles that are left (algorithms 9.4), unless told else."""
    capped = any(field.name == "m_ub" and field.default == "none" for field in fields(cls))  # type: ignore[arg-type]
    return {"m_ub": "opt"} if capped else {}


def _mechanism(cls: type[Mechanism], options: Mapping[str, Any]) -> Mechanism:
    """The mechanism with its options, which are the fields of its class."""
    names = {field.name for field in fields(cls)} - {"prior", "statistic"}  # type: ignore[arg-type]
    for name, value in options.items():
        if name not in names:
            raise ValueError(f"unknown option {name!r}; it has {sorted(names) or 'none'}")
        if isinstance(value, str | int):
            _check_option(cls, name, value)
    return msgspec.convert(options, cls)


def _check_option(cls: type[Mechanism], name: str, value: object) -> None:
    """Raises ValueError with the mechanism's own rule for the option, if it states one."""
    try:
        msgspec.convert({name: value}, cls)
    except msgspec.ValidationError as error:
        rule = str(error)
        raise ValueError(rule if rule.startswith(f"{name} must") else f"{name} = {value!r} is not available") from None


def _decisive_text(
    document: Document,
    region: tuple[int, ...] | None,
    statistics: tuple[RequestedStatistic, ...],
    levels: LevelsRelease | None,
    source: Layout,
) -> str:
    """Canonical JSON of everything that decides a release, defaults resolved.

    Left out: names, the account's limit, lateness. A region counts by its cells, so that moving the file or editing
    its white space draws no new noise.
    """
    plain = msgspec.to_builtins(document, enc_hook=_plain)
    del plain["name"], plain["account"]["limit"], plain["slot"]["allowed_lateness_s"]
    plain["cells"]["region"] = "occupied" if region is None else [f"{cell:x}" for cell in region]
    plain["speed"]["prior"] = None  # it counts as an option of the mechanisms that use it
    plain["input"] |= {"time_unit": source.units.time_unit, "speed_unit": str(source.units.kmh_per_unit)}
    plain["statistic"] = [
        {
            "name": stat.name,
            "mechanism": stat.mechanism.name,
            "share": str(stat.share),
            "options": {f.name: getattr(stat.mechanism, f.name) for f in fields(stat.mechanism)},  # type: ignore[arg-type]
        }
        for stat in statistics
    ]
    if levels is not None:
        plain["statistic"] = [{"name": "mean", "mechanism": MECHANISM, "options": levels.text()}]
    for table, name in ((plain["privacy"], "delta"), (plain, "fleet")):
        if table[name] is None:  # as before there was such a thing
            del table[name]
    return msgspec.json.encode(plain, order="deterministic").decode()


def _plain(value: object) -> str:
    if isinstance(value, Fraction | Limit):
        return str(value)
    raise TypeError(type(value).__name__)
