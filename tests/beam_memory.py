"""Lets Beam remember what it asks of the same classes for every pipeline: half of what a small pipeline costs.

Signatures of functions and parsed options depend on the function, and on the class and the flags, alone.
"""

import copy
import functools
import sys
from argparse import Namespace
from collections.abc import Callable
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary


def let_beam_remember() -> None:
    """Where Beam is imported; once."""
    if "apache_beam" not in sys.modules:
        return
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import core

    if not hasattr(core.get_function_args_defaults, "__wrapped__"):
        core.get_function_args_defaults = _once_a_function(core.get_function_args_defaults)
        PipelineOptions.view_as = _once_a_class(PipelineOptions.view_as)


def _once_a_function(ask: Callable[[Any], tuple[list[str], list[Any]]]) -> Any:
    cached: WeakKeyDictionary[Any, tuple[list[str], list[Any]]] = WeakKeyDictionary()

    @functools.wraps(ask)
    def asked(f: Any) -> tuple[list[str], list[Any]]:
        if not isinstance(f, MethodType):
            return ask(f)
        if f.__func__ not in cached:
            cached[f.__func__] = ask(f)
        names, defaults = cached[f.__func__]
        return list(names), list(defaults)

    return asked


def _once_a_class(view_as: Callable[[Any, type], Any]) -> Any:
    cached: dict[tuple[type, tuple[str, ...]], dict[str, Any]] = {}

    @functools.wraps(view_as)
    def viewed(self: Any, cls: type) -> Any:
        if self._flags is None:  # then it is for the arguments of this process to say
            return view_as(self, cls)
        key = cls, tuple(self._flags)
        if key not in cached:
            parsed = cls(self._flags)
            cached[key] = vars(parsed._visible_options)
        view = cls.__new__(cls)
        visible = copy.deepcopy(cached[key])
        for name, value in visible.items():
            self._all_options.setdefault(name, value)
        view.__dict__.update(_flags=self._flags, _visible_options=Namespace(**visible), _all_options=self._all_options)
        return view

    return viewed
