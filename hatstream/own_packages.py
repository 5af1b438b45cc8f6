"""Import of hatstream's packages ahead of namesakes, and of Beam without a needless warning."""

import importlib
import logging
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

OWN = ("dpops", "transforms", "pipelines")
HOME = str(Path(__file__).resolve().parents[1])


class _Own:
    """Import finder of three packages; not importlib.abc's subclass, whose import costs 11 ms."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds the three packages beside this one, and none of another name."""
        return PathFinder.find_spec(fullname, [HOME], target) if fullname in OWN else None


def find_own_packages_first() -> None:
    """Makes the three names mean hatstream's packages. Raises ImportError where one means another already."""
    for name in OWN:
        module = sys.modules.get(name)
        folders = [str(Path(path).resolve().parent) for path in getattr(module, "__path__", [])]
        if module is not None and HOME not in folders:
            origin = getattr(module, "__file__", None) or ", ".join(folders) or "elsewhere"
            raise ImportError(
                f"hatstream has a package {name!r} of its own, and another one was imported before it: {origin}. "
                "Import hatstream first, in a program that does not import that one, or give that one another name"
            )
    if not any(isinstance(finder, _Own) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Own())  # ahead of the finder by sys.path, where a namesake may come first


def loaded(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Imports a package's public name lazily. modules: space-separated names by module.

    It hides Beam's warning about missing Google Cloud libraries, which nothing here uses.
    """
    module = next((module for module, names in modules.items() if name in names.split()), None)
    if module is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    root = logging.getLogger()
    root.addFilter(_is_no_complaint)
    try:
        return getattr(importlib.import_module(module), name)
    finally:
        root.removeFilter(_is_no_complaint)


def _is_no_complaint(record: logging.LogRecord) -> bool:
    """Filters out Beam's warning about missing Google Cloud libraries."""
    return not record.getMessage().startswith("apitools not found")
