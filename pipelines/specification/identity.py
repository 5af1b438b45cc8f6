"""Content that a specification's id is the hash of."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from dpops.mechanism import DECIDES
from dpops.statistics import COUNT
from transforms.layouts.mapped.csv import CsvTable
from transforms.layouts.mapped.json import JsonRecords
from transforms.recorded.units import VECTOR
from transforms.time.calendar import WEEKDAYS
from transforms.value import NAME

if TYPE_CHECKING:
    from pipelines.specification.values import Specification


def decisive_text(spec: "Specification") -> str:
    """Returns canonical JSON of all that decides a release.

    Excludes names, the account's limit, lateness, coarser products. A prior counts as an option of mechanisms.
    """
    account = ("name", "unit", "timezone", "adjacency", "since", "until")
    table, value, keys, cells = spec.timetable, spec.value, spec.keys, spec.cells
    slot: dict[str, Any] = {"minutes": table.slot_minutes, "service": table.service_text}
    if table.weekdays != WEEKDAYS:
        slot["weekdays"] = list(table.weekdays)
    plain: dict[str, Any] = {
        "account": msgspec.to_builtins({name: getattr(spec.account, name) for name in account}),
        "slot": slot,
        "privacy": _privacy(spec),
        "input": _input(spec),
    }
    plain |= {"places": {"keys": keys.names, "above": keys.groups}} if keys is not None else {}
    if keys is None:
        plain["cells"] = {
            "resolution": cells.resolution,
            "region": "occupied" if cells.region is None else [f"{cell:x}" for cell in spec.cells.region or ()],
            "bbox": None if cells.exact_bbox is None else [str(edge) for edge in cells.exact_bbox],
        }
    if value.name == NAME:
        plain["speed"] = {"upper_kmh": str(value.grid.upper), "grid_kmh": str(value.grid.step), "prior": None}
    else:
        bounds = {"lower": str(value.lower), "upper": str(value.lower + value.grid.upper)}
        plain["value"] = {"name": value.name, "unit": value.unit, **bounds}
    levels = spec.levels
    if levels is None:
        plain["statistic"] = [
            {
                "name": stat.name,
                "mechanism": stat.mechanism.name,
                "share": str(stat.share),
                "options": {
                    # the statistic stands beside them, unless a mechanism says that it has always repeated it
                    option.name: getattr(stat.mechanism, option.name)
                    for option in fields(stat.mechanism)  # type: ignore[arg-type]
                    if option.name != "statistic" or option.metadata.get(DECIDES)
                },
            }
            for stat in spec.statistics
        ]
    else:
        name = "mean" if levels.counted is None else COUNT.name
        plain["statistic"] = [{"name": name, "mechanism": VECTOR, "options": levels.text()}]
        if levels.classes is not None:
            plain["statistic"].append(levels.classes.text())
        if levels.fleet_is_declared:
            fleet = msgspec.to_builtins(levels.fleet)
            fleet["profile"] = {name: number for name, number in fleet["profile"].items() if number is not None}
            plain["fleet"] = fleet
    if spec.places is not None:
        plain["places"] = spec.places.text
    return msgspec.json.encode(plain, order="deterministic").decode()


def _privacy(spec: "Specification") -> dict[str, Any]:
    allocation, cap, levels = spec.privacy.allocation, spec.privacy.cap, spec.levels
    plain: dict[str, Any] = {
        "epsilon": str(allocation.epsilon),
        "per": allocation.per,
        "composition": "clip-user" if allocation.suppress else "none" if cap is None else "cap",
        "scope": allocation.scope,
        "release_shards": spec.privacy.release_shards,
        "max_cells": None if cap is None else cap.max_cells,
        "max_samples": None if cap is None else cap.max_samples,
    }
    if levels is not None and levels.delta is not None:
        plain["delta"] = str(levels.delta)
    if spec.span is not None:
        plain["span_days"] = spec.span.days
        if spec.span.shares:
            plain["day_weights"] = dict(zip(WEEKDAYS, map(str, spec.span.shares), strict=True))
        if spec.span.first is not None:
            since, days, times = spec.span.first
            plain["first_days"] = {"since": since.isoformat(), "days": days, "weight": str(times)}
    return plain


def _input(spec: "Specification") -> dict[str, Any]:
    units, layout = spec.input.layout.units, spec.input.layout
    plain: dict[str, Any] = {
        "layout": spec.input.name,
        "columns": spec.input.columns,
        "time_unit": units.time_unit,
        "speed_unit": str(units.value_per_unit),
    }
    if isinstance(layout, JsonRecords) and layout.records is not None:
        plain["records"] = layout.records
    if units.zone is not None:
        plain["time_zone"] = units.zone
    if units.time_format is not None:
        plain["time_format"] = units.time_format.text
    if units.decimal != ".":
        plain["decimal"] = units.decimal
    plain |= spec.input.chosen
    if spec.input.no_value:
        plain["no_value"] = list(map(str, spec.input.no_value))
    if spec.input.vehicle_form != "text":
        plain["vehicle_form"] = spec.input.vehicle_form
    if spec.input.derived is not None:
        plain["derived_speed"] = {"max_gap_s": spec.input.derived.max_gap_s, "max_kmh": str(spec.input.derived.max_kmh)}
    if spec.input.turning is not None:
        plain["derived_heading"] = {"max_gap_s": spec.input.turning.max_gap_s, "min_m": spec.input.turning.min_m}
    if isinstance(layout, CsvTable) and (layout.delimiter, layout.has_header) != (",", True):
        plain |= {"delimiter": layout.delimiter, "header": layout.has_header}
    return plain
