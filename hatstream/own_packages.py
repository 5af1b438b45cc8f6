"""Finds the packages dpops, transforms and pipelines beside this one, whatever else has these names on the path."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OWN = ("dpops", "transforms", "pipelines")
HOME = str(Path(__file__).resolve().parents[1])


class _Own:
    """Knows three names, and where they are. Its interface is importlib.abc's, which costs 11 ms to import."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the interface
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, [HOME], target) if fullname in OWN else None


def find_own_packages_first() -> None:
    """Makes the three names mean hatstream's packages. Raises ImportError where one means another already."""
    for name in OWN:
        _refuse_other(name, sys.modules.get(name))
    if not any(isinstance(finder, _Own) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Own())


def _refuse_other(name: str, module: ModuleType | None) -> None:
    if module is None:
        return
    places = [str(Path(place).resolve().parent) for place in getattr(module, "__path__", [])]
    if HOME not in places:
        where = getattr(module, "__file__", None) or ", ".join(places) or "elsewhere"
        raise ImportError(
            f"hatstream has a package {name!r} of its own, and another one was imported before it: {where}. "
            f"Import hatstream first, in a program that does not import that one, or give that one another name"
        )
