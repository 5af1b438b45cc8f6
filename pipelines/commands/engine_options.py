"""Command line options that choose the engine: those of all engines."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pipelines.commands.options import packed
from pipelines.engines import EngineOptions, Option, engines_with
from pipelines.errors import UsageError
from pipelines.runs.beam.runners import RUNNERS, SAID

if TYPE_CHECKING:
    from pipelines.engine import BoundedEngine

LOCAL = "local"


def chosen_of(engines: Mapping[str, EngineOptions], chosen: str, option: str, values: Mapping[str, Any]) -> Any:
    """Makes the chosen engine from its options' values; None for an unknown name.

    Raises UsageError where an option of another engine was set. option: the one that names the engine.
    """
    parameters = engines[chosen].by_parameter if chosen in engines else {}
    source_of = click.get_current_context().get_parameter_source
    for name, engine in engines.items():
        others = [parameter for parameter in engine.by_parameter if parameter not in parameters]
        if any(source_of(parameter) is not ParameterSource.DEFAULT for parameter in others):
            flags = [f"--{parameter.replace('_', '-')}" for parameter in others]
            listed = " and ".join(filter(None, (", ".join(flags[:-1]), flags[-1])))
            raise UsageError(f"{listed} {'go' if flags[1:] else 'goes'} with {option} {name}")
    return engines[chosen].made_by(**{parameter: values[parameter] for parameter in parameters}) if parameters else None


def options_of(engines: Mapping[str, EngineOptions]) -> dict[str, Option]:
    """Collects all engines' options by parameter; the first engine wins for shared ones."""
    options: dict[str, Option] = {}
    for engine in engines.values():
        options |= {parameter: option for parameter, option in engine.by_parameter.items() if parameter not in options}
    return options


def _of_range(runner: str, beam_options: tuple[str, ...], **values: Any) -> "BoundedEngine | None":
    """Makes the engine of a closed range; None for this process. Raises UsageError."""
    if beam_options and not beam_options[0].startswith("--"):
        raise click.UsageError(f"Got unexpected extra argument ({beam_options[0]})")
    if beam_options and runner not in RUNNERS:
        raise UsageError(f"{beam_options[0]} stands behind --, as options of Beam's runners do, with --runner {runner}")
    engine: BoundedEngine | None = chosen_of(_BOUNDED, runner, "--runner", values)
    if runner in RUNNERS:
        if runner in SAID:
            click.echo(SAID[runner], err=True)
        module, _, name = RUNNERS[runner].partition(":")
        engine = beam_engine = getattr(importlib.import_module(module), name)(runner, beam_options)
        for option in beam_engine.handed_on:
            click.echo(f"{runner}: Beam's Python does not know {option}; it is handed on to the job server", err=True)
    return engine


_STREAM, _BOUNDED = engines_with("STREAM"), engines_with("BOUNDED")
_STREAM_OPTIONS, _BOUNDED_OPTIONS = options_of(_STREAM), options_of(_BOUNDED)
_USUAL = next(iter(_STREAM))
_SEVERAL = (click.option("--engine", "named", type=click.Choice(list(_STREAM)), default=_USUAL, show_default=True),)

engine_options = packed(
    "engine",
    lambda named=_USUAL, **values: chosen_of(_STREAM, named, "--engine", values),
    *(_SEVERAL if len(_STREAM) > 1 else ()),
    *_STREAM_OPTIONS.values(),
    takes=("named", *_STREAM_OPTIONS),
)
"""Give `engine`, the EngineStarter that --engine names; that option is there where there are several."""

runner_options = packed(
    "engine",
    _of_range,
    click.option(
        "--runner",
        type=click.Choice([LOCAL, *_BOUNDED, *RUNNERS]),
        default=LOCAL,
        show_default=True,
        help="local: this process. flink: a cluster, by the options below. The others are Beam's own runners, with "
        "Beam's own options behind --.",
    ),
    click.argument("beam_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- BEAM OPTIONS]"),
    *_BOUNDED_OPTIONS.values(),
    takes=("runner", "beam_options", *_BOUNDED_OPTIONS),
)
"""Give `engine`, the BoundedEngine that --runner names; None for this process."""
