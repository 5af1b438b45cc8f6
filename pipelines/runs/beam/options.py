"""Options of Beam's that no pipeline of hatstream's can have."""

from apache_beam.options.pipeline_options import PipelineOptions, TypeOptions

from pipelines.errors import UsageError


def refuse_type_checks(options: PipelineOptions) -> None:
    """Refuses Beam's checks of types as a pipeline runs: they hold every output of a step to the type of its main one,
    and end a pipeline of which a step has several. Raises UsageError."""
    types = options.view_as(TypeOptions)
    for name in ("runtime_type_check", "performance_runtime_type_check"):
        if getattr(types, name):
            raise UsageError(f"--{name} goes with steps of one output alone, as Beam has it: leave it out")
