"""Finds the mechanisms: every module under dpops/mechanisms offers the classes that carry a `name`."""

import importlib
import pkgutil
from functools import cache

from dpops import mechanisms
from dpops.mechanism import Mechanism


@cache
def registered() -> dict[str, type[Mechanism]]:
    """Mechanism classes by the name a specification uses, sorted by name."""
    found: dict[str, type[Mechanism]] = {}
    for info in pkgutil.iter_modules(mechanisms.__path__, mechanisms.__name__ + "."):
        module = importlib.import_module(info.name)
        for item in vars(module).values():
            name = getattr(item, "name", None)
            if isinstance(item, type) and item.__module__ == info.name and isinstance(name, str):
                found[name] = item
    return dict(sorted(found.items()))
