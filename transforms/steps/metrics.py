"""The road's counters as metrics of an engine, and how far it is, for whoever listens in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from apache_beam.metrics.metric import Metrics

from transforms import counters

Phase = Literal["read", "counted", "drawn", "recorded"]
Listener = Callable[[Phase, int | str], object]
"""Called with a phase and rows that were read, else the slot or period that is done."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def count(name: str, number: int = 1) -> None:
    """Adds to a counter, which is told as soon as it is there."""
    Metrics.counter(counters.NAMESPACE, name).inc(number)


def passed(phase: Phase, what: int | str) -> None:
    """Tells the listener of a phase's progress, where steps run in the thread that listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(phase, what)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Has the listener hear how far the road is, within the block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
