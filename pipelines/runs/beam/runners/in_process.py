"""Beam's FnApiRunner, in this process.

DirectRunner is a switch of Beam's that ends here too for a bounded job: its first choice is Prism, which it downloads.
"""

from typing import Any

from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from pipelines.runs.beam.runners.by_name import ByName


class InProcess(ByName):
    """Holds all that it shuffles in memory."""

    def runner(self) -> Any:
        return FnApiRunner()
