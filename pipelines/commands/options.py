"""Options that several commands share, and those of engines: Flink, or Beam's runners."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass
from functools import partial, reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from pipelines.commands.terminal import progress_bars
from pipelines.companions import extension
from pipelines.errors import UsageError
from pipelines.option_types import FORMATS, FURTHER, FiniteRange, LocalPath, listed

if TYPE_CHECKING:
    from pipelines.account.location import AccountLocation
    from pipelines.engine import BoundedEngine
    from pipelines.job import Outputs
    from pipelines.runs.beam.runners import ByName
    from pipelines.runs.flink.engine import Flink
    from pipelines.specification import Specification
    from transforms.sources.topic import Topic

Command = Callable[..., Any]
FILE, _FOLDER = LocalPath(path_type=Path, dir_okay=False), LocalPath(path_type=Path, file_okay=False)
LOCAL, FLINK = "local", "flink"  # values of --runner beside Beam's
RUNNERS = {
    **dict.fromkeys(("DirectRunner", "FnApiRunner"), "InProcess"),
    "PrismRunner": "Prism",
    **dict.fromkeys(("FlinkRunner", "SparkRunner", "DataflowRunner", "PortableRunner"), "ByName"),
}  # by Beam's name of a runner: our class in `pipelines.runs.beam.runners`, made of the name and Beam's options


def packed(name: str, made_by: Command, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Decorates commands to receive these options as one argument.

    made_by: makes the argument's value; its parameters are named like the options. name: of the argument.
    """
    names = tuple(inspect.signature(made_by).parameters)

    def decorate(command: Command) -> Command:  # its argument `name` is made of the options called `names`
        @wraps(command)
        def with_value(**values: Any) -> Any:
            fields = {field: values.pop(field) for field in names if field in values}
            return command(**{name: made_by(**fields)}, **values)

        # Applied like stacked decorators, the last first, so that --help lists them in order.
        return reduce(lambda decorated, add: add(decorated), reversed(options), cast("Command", with_value))

    return decorate


def loaded(path: Path, *, quiet: bool) -> Specification:
    """Loads a specification, with a progress bar."""
    from pipelines.specification import load

    with progress_bars(quiet=quiet) as report:
        return load(path, report)


def _one_pattern(_context: click.Context, _parameter: click.Parameter, patterns: tuple[str, ...]) -> str | None:
    """Returns the only pattern; several mean that the shell expanded one."""
    if len(patterns) > 1:
        raise click.BadParameter(f"one folder or quoted pattern, not {len(patterns)}: such as 'feed/*.csv'")
    return patterns[0] if patterns else None


def address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Checks an option's value that must be like host:8081."""
    if value is not None and re.fullmatch(r"[^\s/@]+:\d{1,5}", value) is None:
        raise click.BadParameter(f"{value!r} is not like host:8081")
    return value


