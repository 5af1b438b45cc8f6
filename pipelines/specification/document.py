"""The specification as it is written: one strict TOML file, as tables of numbers and text."""

import sys
import tomllib
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec

from dpops.accountant import Limit
from dpops.allocation import Per, Scope
from pipelines.specification.levels import FleetTable, LiveTable
from pipelines.specification.limits import limit_from_toml
from pipelines.specification.numbers import from_toml, shortened
from transforms.regular_files import read_regular
from transforms.time.calendar import Unit

SPEC_BYTES = 1 << 20


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
    time_zone: str | None = None
    delimiter: str | None = None
    header: bool | None = None


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
    live: LiveTable | None = None


def read(path: Path) -> Document:
    """The document of a specification file, of which only the types are checked. Raises SpecificationError."""
    try:
        data = tomllib.loads(read_regular(path, SPEC_BYTES).decode(), parse_float=Decimal)
    except OSError as error:
        raise SpecificationError(f"the specification cannot be read: {error.strerror}: {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecificationError(f"{path} is not TOML: {shortened(str(error))}") from None
    except RecursionError:
        raise SpecificationError(f"{path} is nested too deeply") from None
    except ValueError:  # the only other one: of a number that is too long for Python
        most = sys.get_int_max_str_digits()
        raise SpecificationError(f"{path} holds a number of more than {most:,} digits") from None
    try:
        return msgspec.convert(data, Document, dec_hook=_value)
    except msgspec.ValidationError as error:
        raise SpecificationError(f"{path}: {shortened(str(error))}") from None


def _value(kind: type, value: object) -> Fraction | Limit:
    return limit_from_toml(value) if kind is Limit else from_toml(kind, value)
