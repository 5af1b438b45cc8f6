"""Beam's runners for bounded jobs, imported lazily; runners with special needs have a file."""

from collections.abc import Sequence
from pkgutil import iter_modules


def named_by_files(folders: Sequence[str]) -> dict[str, str]:
    """Finds runners with a separate file: `prism_runner.py` holds `RUNNER`, PrismRunner's class."""
    names = [info.name for info in iter_modules(folders) if info.name.endswith("_runner")]
    return {name.title().replace("_", ""): f"{__name__}.{name}:RUNNER" for name in names}


RUNNERS = {
    "DirectRunner": f"{__name__}.in_process:InProcess",
    "FnApiRunner": f"{__name__}.in_process:InProcess",
    **named_by_files(__path__),
    **dict.fromkeys(("FlinkRunner", "SparkRunner", "DataflowRunner", "PortableRunner"), f"{__name__}.by_name:ByName"),
}
"""By Beam's name; each is made of that name and of Beam's own options."""

SAID = {"DirectRunner": "DirectRunner is Beam's FnApiRunner here, in this process; nothing is downloaded"}
"""What is said of a runner that is a choice among several."""
