"""Beam's FnApiRunner, in this process.

DirectRunner is a switch of Beam's that ends here too for a bounded job: its first choice is Prism, which it downloads.
"""

from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult

from pipelines.errors import UsageError
from pipelines.runs.beam.runners.by_name import ByName


class InProcess(ByName):
    """Holds all that it shuffles in memory: events, which are many, stay on disk (`is_here`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if PipelineOptions(list(self.options)).view_as(DirectOptions).direct_running_mode == "multi_processing":
            raise UsageError(
                f"{self.name}: by --direct_running_mode=multi_processing Beam waits for ever for a process that died; "
                "`--runner local --workers 2` has processes"
            )

    @property
    def is_here(self) -> bool:
        return True

    def submitted(self, p: beam.Pipeline) -> PipelineResult:
        """Runs it to its end, so that what a step read may stand in what is raised."""
        return p.run()

    def runner(self) -> Any:
        return FnApiRunner()
