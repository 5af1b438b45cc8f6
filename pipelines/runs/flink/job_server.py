"""Beam's job service, by which every portable engine takes a pipeline: what is the same for all of them."""

from collections.abc import Callable, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult

from pipelines.engine import EngineError

ANSWER_S = 60
"""For one answer. A job server translates a whole pipeline for it, which takes long on a busy machine."""


def addresses(job_server: str, worker_pool: str) -> list[str]:
    """Beam's options that say who takes the pipeline and where its Python runs, each `host:port`."""
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={job_server}",
        "--environment_type=EXTERNAL",
        f"--environment_config={worker_pool}",
        f"--job_server_timeout={ANSWER_S}",
        "--experiments=disable_logging_submission_environment",  # that lists our packages, by a pip of its own
    ]


def handed_over(
    build: Callable[[beam.Pipeline], None], name: str, options: Sequence[str], job_server: str
) -> PipelineResult:
    """The pipeline that `build` makes, taken. options: Beam's, `addresses` among them.

    Raises EngineError where no job server answers.
    """
    p = beam.Pipeline(options=PipelineOptions([*options, f"--job_name={name}"]))
    build(p)
    try:
        return p.run()
    except Exception as error:
        if not type(error).__module__.startswith("grpc"):
            raise
        raise EngineError(f"no job server answers at {job_server}") from None
