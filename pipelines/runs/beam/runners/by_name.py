"""Any runner that Beam knows by its name: the job is handed over with Beam's own options, waited for, and counted."""

import io
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineResult, PipelineState

from pipelines.engine import EngineError, Finished
from pipelines.errors import UsageError
from pipelines.runs.beam.options import refuse_type_checks
from pipelines.runs.beam.results import finished, reason_of

WATCH_S = 2.0
_SAID_LENGTH = 300
_SIDE_BY_SIDE = re.compile(r"--(?:parallelism|num_workers|max_num_workers|direct_num_workers)[= ](\d+)")
_HAND_ON = {"FlinkRunner", "SparkRunner", "PortableRunner", "PrismRunner"}
"""Those whose job server has options of its own, which Beam's Python does not know."""
_NEEDS = {"DataflowRunner": "Google's libraries: pip install 'apache-beam[gcp]'"}


@dataclass(frozen=True)
class ByName:
    """A Beam runner and its options, as they stand behind `--` on the command line.

    Raises UsageError for values that an option cannot have, and for options that nobody knows.
    """

    name: str
    options: tuple[str, ...] = ()
    options_type: ClassVar[type[PipelineOptions]] = PipelineOptions

    def __post_init__(self) -> None:
        if self.handed_on and self.name not in _HAND_ON:
            raise UsageError(f"{self.name} has no option {self.handed_on[0]}")
        options = PipelineOptions(list(self.options))
        if (other := options.view_as(StandardOptions).runner) is not None:
            raise UsageError(f"{self.name}: the runner is named once, before --; behind it is --runner {other}")
        refuse_type_checks(options)

    @property
    def handed_on(self) -> tuple[str, ...]:
        """The options that Beam's Python does not know; a job server may."""
        usage = io.StringIO()
        try:
            with redirect_stderr(usage), redirect_stdout(io.StringIO()):
                options = PipelineOptions(list(self.options))
                options_set = options.get_all_options()
                given = options.get_all_options(retain_unknown_options=True)
        except SystemExit:
            told = usage.getvalue().strip().rpartition("error: ")[2]
            raise UsageError(f"{self.name}: {told or 'its options are told in the documentation of Beam'}") from None
        return tuple(f"--{name}" for name in given if name not in options_set)

    @property
    def parallelism(self) -> int:
        """What the options say of workers that work side by side; 1 where they say nothing."""
        return max((int(number) for number in _SIDE_BY_SIDE.findall(" ".join(self.options))), default=1)

    @property
    def is_here(self) -> bool:
        return False

    def run(
        self, build: Callable[[beam.Pipeline], None], name: str, watch: Callable[[Mapping[str, int]], None]
    ) -> Finished:
        p = self.pipeline(build, name)
        try:
            result = self.submitted(p)
            with _watched(result, watch):
                state = result.wait_until_finish() or result.state
        except Exception as error:  # noqa: BLE001 - what a step read may stand in it: only our own sentences are shown
            self._raise(error)
        if state not in (PipelineState.DONE, PipelineState.UNKNOWN):
            raise EngineError(f"{self.name} ended the job in state {state}; its own log says why")
        return finished(result)

    def pipeline(self, build: Callable[[beam.Pipeline], None], name: str) -> beam.Pipeline:
        """Builds the whole job, ready to run. Raises UsageError for options that do not go together."""
        try:
            flags = [f"--runner={self.name}", f"--job_name={job_name(name)}", *self.beam_options()]
            p = beam.Pipeline(runner=self.runner(), options=self.options_type(flags))
        except ImportError:
            raise EngineError(f"{self.name} needs {_NEEDS.get(self.name, 'a library that is not installed')}") from None
        except ValueError as error:
            raise UsageError(f"{self.name}: {error}") from None
        build(p)
        return p

    def beam_options(self) -> tuple[str, ...]:
        """Lists the options of the command line, with what the runner needs besides."""
        return self.options

    def runner(self) -> Any:
        """Gives what Beam's pipeline takes as its runner."""
        return self.name

    def submitted(self, p: beam.Pipeline) -> PipelineResult:
        """Hands over the job to whoever runs it. Raises EngineError; nothing of the input was read by then."""
        try:
            return p.run()
        except Exception as error:  # noqa: BLE001 - whatever Beam raises where nobody takes a job
            said = str(error).strip().partition("\n")[0][:_SAID_LENGTH]
            told = f"{type(error).__name__}: {said}" if said else type(error).__name__
            raise EngineError(f"{self.name} did not take the job ({told})") from None

    def _raise(self, error: Exception) -> NoReturn:
        if isinstance(error, UsageError | EngineError):
            raise error
        told = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
        raise reason_of(told) or self.unknown(error) from None

    def unknown(self, error: Exception) -> Exception:
        """Tells what is said of a failure that is none of ours; its own message may hold what was read."""
        return EngineError(f"{self.name} failed ({type(error).__name__}); its own log says why")


def job_name(name: str) -> str:
    """Writes the name as the strictest runner takes it: lower letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@contextmanager
def _watched(result: PipelineResult, watch: Callable[[Mapping[str, int]], None]) -> Any:
    """Shows the job's counters every other second while the block lasts, where the runner tells them.

    A copy is asked: what Beam's result of a job server was told of first, it tells ever after.
    """
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(WATCH_S):
            with suppress(Exception):
                watch(finished(copy(result)).counts)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(WATCH_S)
