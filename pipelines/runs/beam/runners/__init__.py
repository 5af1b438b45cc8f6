"""Beam's runners for a bounded job, a file for each that needs more than its name. Beam is imported when one runs."""

RUNNERS = {
    "DirectRunner": "pipelines.runs.beam.runners.in_process:InProcess",
    "FnApiRunner": "pipelines.runs.beam.runners.in_process:InProcess",
    "PrismRunner": "pipelines.runs.beam.runners.prism:Prism",
    "FlinkRunner": "pipelines.runs.beam.runners.by_name:ByName",
    "SparkRunner": "pipelines.runs.beam.runners.by_name:ByName",
    "DataflowRunner": "pipelines.runs.beam.runners.by_name:ByName",
    "PortableRunner": "pipelines.runs.beam.runners.by_name:ByName",
}
"""By Beam's name; each is made of that name and of Beam's own options."""

SAID = {"DirectRunner": "DirectRunner is Beam's FnApiRunner here, in this process; nothing is downloaded"}
"""What is said of a runner that is a choice among several."""
