"""Output of commands: results, progress and notes."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from pipelines.engine import watched_every
from pipelines.errors import FAILED, Report, ignore

LOG_COLUMNS = 130  # width of tables where standard output is no terminal and COLUMNS does not say how wide it is
LEAST_COLUMNS = 60  # a narrower terminal breaks the lines of tables itself
LOG_EVERY_S = 60.0  # between two lines of progress in a log

_VERBOSITY_KEY = "hatstream.verbosity"  # key of click's metadata: -1 quiet, 1 verbose


def with_verbosity(command: click.Command) -> click.Command:
    """Adds the options --quiet and -v to a command and its subcommands."""
    if not any(parameter.name == "quiet" for parameter in command.params):
        for level, flags, meaning in (
            (-1, ["-q", "--quiet"], "No progress, no notes."),
            (1, ["-v", "--verbose"], "Report more of the work."),
        ):

            def store(context: click.Context, _: click.Parameter, is_set: bool, level: int = level) -> None:
                if is_set:
                    context.meta[_VERBOSITY_KEY] = level

            command.params.append(click.Option(flags, is_flag=True, expose_value=False, callback=store, help=meaning))
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_verbosity(inner)
    return command


def _verbosity() -> int:
    """Returns -1 under --quiet, 1 under -v, else 0, as outside of commands."""
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.meta.get(_VERBOSITY_KEY, 0))


def note(text: str, verbosity: int = 0) -> None:
    """Writes a line to standard error, unless --quiet. verbosity: 1 for -v only.

    >>> note("wrote town.toml")
    """
    if _verbosity() >= verbosity:
        click.echo(text, err=True)


def console() -> Console:
    """Returns a `rich` console on standard output, without markup and truncated cells.

    >>> console().print("[3 rows]")
    [3 rows]
    """
    plain = partial(_Results, markup=False, emoji=False, highlight=False)  # all is shown as it is
    out = plain()
    if out.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return out if out.width >= LEAST_COLUMNS else plain(width=LEAST_COLUMNS)
    return plain(width=LOG_COLUMNS, soft_wrap=True)  # into files and pipes: sentences in one line each


def table_of(title: str | None, *columns: str) -> Table:
    """Makes an empty table. columns: names; prefix ">" aligns right, "|" prevents wrapping."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        name = column.lstrip(">|")
        marks = column.removesuffix(name)
        table.add_column(name, justify="right" if ">" in marks else "left", no_wrap="|" in marks)
    return table


class _Results(Console):
    """Console that wraps long table cells instead of truncating them."""

    def print(self, *objects: Any, **options: Any) -> None:
        for column in (column for table in objects if isinstance(table, Table) for column in table.columns):
            column.overflow = "fold"
        super().print(*objects, **options)


@contextmanager
def progress_bars(*, quiet: bool) -> Iterator[Report]:
    """Shows progress on standard error within the block, as bars or lines.

    Yields a callback that takes phase, count, and total or None if unknown. quiet: shows nothing, as under --json.

    >>> with progress_bars(quiet=True) as report:
    ...     report("files read", 1, 2)
    """
    if quiet or _verbosity() < 0 or sys.stderr is None:
        yield ignore
        return
    errors, task_of = Console(stderr=True), dict[str, Any]()
    name = TextColumn("{task.description}", table_column=Column(no_wrap=True))
    bar = BarColumn(bar_width=None, table_column=Column(ratio=1))
    bars = Progress(name, bar, _Words(Column(no_wrap=True)), console=errors, expand=True)

    def report(phase: str, count: int, total: int | None) -> None:
        if phase not in task_of:
            if errors.is_terminal:
                bars.start()  # not before: a command without phases draws no empty display
            task_of[phase] = bars.add_task(phase, total=total)
        bars.update(task_of[phase], completed=count, total=total)

    shown = dict[int, float]()  # a log's newest count of each phase
    try:
        with nullcontext() if errors.is_terminal else watched_every(LOG_EVERY_S, partial(_log, bars, shown)):
            yield report
    finally:
        if shown:  # the ends of phases; a command of seconds has no lines
            _log(bars, shown)
        if errors.is_terminal and task_of:
            bars.stop()


def _log(bars: Progress, shown: dict[int, float]) -> None:
    """Writes a line of each phase that went on. shown: counts written, by task."""
    for task in bars.tasks:
        if shown.get(task.id) != task.completed:
            shown[task.id] = task.completed
            click.echo(f"{task.description}: {', '.join(_words(task))}", err=True)


class _Words(ProgressColumn):
    """Progress column of words."""

    def render(self, task: Task) -> Text:
        return Text(" ".join(_words(task)))


def _words(task: Task) -> list[str]:
    """Words a phase's count, rate, and time left, or spent where it is over."""
    words = [f"{task.completed:,.0f}" + ("" if task.total is None else f" of {max(task.total, task.completed):,.0f}")]
    if (speed := task.finished_speed or task.speed or 0) >= 1:
        words.append(f"{speed:,.0f}/s")
    if task.time_remaining is None or task.finished:
        return [*words, duration(task.finished_time or task.elapsed or 0.0)]
    return [*words, f"{duration(task.time_remaining)} left"]


def duration(seconds: float) -> str:
    """Formats seconds as 45 s, 3 min 20 s or 2 h 5 min."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    return f"{total // 60} min {total % 60} s" if total < 3600 else f"{total // 3600} h {total % 3600 // 60} min"


@contextmanager
def asked_to_stop(within_s: float | None = None) -> Iterator[threading.Event]:
    """Catches SIGINT and SIGTERM within the block, and sets an event at the first.

    within_s: seconds after a signal until the process exits with code 4; never if None.

    >>> with asked_to_stop() as stop:
    ...     stop.wait(0.01)
    False
    """
    stop = threading.Event()

    def end() -> None:
        click.echo("stopped while work was unfinished", err=True)
        os._exit(FAILED)  # at once, though threads still work

    exit_timer = threading.Timer(within_s or 0.0, end)
    exit_timer.daemon = True

    def handle(_number: int, _frame: object) -> None:
        """Sets the event; starts the timer at the first signal."""
        if within_s is not None and not stop.is_set():
            exit_timer.start()
        stop.set()

    handlers = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        exit_timer.cancel()
        for number, handler in handlers.items():
            signal.signal(number, handler)
