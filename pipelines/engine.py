"""Interface and common parts of engines for bounded jobs."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # Beam takes seconds to import
    import apache_beam as beam

ENDED = ("FINISHED", "CANCELED", "FAILED")  # Flink's final states of a job


class EngineError(Exception):
    """Error of an engine or of its job."""


Watch = Callable[[Mapping[str, int]], None]  # takes a running job's counters by name


class Finished(NamedTuple):
    """Counters and texts of a finished job, by metric."""

    counts: Mapping[str, int]
    texts: Mapping[str, frozenset[str]]


class BoundedEngine(Protocol):
    """Runs bounded pipelines."""

    @property
    def parallelism(self) -> int:
        """How many workers read and count side by side."""

    @property
    def is_here(self) -> bool:
        """Whether all steps run in this process."""

    def run(self, build: "Callable[[beam.Pipeline], None]", name: str, watch: Watch) -> Finished:
        """Runs the pipeline of `build` to its end.

        Returns its last counters, and texts. watch: called with the counters so far. An interrupt ends the job. Raises
        a step's StepError, LedgerError or AccountRefusal, else EngineError.
        """


@contextmanager
def watched_every(seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` in a thread every so many seconds while the block lasts."""
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
        thread.join(seconds)  # no longer: a last look may hang on a server that is lost
