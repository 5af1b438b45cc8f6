"""The command line `hatstream`: its commands, and one place where errors become exit codes."""

import os
import sys

import click

import pipelines.silence_beam  # noqa: F401  # isort: skip

from pipelines.commands.collect import collect
from pipelines.commands.demo import demo
from pipelines.commands.evaluate import evaluate
from pipelines.commands.init import init
from pipelines.commands.ledger import ledger
from pipelines.commands.map import map_
from pipelines.commands.plan import plan
from pipelines.commands.release import release
from pipelines.commands.stream import stream
from pipelines.demo.servers.maven import MissingTool
from pipelines.demo.servers.process import ServerError
from pipelines.exit_codes import BAD_SPECIFICATION, DONE, FAILED, REFUSED, WRONG_USE
from pipelines.output_folder import OutputError
from pipelines.scheduled.release import InputError, UsageError
from pipelines.specification import SpecificationError
from transforms.errors import StepError
from transforms.layouts import UnreadableFile
from transforms.ledger import AccountRefusal
from transforms.ledger.head import LedgerError

_CODES: dict[type[Exception], int] = {
    UsageError: WRONG_USE,
    SpecificationError: BAD_SPECIFICATION,
    AccountRefusal: REFUSED,
    LedgerError: FAILED,
    InputError: FAILED,
    OutputError: FAILED,
    StepError: FAILED,
    UnreadableFile: FAILED,
    MissingTool: FAILED,
    ServerError: FAILED,
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hatstream")
def hatstream() -> None:
    """Publish private statistics of vehicle speeds per hexagon and timeslot.

    Exit codes: 0 done, 1 wrong use, 2 bad specification, 3 refused by the account, 4 input or infrastructure failure,
    5 done, but input or code differs from what was released before.

    \b
    Example:
      hatstream demo --output build/demo
    """


for command in (demo, init, plan, release, stream, evaluate, ledger, map_, collect):
    hatstream.add_command(command)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code."""
    try:
        result = hatstream.main(arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return WRONG_USE
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        return FAILED
    except tuple(_CODES) as error:
        click.echo(f"hatstream: {error}", err=True)
        return next(code for kind, code in _CODES.items() if isinstance(error, kind))
    except OSError as error:
        click.echo(f"hatstream: {error.strerror or type(error).__name__}: {error.filename or ''}", err=True)
        return FAILED
    except Exception as error:
        # The last resort: an unforeseen message could hold a value of the input, so it is not shown.
        if os.environ.get("HATSTREAM_DEBUG"):
            raise
        click.echo(f"hatstream: internal error ({type(error).__name__}); HATSTREAM_DEBUG=1 shows where", err=True)
        return FAILED
    return result if isinstance(result, int) else DONE


def run() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    run()
