"""The command line `hatstream`, with its exit codes."""

import importlib
import io
import os
import sys

import click

import transforms.silence_beam  # noqa: F401  # isort: skip

import gc

from pipelines.commands.terminal import with_verbosity
from pipelines.companions import COMMANDS_GROUP, COMPANION_COMMANDS, companion_command, entries
from pipelines.errors import BAD_SPECIFICATION, DONE, FAILED, REFUSED, WRONG_USE
from transforms.errors import did_you_mean, missing
from transforms.memory import keep_freed_memory

COMMANDS = {
    "init": "Open the account of a specification: its ledger, its key and its head file.",
    "spec": "Check a specification, or draft one from a sample of a feed.",
    "plan": "Forecast what a specification would give, before anything is spent.",
    "release": "Release the closed slots of a range, once.",
    "estimate": "Estimate released days again, or days to come, from the ledger.",
    "stream": "Release slots as they end, until it is stopped.",
    "ledger": "Show spending, verify the record, and back it up.",
}
"""What each command of the core does. Its module in `pipelines.commands`, and Beam with it, is imported when it is
called; commands of companions are found by entry points."""

_CODE_BY_ERROR = {  # exit codes of errors, by the names of their classes, whose modules need not be imported to say so
    "pipelines.errors.UsageError": WRONG_USE,
    "pipelines.errors.SpecificationError": BAD_SPECIFICATION,
    "transforms.ledger.spending.AccountRefusal": REFUSED,
    "transforms.ledger.head.LedgerError": FAILED,
    "pipelines.errors.InputError": FAILED,
    "pipelines.job.OutputError": FAILED,
    "transforms.errors.StepError": FAILED,
    "transforms.errors.MissingExtra": WRONG_USE,
    "transforms.layouts.base.UnreadableFile": FAILED,
    "pipelines.engine.EngineError": FAILED,
    "pipelines.runs.stream.metrics.MetricsError": FAILED,
}


class _Commands(click.Group):
    """Command group that imports its commands lazily."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return [*COMMANDS, *_companion_help()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        if name in COMMANDS:
            return with_verbosity(getattr(importlib.import_module(f"pipelines.commands.{name}"), name))
        command: click.Command | None = companion_command(name)
        return None if command is None else with_verbosity(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Fails on an unknown command with the nearest name."""
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], names)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])
        installed, lines = entries(COMMANDS_GROUP), _companion_help().items()
        with formatter.section("Commands of companions"):
            formatter.write_dl([(name, line + " (not installed)" * (name not in installed)) for name, line in lines])


def _companion_help() -> dict[str, str]:
    """Returns one-line help by command of our companions and of other packages."""
    installed = entries(COMMANDS_GROUP).items()
    ours = {name: line for name, (_extra, line) in COMPANION_COMMANDS.items()}
    others = {name: f"Of {entry.module.partition('.')[0]}." for name, entry in installed if name not in ours}
    return {name: line for name, line in (ours | others).items() if " " not in name}  # not `spec new`, of a group


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hatstream")
def hatstream() -> None:
    """Publish private statistics of vehicle speeds per hexagon and timeslot.

    Exit codes: 0 done, 1 wrong use, 2 bad specification, 3 refused by the account, 4 input or infrastructure failure,
    5 done, but input or code differs from what was released before.

    \b
    Example:
      hatstream demo --output build/demo
    """


with_verbosity(hatstream)  # adds the options of verbosity, in place


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    # A slot's HATs are a million objects without a cycle: more frequent collections take a third of the time.
    gc.set_threshold(1_000_000, 20, 20)
    keep_freed_memory()
    try:
        result = hatstream.main(arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        if error.message.startswith("Got unexpected extra argument"):
            click.echo("A pattern of files needs quotes, else the shell replaces it: --input 'feed/*.csv'", err=True)
        return WRONG_USE
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        return FAILED
    except SystemExit as end:
        # click's own: 0 where a shell asked how to complete a line; else nobody reads standard output any more
        return DONE if end.code == 0 else FAILED
    except OSError as error:
        path = error.filename or "standard output or a temporary file"
        click.echo(f"hatstream: {error.strerror or type(error).__name__}: {path}", err=True)
        return FAILED
    except Exception as error:
        failure = missing(error) or error  # `missing`: for a library that is not installed, which extra to install
        for kind in type(failure).__mro__:
            if (code := _CODE_BY_ERROR.get(f"{kind.__module__}.{kind.__qualname__}")) is not None:
                click.echo(f"hatstream: {failure}", err=True)
                return code
        # The last resort: an unforeseen message could hold a value of the input, so it is not shown.
        if os.environ.get("HATSTREAM_DEBUG"):
            raise
        click.echo(f"hatstream: internal error ({type(error).__name__}); HATSTREAM_DEBUG=1 shows where", err=True)
        return FAILED
    return result if isinstance(result, int) else DONE


def run() -> None:
    """Runs the console script."""
    is_closed = sys.stdout is None
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - for as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without our letters is no reason to fail
    code = main()
    gc.freeze()  # spares the interpreter's last collection, which takes a tenth of a second for imported modules
    if is_closed:
        click.echo("hatstream: standard output is closed: the results were not shown", err=True)
        sys.exit(code or FAILED)
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        click.echo(f"hatstream: standard output: {error.strerror}", err=True)
        code = code or FAILED
    sys.exit(code)


if __name__ == "__main__":
    run()
