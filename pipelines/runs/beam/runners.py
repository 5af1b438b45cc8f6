"""Beam's runners for bounded jobs: any by name, and FnApiRunner in this process."""

import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions, TypeOptions
from apache_beam.runners.runner import PipelineResult, PipelineState

from pipelines.engine import EngineError, Finished, Watch, watched_every
from pipelines.errors import UsageError
from transforms import counters
from transforms.errors import StepError
from transforms.ledger.head import LedgerError
from transforms.ledger.spending import AccountRefusal

WATCH_S = 2.0  # between two looks at the job's counters
_PARALLELISM = re.compile(r"--(?:parallelism|num_workers|max_num_workers|direct_num_workers)[= ](\d+)")
_PORTABLE = {"FlinkRunner", "SparkRunner", "PortableRunner", "PrismRunner"}  # their job servers have further options
_NEEDS = {"DataflowRunner": "Google's libraries: pip install 'apache-beam[gcp]'"}
_NO_PRISM = ("Unable to fetch remote prism", "Unable to parse binary URL", "Unable to install a local of Prism")
_NEEDS_PRISM = (
    "PrismRunner needs Prism's program, and it cannot be downloaded: give its path after -- as --prism_location=PATH, "
    "or put `prism` on the PATH; --runner FnApiRunner needs none"
)


@dataclass(frozen=True)
class ByName:
    """Beam runner by name, with options behind `--`; wrong ones raise UsageError."""

    name: str
    options: tuple[str, ...] = ()
    is_here: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.handed_on and self.name not in _PORTABLE:  # only job servers may know more options than Beam's Python
            raise UsageError(f"{self.name} has no option {self.handed_on[0]}")
        options = PipelineOptions(list(self.options))
        if (runner := options.view_as(StandardOptions).runner) is not None:
            raise UsageError(f"{self.name}: name the runner once, before --; after -- is --runner {runner}")
        refuse_type_checks(options)

    @property
    def handed_on(self) -> tuple[str, ...]:
        """Options unknown to Beam's Python, for a job server."""
        usage = io.StringIO()
        try:
            with redirect_stderr(usage), redirect_stdout(io.StringIO()):
                options = PipelineOptions(list(self.options))
                known_names = options.get_all_options()
                with_unknown = options.get_all_options(retain_unknown_options=True)
        except SystemExit:  # argparse ends the process for --help or an invalid value
            message = usage.getvalue().strip().rpartition("error: ")[2]
            raise UsageError(f"{self.name}: {message or 'its options are in the documentation of Beam'}") from None
        return tuple(f"--{name}" for name in with_unknown if name not in known_names)

    @property
    def parallelism(self) -> int:
        """The number of parallel workers in the options."""
        return max((int(number) for number in _PARALLELISM.findall(" ".join(self.options))), default=1)

    def run(self, build: Callable[[beam.Pipeline], None], name: str, watch: Watch) -> Finished:
        """Runs the pipeline, polling its counters."""
        p = self.pipeline(build, name)
        try:
            result = self.submitted(p)

            def look() -> None:  # copies the result, as that of a job server keeps the first counters that it read
                with suppress(Exception):
                    watch(finished(copy(result)).counts)

            with watched_every(WATCH_S, look):
                state = result.wait_until_finish() or result.state
        except (UsageError, EngineError):
            raise
        except Exception as error:  # noqa: BLE001 - what a step read may stand in it: only our own sentences are shown
            message = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
            unknown = EngineError(f"{self.name} failed ({type(error).__name__}); its own log says why")
            # `reason_of` finds a step's own error in the text, else None. `error`: `cli` shows only its class.
            raise reason_of(message) or (error if self.is_here else unknown) from None
        if state not in (PipelineState.DONE, PipelineState.UNKNOWN):
            raise EngineError(f"{self.name} ended the job in state {state}; its own log says why")
        return finished(result)

    def pipeline(self, build: Callable[[beam.Pipeline], None], name: str) -> beam.Pipeline:
        """Builds the job, ready to run. Raises UsageError for conflicting options, or EngineError."""
        job = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")  # as the strictest runner takes it
        try:
            options = PipelineOptions([f"--runner={self.name}", f"--job_name={job}", *self.beam_options()])
            p = beam.Pipeline(runner="FnApiRunner" if self.is_here else self.name, options=options)
        except ImportError:
            raise EngineError(f"{self.name} needs {_NEEDS.get(self.name, 'a library that is not installed')}") from None
        except ValueError as error:
            raise UsageError(f"{self.name}: {error}") from None
        build(p)
        return p

    def beam_options(self) -> tuple[str, ...]:
        """Lists Beam's options, with those that the runner requires."""
        return self.options

    def submitted(self, pipeline: beam.Pipeline) -> PipelineResult:
        """Submits the job. Raises EngineError before input is read."""
        try:
            return pipeline.run()
        except Exception as error:
            if self.is_here:  # it ran the job to its end
                raise
            sentence = str(error).strip().partition("\n")[0][:300]  # letters of a foreign error that are shown
            if any(words in sentence for words in _NO_PRISM):
                raise EngineError(_NEEDS_PRISM) from None
            message = f"{type(error).__name__}: {sentence}" if sentence else type(error).__name__
            raise EngineError(f"{self.name} did not take the job ({message})") from None


