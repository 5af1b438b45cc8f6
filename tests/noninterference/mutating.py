"""How a mutant takes the place of what it breaks, wherever that was imported; and the registry of all."""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

PACKAGES = ("dpops", "transforms", "pipelines", "hatstream", "hatstream_city", "hatstream_publish", "hatstream_local")
OURS = (*PACKAGES, "hatstream_lab", "tests")


@dataclass(frozen=True)
class Mutant:
    """breaks: what is wrong, in words. case: that finds it (tests/noninterference/cases.py). where: its places."""

    name: str
    breaks: str
    case: str
    where: tuple[str, ...]
    apply: Callable[[pytest.MonkeyPatch], None]


MUTANTS: list[Mutant] = []
Change = Callable[..., Any]


def mutant(name: str, case: str, *where: str) -> Callable[[Change], Change]:
    """Registers a function that is called for one of the product, which comes before that one's arguments.

    where: `module:name`, also of a class's member. Its docstring says what is wrong.
    """

    def register(change: Change) -> Change:
        def apply(patch: pytest.MonkeyPatch) -> None:
            for place in where:
                replace_everywhere(patch, place, change)

        MUTANTS.append(Mutant(name, (change.__doc__ or "").strip(), case, where, apply))
        return change

    return register


def replace_everywhere(patch: pytest.MonkeyPatch, place: str, change: Change) -> None:
    """Whoever imported it by name gets the mutant too."""
    import_all()
    module, _, path = place.partition(":")
    *within, name = path.split(".")
    holder: Any = __import__(module, fromlist=["_"])
    for part in within:
        holder = getattr(holder, part)
    original = getattr(holder, name)
    changed = (lambda *given, **named: change(original, *given, **named)) if callable(original) else change(original)
    patch.setattr(holder, name, changed)
    for importer in [importer for key, importer in sys.modules.items() if key.split(".")[0] in OURS and not within]:
        for attribute, value in list(vars(importer).items()):
            if value is original:
                patch.setattr(importer, attribute, changed)


@cache
def import_all() -> None:
    """What is imported while a mutant is there would keep it."""
    for package in PACKAGES:
        for submodule in walk_packages(__import__(package).__path__, f"{package}."):
            if submodule.name.endswith("__main__"):
                continue
            with suppress(ImportError):  # what is not installed nobody imports later
                import_module(submodule.name)


SEEN = Counter[str]()  # what some mutants know of the input and should not


def broken(mutant: Mutant, patch: pytest.MonkeyPatch) -> None:
    """Puts the mutant in the place of what it breaks."""
    SEEN.clear()
    watch_rows(patch)
    mutant.apply(patch)


def watch_rows(patch: pytest.MonkeyPatch) -> None:
    """Lets mutants know how many rows were read since the last release began."""

    def counting(count_in: Any, outcome: Any, counts: Any) -> None:
        count_in(outcome, counts)
        SEEN["rows"] = outcome.rows

    replace_everywhere(patch, "pipelines.outcome:count_in", counting)
