"""Side outputs of steps: counters, progress, dead letters."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, Literal, Protocol, TypeVar

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import DoOutputsTuple, TaggedOutput
from apache_beam.typehints.decorators import IOTypeHints, get_type_hints

from transforms import counters
from transforms.records import REFUSED, KeyedDemand, Refused

Phase = Literal["read", "counted", "drawn", "recorded"]
Listener = Callable[[Phase, int | str], object]
"""Called with a phase and rows that were read, else the slot or period that is done."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def count(name: str, number: int = 1) -> None:
    """Adds to a counter of Beam's metrics."""
    Metrics.counter(counters.NAMESPACE, name).inc(number)


def passed(phase: Phase, unit: int | str) -> None:
    """Reports progress to this thread's listener, if any."""
    if (listener := _LISTENER.get()) is not None:
        listener(phase, unit)


@contextmanager
def report_to(listener: Listener) -> Iterator[None]:
    """Reports progress to a listener within the block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class Store(Protocol):
    """Store of bytes between steps of one process."""

    def put(self, data: bytes) -> bytes:
        """Stores data; returns a key to shuffle instead."""

    def get(self, put: bytes) -> bytes:
        """Returns the data of a key."""


Refusal = TaggedOutput[Literal["refused"], Refused]

Demanded = TaggedOutput[Literal["demand"], KeyedDemand]

Given = TypeVar("Given")


class Parting(beam.PTransform[Given, DoOutputsTuple], Generic[Given]):
    """PTransform with several outputs, typed to avoid Beam's warnings."""

    def default_type_hints(self) -> IOTypeHints:
        """Takes the input's type from `expand`, but not the output's, which Beam cannot check."""
        hints = IOTypeHints.from_callable(self.expand) or IOTypeHints.empty()
        return get_type_hints(self.__class__).with_defaults(hints._replace(output_types=None).strip_pcoll())


def dead_letters(stage: str, reasons: Mapping[str, int]) -> Iterator[Refusal]:
    """Yields a dead letter per reason with refused rows."""
    for reason, rows in reasons.items():
        if rows:
            yield TaggedOutput(REFUSED, Refused(stage, reason, rows))
