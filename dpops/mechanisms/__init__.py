"""Mechanisms, one file each; classes with names are registered."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from dpops.estimate import Estimates
from dpops.mechanism import Integers, Mechanism


@cache
def registered() -> dict[str, type[Mechanism]]:
    """Lists mechanism classes by name, in alphabetical order.

    >>> registered()["tree"].statistics
    frozenset({'distribution'})
    """
    by_name: dict[str, type[Mechanism]] = {}
    for info in pkgutil.iter_modules(__path__, f"{__name__}."):
        module = importlib.import_module(info.name)
        for item in vars(module).values():
            name = getattr(item, "name", None)
            if isinstance(item, type) and item.__module__ == info.name and isinstance(name, str):
                by_name[name] = item
    return dict(sorted(by_name.items()))


def stored_estimates(
    name: str, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float
) -> Estimates:
    """Reads estimates, whose intervals miss with probability `miss`. Raises ValueError for undeclared outputs."""
    kind = registered()[name]
    estimates = kind.estimates(released, plans, miss)
    if released and len(estimates.numbers) + len(estimates.lists) != max(1, len(kind.outputs)):  # no names: one number
        raise ValueError(f"{name} returned other outputs than it declares")
    return estimates
