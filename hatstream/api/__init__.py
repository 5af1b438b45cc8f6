"""What companions are built on, and all that they may use of hatstream beside `dpops`: few names, each of them deep.

Whatever is not named here may change without a word. A name is imported when it is asked for: the help of a command
costs what the command line costs. docs/api/companions.md shows all of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatstream.api.inputs import input_paths, open_input, own_layouts, places_outside, read_batches
    from pipelines.commands.interrupt import asked_to_stop
    from pipelines.commands.options import answer, option
    from pipelines.commands.terminal import note
    from pipelines.errors import InputError, UsageError
    from pipelines.specification import load
    from transforms.atomic_files import write_whole
    from transforms.layouts import layout
    from transforms.observe.vehicle_ids import MergedIds, vehicle_ids

_NAMES = {
    "hatstream.api.inputs": ("input_paths", "open_input", "own_layouts", "places_outside", "read_batches"),
    "pipelines.commands.interrupt": ("asked_to_stop",),
    "pipelines.commands.options": ("answer", "option"),
    "pipelines.commands.terminal": ("note",),
    "pipelines.errors": ("InputError", "UsageError"),
    "pipelines.specification": ("load",),
    "transforms.atomic_files": ("write_whole",),
    "transforms.layouts": ("layout",),
    "transforms.observe.vehicle_ids": ("MergedIds", "vehicle_ids"),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "InputError",
    "MergedIds",
    "UsageError",
    "answer",
    "asked_to_stop",
    "input_paths",
    "layout",
    "load",
    "note",
    "open_input",
    "option",
    "own_layouts",
    "places_outside",
    "read_batches",
    "vehicle_ids",
    "write_whole",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
