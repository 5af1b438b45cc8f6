"""Prism, Beam's runner in a separate process."""

import os
import shutil
from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.runners.runner import PipelineResult

from pipelines.engine import EngineError
from pipelines.runs.beam.runners.by_name import ByName

PROGRAM = "prism"
_NO_PROGRAM = ("Unable to fetch remote prism", "Unable to parse binary URL", "Unable to install a local of Prism")

_NEEDS_PROGRAM = (
    "PrismRunner needs Prism's program, and it cannot be downloaded: give its path after -- as "
    "--prism_location=PATH, or put `prism` on the PATH; --runner FnApiRunner needs none"
)


class Prism(ByName):
    """Prism runner: installed, or downloaded by Beam from GitHub."""

    def beam_options(self) -> tuple[str, ...]:
        """Returns the options with the local Prism program."""
        text = " ".join(self.options)
        program = shutil.which(PROGRAM)
        extra = [f"--prism_location={os.path.abspath(program)}"] if program and "--prism_location" not in text else []
        if "--prism_log_kind" not in text:
            extra.append("--prism_log_kind=json")  # else Beam shows its lines, however quiet we are
        return (*self.options, *extra)

    def runner(self) -> Any:
        """Creates the runner."""
        return PrismRunner()

    def submitted(self, p: beam.Pipeline) -> PipelineResult:
        """Submits the pipeline; a missing program is an EngineError."""
        try:
            return super().submitted(p)
        except EngineError as error:
            if any(words in str(error) for words in _NO_PROGRAM):
                raise EngineError(_NEEDS_PROGRAM) from None
            raise
