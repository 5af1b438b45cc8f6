"""Beam's FnApiRunner, in this process: what releases on this machine, and what Beam's names for it mean.

DirectRunner is a switch of Beam's that ends here too for a bounded job: its first choice is Prism, which it downloads.
"""

from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult

from pipelines.errors import UsageError
from pipelines.runs.beam.runners.by_name import ByName

View = TypeVar("View", bound=PipelineOptions)


class ParsedOptions(PipelineOptions):
    """Options of which each view is parsed once: Beam asks 350 times for one of a few, and parses them each time."""

    def view_as(self, cls: type[View]) -> View:
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: View = views[cls]
        return view


class InProcess(ByName):
    """Holds all that it shuffles in memory: events, which are many, stay on disk (`is_here`)."""

    options_type = ParsedOptions

    def __post_init__(self) -> None:
        if not self.options:
            return
        super().__post_init__()
        if PipelineOptions(list(self.options)).view_as(DirectOptions).direct_running_mode == "multi_processing":
            raise UsageError(
                f"{self.name}: by --direct_running_mode=multi_processing Beam waits for ever for a process that died; "
                "files are decoded in several processes anyway"
            )

    @property
    def is_here(self) -> bool:
        return True

    def beam_options(self) -> tuple[str, ...]:
        return ("--no_pipeline_type_check", *self.options)  # a tenth of what a small release takes; tests check types

    def submitted(self, p: beam.Pipeline) -> PipelineResult:
        """Runs it to its end, so that what a step read may stand in what is raised."""
        return p.run()

    def runner(self) -> Any:
        return FnApiRunner()

    def unknown(self, error: Exception) -> Exception:
        """Gives the failure itself, of which the command line shows the class alone."""
        return error
