"""Beam's runners for bounded jobs, imported lazily."""

RUNNERS = {
    "DirectRunner": f"{__name__}.in_process:InProcess",
    "FnApiRunner": f"{__name__}.in_process:InProcess",
    "PrismRunner": f"{__name__}.by_name:Prism",
    **dict.fromkeys(("FlinkRunner", "SparkRunner", "DataflowRunner", "PortableRunner"), f"{__name__}.by_name:ByName"),
}
"""By Beam's name; each is made of that name and of Beam's own options."""

SAID = {"DirectRunner": "DirectRunner is Beam's FnApiRunner here, in this process; nothing is downloaded"}
"""What is said of a runner that is a choice among several."""
