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
from transforms.value import SPEED

if TYPE_CHECKING:
    from pipelines.specification.values import Specification

DECISIVE = ("name", "unit", "timezone", "adjacency", "since", "until")  # all of an account but its limit


def decisive_text(spec: "Specification") -> str:
    """Returns canonical JSON of all that decides a release.

    Excludes names, the account's limit, lateness, coarser products. [speed] has "prior": null always, as the first
    versions did: a prior counts as an option of mechanisms. Keys of later versions are written only where not default.
    """
    table, value, keys, cells, levels = spec.timetable, spec.value, spec.keys, spec.cells, spec.levels
    days = {} if table.weekdays == WEEKDAYS else {"weekdays": list(table.weekdays)}
    plain: dict[str, Any] = {
        "account": msgspec.to_builtins({name: getattr(spec.account, name) for name in DECISIVE}),
        "slot": {"minutes": table.slot_minutes, "service": table.service_text, **days},
        "privacy": _privacy(spec),
        "input": _input(spec),
    }
    if keys is not None:
        plain["places"] = {"keys": keys.names, "above": keys.groups}
    else:
        plain["cells"] = {
            "resolution": cells.resolution,
            "region": "occupied" if cells.region is None else [f"{cell:x}" for cell in cells.region],
            "bbox": None if cells.exact_bbox is None else [str(edge) for edge in cells.exact_bbox],
        }
    if value.name == SPEED:
        plain["speed"] = {"upper_kmh": str(value.grid.upper), "grid_kmh": str(value.grid.step), "prior": None}
    else:
        bounds = {"lower": str(value.lower), "upper": str(value.lower + value.grid.upper)}
        plain["value"] = {"name": value.name, "unit": value.unit, **bounds}
    if levels is None:
        plain["statistic"] = [
            {
                "name": stat.name,
                "mechanism": stat.mechanism.name,
                "share": str(stat.share),
                "options": {
                    # not `statistic`, which is `name`; but where it DECIDES, ids have always had it twice
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
        for part in levels.parts:
            part.describe(plain)  # adds its tables to `plain`
        if levels.fleet_is_declared:
            fleet = msgspec.to_builtins(levels.fleet)
            fleet["profile"] = {name: number for name, number in fleet["profile"].items() if number is not None}
            plain["fleet"] = fleet
    return msgspec.json.encode(plain, order="deterministic").decode()


def _privacy(spec: "Specification") -> dict[str, Any]:
    """Writes [privacy] for the hash `spec_id`; later versions' keys only where used."""
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
    """Writes [input] for the hash `spec_id`, without later versions' keys at their defaults."""
    feed, layout, units = spec.input, spec.input.layout, spec.input.layout.units
    plain: dict[str, Any] = {"layout": feed.name, "columns": feed.columns, "time_unit": units.time_unit}
    plain |= {"speed_unit": str(units.value_per_unit), **feed.chosen}  # chosen: columns named for a built-in layout
    defaults: dict[str, tuple[Any, Any]] = {  # what is written, beside what is left out
        "records": (layout.records if isinstance(layout, JsonRecords) else None, None),
        "time_zone": (units.zone, None),
        "time_format": (None if units.time_format is None else units.time_format.text, None),
        "decimal": (units.decimal, "."),
        "no_value": (list(map(str, feed.no_value)), []),
        "vehicle_form": (feed.vehicle_form, "text"),
    }
    plain |= {name: value for name, (value, default) in defaults.items() if value != default}
    if feed.derived is not None:
        plain["derived_speed"] = {"max_gap_s": feed.derived.max_gap_s, "max_kmh": str(feed.derived.max_kmh)}
    if feed.turning is not None:
        plain["derived_heading"] = {"max_gap_s": feed.turning.max_gap_s, "min_m": feed.turning.min_m}
    if isinstance(layout, CsvTable) and (layout.delimiter, layout.header) != (",", True):
        plain |= {"delimiter": layout.delimiter, "header": layout.header}
    return plain