_ERRORS = {
    "transforms.errors.StepError": StepError,
    "transforms.ledger.head.LedgerError": LedgerError,
    "transforms.ledger.ledger._Passing": LedgerError,
    "transforms.ledger.spending.AccountRefusal": AccountRefusal,
}
_RAISED = re.compile(rf"^({'|'.join(map(re.escape, _ERRORS))}): (.+?)(?: \[while running .*)?$", re.MULTILINE)
"""Last line of a Python traceback of our own errors, whose sentences show nothing of the input."""


def reason_of(text: str) -> Exception | None:
    """Parses a step's error from an engine's text, if it is one of ours."""
    raised = _RAISED.findall(text)
    if not raised:
        return None
    kind, sentence = raised[-1]  # of a chain of exceptions Python prints the outermost last
    return _ERRORS[kind](sentence)


def finished(result: PipelineResult) -> Finished:
    """Reads a job's counters and texts from its metrics."""
    metrics = result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))
    counts = Counter[str]()
    for counter in metrics["counters"]:
        counts[counter.key.metric.name] += counter.result or 0  # Beam reads a job server's 0 as None
    texts_of: dict[str, frozenset[str]] = {}
    for texts in metrics["string_sets"]:
        name = texts.key.metric.name
        texts_of[name] = texts_of.get(name, frozenset()) | texts.result
    return Finished(counts, texts_of)


def refuse_type_checks(options: PipelineOptions) -> None:
    """Refuses Beam's runtime type checks, which break multi-output steps. Raises UsageError."""
    for name in ("runtime_type_check", "performance_runtime_type_check"):
        if getattr(options.view_as(TypeOptions), name):
            raise UsageError(f"--{name} breaks steps of several outputs, in Beam: leave it out")


class Prism(ByName):
    """Prism runner: installed, or downloaded by Beam from GitHub."""

    def beam_options(self) -> tuple[str, ...]:
        """Returns the options with the local Prism program."""
        text = " ".join(self.options)
        program = shutil.which("prism")
        extra = [f"--prism_location={os.path.abspath(program)}"] if program and "--prism_location" not in text else []
        if "--prism_log_kind" not in text:
            extra.append("--prism_log_kind=json")  # Beam prints lines of the other kind even under --quiet
        return (*self.options, *extra)


class InProcess(ByName):
    """Beam's FnApiRunner in this process; DirectRunner's too, which would download Prism."""

    is_here = True

    def __post_init__(self) -> None:
        if not self.options:  # nothing to check
            return
        super().__post_init__()
        if PipelineOptions(list(self.options)).view_as(DirectOptions).direct_running_mode == "multi_processing":
            raise UsageError(
                f"{self.name}: by --direct_running_mode=multi_processing Beam waits for ever for a process that died; "
                "files are decoded in several processes anyway"
            )

    def beam_options(self) -> tuple[str, ...]:
        """Returns the options without type checks of pipelines."""
        return ("--no_pipeline_type_check", *self.options)  # a tenth of what a small release takes; tests check types
