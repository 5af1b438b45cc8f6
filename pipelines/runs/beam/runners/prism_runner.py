"""Prism, Beam's runner in a process of its own: a program that is there already, or that Beam downloads."""

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.runners.runner import PipelineResult

from pipelines.engine import EngineError, Finished
from pipelines.runs.beam.judge import VERDICT
from pipelines.runs.beam.runners.by_name import ByName

PROGRAM = "prism"
_NO_PROGRAM = ("Unable to fetch remote prism", "Unable to parse binary URL", "Unable to install a local of Prism")

_NEEDS_PROGRAM = (
    "PrismRunner needs Prism's program, and it cannot be downloaded: give its path behind -- as "
    "--prism_location=PATH, or put `prism` on the PATH; --runner FnApiRunner needs none"
)


class Prism(ByName):
    """Takes the program of `--prism_location`, or of that name on the PATH, before Beam looks for one on GitHub."""

    def run(
        self, build: Callable[[beam.Pipeline], None], name: str, watch: Callable[[Mapping[str, int]], None]
    ) -> Finished:
        """Runs the job. Of one with many stages Prism 2.77 keeps back most metrics: then the ledger alone tells."""
        finished = super().run(build, name, watch)
        if VERDICT not in finished.told:
            raise EngineError(
                "Prism ended the job and told nothing of its verdict; what it released is in the ledger and the output "
                "folder. Run it again with --runner local: that releases what is missing, and says what there is"
            )
        return finished

    def beam_options(self) -> tuple[str, ...]:
        given = " ".join(self.options)
        program = shutil.which(PROGRAM)
        more = [f"--prism_location={os.path.abspath(program)}"] if program and "--prism_location" not in given else []
        if "--prism_log_kind" not in given:
            more.append("--prism_log_kind=json")  # else Beam shows its lines, however quiet we are
        return (*self.options, *more)

    def runner(self) -> Any:
        return PrismRunner()

    def submitted(self, p: beam.Pipeline) -> PipelineResult:
        try:
            return super().submitted(p)
        except EngineError as error:
            if any(words in str(error) for words in _NO_PROGRAM):
                raise EngineError(_NEEDS_PROGRAM) from None
            raise


RUNNER = Prism
