"""Beam's FnApiRunner in this process, for local releases.

DirectRunner ends here too for bounded jobs: Beam would prefer Prism, which it downloads.
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
    """Pipeline options with cached views: Beam requests a few views 350 times."""

    def view_as(self, cls: type[View]) -> View:
        """Caches views of the options by class."""
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: View = views[cls]
        return view


class InProcess(ByName):
    """In-process runner that shuffles in memory."""

    options_type, is_here = ParsedOptions, True

    def __post_init__(self) -> None:
        if not self.options:
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

    def submitted(self, p: beam.Pipeline) -> PipelineResult:
        """Runs the job to its end; errors may therefore show what a step read."""
        return p.run()

    def runner(self) -> Any:
        """Creates the runner."""
        return FnApiRunner()

    def unknown(self, error: Exception) -> Exception:
        """Returns the failure itself, of which the command line shows only the class."""
        return error
