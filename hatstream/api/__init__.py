"""What companions are built on, and all that they may use of hatstream beside `dpops`: few names, each of them deep.

Whatever is not named here may change without a word. A name is imported when it is asked for: the help of a command
costs what the command line costs. docs/api/companions.md shows all of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatstream.api.account import AccountReport, find_account
    from hatstream.api.columns import result_columns
    from hatstream.api.counted import count_days
    from hatstream.api.evaluation import release_days
    from hatstream.api.inputs import (
        input_paths,
        open_input,
        own_layouts,
        places_outside,
        read_batches,
        read_positions,
        read_tables,
        write_rows,
    )
    from hatstream.api.results import read_results
    from pipelines.commands.interrupt import asked_to_stop
    from pipelines.commands.options import option, packed
    from pipelines.commands.terminal import console, note, progress_bars
    from pipelines.errors import InputError, UsageError
    from pipelines.specification import Specification, SpecificationError, load
    from transforms.atomic_files import write_whole
    from transforms.layouts import layout
    from transforms.observe.vehicle_ids import MergedIds, vehicle_ids
    from transforms.places.hexagons import cut_at_antimeridian

_NAMES = {
    "hatstream.api.account": "AccountReport find_account",
    "hatstream.api.columns": "result_columns",
    "hatstream.api.counted": "count_days",
    "hatstream.api.evaluation": "release_days",
    "hatstream.api.inputs": "input_paths open_input own_layouts places_outside "
    "read_batches read_positions read_tables write_rows",
    "hatstream.api.results": "read_results",
    "pipelines.commands.interrupt": "asked_to_stop",
    "pipelines.commands.options": "option packed",
    "pipelines.commands.terminal": "console note progress_bars",
    "pipelines.errors": "InputError UsageError",
    "pipelines.specification": "Specification SpecificationError load",
    "transforms.atomic_files": "write_whole",
    "transforms.layouts": "layout",
    "transforms.places.hexagons": "cut_at_antimeridian",
    "transforms.observe.vehicle_ids": "MergedIds vehicle_ids",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

# fmt: off
__all__ = [
    "AccountReport", "InputError", "MergedIds", "Specification", "SpecificationError", "UsageError",
    "asked_to_stop", "console", "count_days", "cut_at_antimeridian", "find_account", "input_paths", "layout",
    "load", "note", "open_input", "option", "own_layouts", "packed", "places_outside", "progress_bars",
    "read_batches", "read_positions", "read_results", "read_tables", "release_days", "result_columns",
    "vehicle_ids", "write_rows", "write_whole",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
