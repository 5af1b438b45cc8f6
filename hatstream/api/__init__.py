"""Public interface of companions, beside `dpops`.

Other names may change without notice. Names are imported lazily, for fast --help. See docs/api/companions.md.
"""

from typing import TYPE_CHECKING, Any

from hatstream.own_packages import loaded

if TYPE_CHECKING:
    from hatstream.api.account import AccountReport, result_columns
    from hatstream.api.evaluation import count_days, release_days
    from hatstream.api.inputs import open_input, own_layouts, read_batches, read_positions, read_tables, write_rows
    from hatstream.api.results import read_results
    from pipelines.commands.options import option, packed
    from pipelines.commands.terminal import asked_to_stop, console, note, progress_bars
    from pipelines.errors import InputError, UsageError
    from pipelines.inputs import input_paths
    from pipelines.plan.levels import worth_by_day
    from pipelines.specification import Specification, SpecificationError, load
    from transforms.atomic_files import write_whole
    from transforms.layouts import layout
    from transforms.observe.vehicle_ids import MergedIds, vehicle_ids
    from transforms.places.hexagons import cut_at_antimeridian
    from transforms.places.shapes import places_outside

_NAMES = {
    "hatstream.api.account": "AccountReport result_columns",
    "hatstream.api.evaluation": "count_days release_days",
    "hatstream.api.inputs": "open_input own_layouts read_batches read_positions read_tables write_rows",
    "hatstream.api.results": "read_results",
    "pipelines.commands.options": "option packed",
    "pipelines.commands.terminal": "asked_to_stop console note progress_bars",
    "pipelines.errors": "InputError UsageError",
    "pipelines.inputs": "input_paths",
    "pipelines.plan.levels": "worth_by_day",
    "pipelines.specification": "Specification SpecificationError load",
    "transforms.atomic_files": "write_whole",
    "transforms.layouts": "layout",
    "transforms.places.hexagons": "cut_at_antimeridian",
    "transforms.places.shapes": "places_outside",
    "transforms.observe.vehicle_ids": "MergedIds vehicle_ids",
}

# fmt: off
__all__ = [
    "AccountReport", "InputError", "MergedIds", "Specification", "SpecificationError", "UsageError",
    "asked_to_stop", "console", "count_days", "cut_at_antimeridian", "input_paths", "layout",
    "load", "note", "open_input", "option", "own_layouts", "packed", "places_outside", "progress_bars",
    "read_batches", "read_positions", "read_results", "read_tables", "release_days", "result_columns",
    "vehicle_ids", "worth_by_day", "write_rows", "write_whole",
]
# fmt: on


def __getattr__(name: str) -> Any:
    return loaded(__name__, _NAMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
