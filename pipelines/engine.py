"""What a stream, or a bounded job, asks of an engine. Flink is one: pipelines/runs/flink."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from transforms.public import Operator

if TYPE_CHECKING:  # Beam takes seconds to import
    import apache_beam as beam

ENDED = ("FINISHED", "CANCELED", "FAILED")
"""The states after which a job does nothing any more. Beam's DONE and CANCELLED are the first two."""


class EngineError(Exception):
    """An engine did not take a job, lost it, or does not answer. The message says where."""


class StreamJob(Protocol):
    """A job that an engine has taken."""

    @property
    def id(self) -> str:
        """What the engine calls it."""

    @property
    def where(self) -> str:
        """The address at which people can look at it."""

    def state(self) -> str | None:
        """Tells one of ENDED, RUNNING, or another word of the engine's; None where nobody answers in seconds."""

    def counters(self) -> Operator[Mapping[str, int]]:
        """Reads our counters since the job was started or started again; their spaces may be `_`. Raises OSError."""

    def cancel(self) -> None:
        """Ends the job and waits until it has ended. Raises EngineError where it has not, or where nobody can say."""


class Engine(Protocol):
    """Runs unbounded pipelines.

    What it says of time decides what is lost: the watermark behind a source is the least of all promises of its
    restrictions, also of those that wait for their next poll. Where it is more, the engine drops unread rows as late,
    no counter knows of them, and slots are sealed without them (tests/stream/test_engines.py).
    """

    def submit(self, build: "Callable[[beam.Pipeline], None]", name: str, stop: threading.Event) -> StreamJob:
        """Hands over the pipeline that `build` makes. name: of no other job.

        Raises EngineError, also where nobody has taken it in minutes, or in seconds after `stop` is set.
        """


class Finished(NamedTuple):
    """Counters and texts of a finished bounded job, by the names of metrics."""

    counts: Mapping[str, int]
    texts: Mapping[str, frozenset[str]]


class BoundedEngine(Protocol):
    """Runs bounded pipelines."""

    @property
    def parallelism(self) -> int:
        """How many workers read and count side by side."""

    @property
    def is_here(self) -> bool:
        """Whether all steps run in this process, where they can leave what they shuffle in its temporary files."""

    def run(
        self, build: "Callable[[beam.Pipeline], None]", name: str, watch: Callable[[Mapping[str, int]], None]
    ) -> Finished:
        """Runs the pipeline that `build` makes, to its end. name: of no other job. watch: sees its counters meanwhile.

        Raises StepError, LedgerError or AccountRefusal where a step did, else EngineError. An interrupt ends the job.
        """


@contextmanager
def watched_every(seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Calls a function every so many seconds while the block lasts."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            look()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(seconds)