def kafka_topic(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Topic | None:
    """Parses a topic as BROKERS/NAME; None without one."""
    from transforms.errors import require
    from transforms.sources.topic import Topic

    if value is None:
        return None
    require("confluent_kafka")
    match = re.fullmatch(r"([^/\s]+:\d+)/([A-Za-z0-9._-]{1,249})", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not like host:9092,other:9092/topic")
    return Topic(brokers=match[1], name=match[2])


def _location(ledger: str | None, key: Path | None) -> AccountLocation:
    from pipelines.account import location

    return location.find(ledger, key)


account_options = packed(  # give `location`: where the ledger, key and head are
    "location",
    _location,
    click.option(
        "--ledger",
        metavar="URL",
        help="The ledger: a path, or an sqlite:/// or postgresql:// URL. "
        "[default: $HATSTREAM_LEDGER, then the state folder, such as ~/.local/state/hatstream]",
    ),
    click.option(
        "--key",
        type=FILE,
        help="The account's secret key file. [default: beside the ledger's file, else the state folder]",
    ),
)

_OPTION_BY_NAME: Mapping[str, Callable[..., Callable[[Command], Command]]] = {
    "spec": partial(click.option, "--spec", "spec_path", type=FILE, required=True, help="The specification."),
    "input": partial(
        click.option,
        "--input",
        "pattern",
        metavar="GLOB",
        required=True,
        multiple=True,  # of several click would take the last, silently
        callback=_one_pattern,
        help="Result files: a folder, or files as a quoted pattern.",
    ),
    "folder": partial(click.option, "--output", type=_FOLDER, required=True, help="Folder for the results."),
    "file": partial(click.option, "--output", type=FILE, required=True, help="The HTML file to write."),
    "formats": partial(
        click.option,
        "--formats",
        default="parquet",
        show_default=True,
        callback=listed(*FORMATS),
        help=f"Formats of files: some of {','.join(FORMATS)}.",
    ),
    "kafka": partial(click.option, "--kafka", "topic", metavar="BROKERS/TOPIC", callback=kafka_topic),
    "json": partial(click.option, "--json", "as_json", is_flag=True, help="Print one JSON document for programs."),
    "account": lambda: account_options,
}


def option(name: str, **changes: Any) -> Callable[[Command], Command]:
    """Returns a decorator of commands for a shared option, with its check and help.

    Args:
        name: `spec` (which gives spec_path), `input` (pattern), `folder` or `file` (output), `formats`, `kafka`
            (topic), `json` (as_json), or `account`: --ledger and --key (location).
        changes: Arguments of `click.option`, such as help and required, that override its own.

    >>> @click.command()
    ... @option("json", help="For programs.")
    ... def show(as_json):
    ...     return as_json
    >>> show.main(["--json"], standalone_mode=False)
    True
    """
    return _OPTION_BY_NAME[name](**changes)


site_option = click.option(
    "--site", type=_FOLDER, help="A folder made by `hatstream publish`, kept current during the run and at its end."
)


def keep_current(
    site: Path | None, spec: Specification, spec_path: Path, location: AccountLocation, outputs: Outputs
) -> AbstractContextManager[None]:
    """Keeps a published folder current while the block writes results. Raises MissingExtra and UsageError."""
    if site is None:
        return nullcontext()
    update: AbstractContextManager[None] = extension("site", "publish")(spec, spec_path, location, outputs.folder, site)
    return update


spec_option, json_option, output_folder_option = option("spec"), option("json"), option("folder")

OutputsFor = Callable[["Specification"], "Outputs"]  # raises UsageError if the specification has no such columns


def _outputs_for(
    output: Path | None,
    formats: tuple[str, ...],
    columns: tuple[str, ...],
    by_date: bool,
    kafka_output: Topic | None = None,
) -> OutputsFor:
    """Returns a function that makes outputs from options, and raises UsageError."""

    def outputs_for(spec: Specification) -> Outputs:
        from pipelines.job import Outputs, shape_with

        if by_date and len(formats) > 1:
            raise UsageError("--by-date makes one dataset of one format: name a single one in --formats")
        if output is None:
            raise UsageError("give --output, a folder for the results")
        return Outputs(output, formats, kafka_output, shape_with(columns, spec, by_date=by_date))

    return outputs_for


_FILE_OPTIONS = (
    option("formats"),
    click.option(
        "--columns",
        metavar="LIST",
        callback=listed(*FURTHER),
        help="Further columns: times (slots' edges as timestamps), counts (vehicles and reports where public; "
        "with 'levels' estimated vehicles), traffic (with 'levels', an interval of the mean if very many had driven).",
    ),
    click.option(
        "--by-date", is_flag=True, help="Write files into folders such as date=2026-05-13, one dataset a format."
    ),
)
_kafka_output_option = click.option(
    "--kafka-output",
    metavar="BROKERS/TOPIC",
    callback=kafka_topic,
    help="Kafka topic, as host:port,../name, for every released row as a JSON message.",
)

_may_lack_folder = option("folder", required=False, help="Folder for the results; not needed with --check-input.")
files_options = packed("outputs_for", _outputs_for, output_folder_option, *_FILE_OPTIONS)
outputs_options = packed("outputs_for", _outputs_for, output_folder_option, *_FILE_OPTIONS, _kafka_output_option)
release_options = packed("outputs_for", _outputs_for, _may_lack_folder, *_FILE_OPTIONS, _kafka_output_option)
"""Give `outputs_for`, an OutputsFor: of files, of files and a topic, and of a command that may write none."""


def answer(as_json: bool, document: Mapping[str, Any], *lines: str) -> None:
    """Prints a result: JSON for programs, lines for people."""
    click.echo(msgspec.json.encode(document).decode() if as_json else "\n".join(lines))


@dataclass(frozen=True)
class FlinkStarter:
    """Options of a Flink cluster; `local` starts one for the command. Raises UsageError."""

    local: bool
    job_server: str | None
    worker_pool: str | None
    rest: str | None  # address of Flink's REST interface
    parallelism: int
    checkpoint_s: float
    restarts: int  # limit for a failed stream
    savepoint: str | None

    def __post_init__(self) -> None:
        addresses = self.job_server, self.worker_pool, self.rest
        if self.local == any(addresses) or any(addresses) != all(addresses):
            raise UsageError("give either --local, or --job-server, --worker-pool and --rest")
        if self.local and self.savepoint:
            raise UsageError("--savepoint needs a cluster of your own: --local starts a new one")

    def start(self, stack: ExitStack) -> Flink:
        """Starts the engine; the stack closes its servers. Raises MissingTool or ServerError."""
        from pipelines.runs.flink.engine import Flink  # and Beam with it

        settings = asdict(self)  # Flink's own parameters, but for `local`
        if settings.pop("local"):
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hatstream-")))
            flink, pool = stack.enter_context(extension("local-flink", "lab")(state, self.parallelism))
            settings |= {"job_server": flink.address, "worker_pool": pool.address, "rest": flink.rest}
        return Flink(**settings)


def _bounded(
    runner: str,
    beam_options: tuple[str, ...],
    job_server: str | None,
    worker_pool: str | None,
    rest: str | None,
    parallelism: int | None,
) -> BoundedEngine | None:
    """Makes the engine of a closed range; None for this process. Raises UsageError."""
    if beam_options and not beam_options[0].startswith("--"):  # a stray word; our own options stand before --
        raise click.UsageError(f"Got unexpected extra argument ({beam_options[0]})")
    if beam_options and runner not in RUNNERS:
        raise UsageError(f"{beam_options[0]}: options after -- are for Beam's runners; --runner {runner} takes none")
    if runner == FLINK:
        if not (job_server and worker_pool and rest):
            raise UsageError("--runner flink needs --job-server, --worker-pool and --rest")
        from pipelines.runs.flink.engine import Flink

        return Flink(job_server=job_server, worker_pool=worker_pool, rest=rest, parallelism=parallelism or 1)
    if job_server or worker_pool or rest or parallelism:
        raise UsageError("--job-server, --worker-pool, --rest and --parallelism go with --runner flink")
    if runner == LOCAL:
        return None
    if runner == "DirectRunner":
        click.echo("DirectRunner is Beam's FnApiRunner here, in this process; nothing is downloaded", err=True)
    from pipelines.runs.beam import runners

    engine: ByName = getattr(runners, RUNNERS[runner])(runner, beam_options)
    for option in engine.handed_on:
        click.echo(f"{runner}: Beam's Python does not know {option}; it is handed on to the job server", err=True)
    return engine


_ADDRESS_OPTIONS = tuple(
    click.option(flag, metavar="HOST:PORT", callback=address, help=meaning)
    for flag, meaning in (
        ("--job-server", "Beam's Flink job server."),
        ("--worker-pool", "Address at which each task manager reaches its own worker pool."),
        ("--rest", "REST address of the Flink cluster, to watch and end the job."),
    )
)

engine_options = packed(  # give `engine`, the FlinkStarter of a stream
    "engine",
    FlinkStarter,
    click.option("--local", is_flag=True, help="Start Flink here, to try it; else give the next three options."),
    *_ADDRESS_OPTIONS,
    click.option("--parallelism", type=click.IntRange(min=1), default=1, show_default=True, help="Parallel workers."),
    click.option(
        "--checkpoint-s", type=FiniteRange(min=0.1), default=10.0, show_default=True, help="Seconds per checkpoint."
    ),
    click.option(
        "--restarts", type=int, default=-1, show_default=True, help="Most restarts of a failed job; -1: the cluster's."
    ),
    click.option("--savepoint", metavar="PATH", help="Go on from a savepoint of this specification's stream."),
)

runner_options = packed(  # give `engine`, the BoundedEngine that --runner names; None for this process
    "engine",
    _bounded,
    click.option(
        "--runner",
        type=click.Choice([LOCAL, FLINK, *RUNNERS]),
        default=LOCAL,
        show_default=True,
        help="local: this process; flink: a cluster, by the options below; others: Beam's runners, with their options "
        "after --.",
    ),
    click.argument("beam_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- BEAM OPTIONS]"),
    *_ADDRESS_OPTIONS,
    click.option(
        "--parallelism", type=click.IntRange(min=1), help="Parallel workers of a job on a cluster. [default: 1]"
    ),
)
