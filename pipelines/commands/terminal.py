"""What a person or a log sees of a run: results on standard output, progress and notes on standard error."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from pipelines.progress import Report, unheard

LOG_COLUMNS = 130
"""Width of tables where standard output is no terminal and COLUMNS does not say how wide it is."""
LEAST_COLUMNS = 60
"""A narrower terminal breaks the lines of tables itself."""
SAY_EVERY_S = 60.0
"""Between two lines of progress in a log."""

_VERBOSITY = "hatstream.verbosity"


def with_verbosity(command: click.Command) -> click.Command:
    """Gives a command, and the commands in it, the options --quiet and -v; each may stand before or after its name."""
    if not any(parameter.name == "quiet" for parameter in command.params):
        command.params += [
            click.Option(
                ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_heard(-1), help="No progress, no notes."
            ),
            click.Option(
                ["-v", "--verbose"], is_flag=True, expose_value=False, callback=_heard(1), help="Say more of the work."
            ),
        ]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_verbosity(inner)
    return command


def _heard(level: int) -> Callable[[click.Context, click.Parameter, bool], None]:
    def keep(context: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
        if is_asked:
            context.meta[_VERBOSITY] = level

    return keep


def is_quiet() -> bool:
    return _verbosity() < 0


def _verbosity() -> int:
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.meta.get(_VERBOSITY, 0))


def note(text: str) -> None:
    """Says a line to the person who watches, on standard error; not under --quiet.

    Args:
        text: The line.

    >>> note("wrote town.toml")
    """
    if not is_quiet():
        click.echo(text, err=True)


def detail(text: str) -> None:
    """Says a line on standard error under -v alone. Never a vehicle's data."""
    if _verbosity() > 0:
        click.echo(text, err=True)


def console() -> Console:
    """Opens standard output. In a log a sentence is one line and a table has its own width, unless COLUMNS is set.

    Returns:
        A console of `rich` that shows texts as they are, and cuts no text of a table off.

    >>> console().print("[3 rows]")
    [3 rows]
    """
    plain = partial(_Results, markup=False, emoji=False, highlight=False)  # all is shown as it is
    out = plain()
    if out.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return out if out.width >= LEAST_COLUMNS else plain(width=LEAST_COLUMNS)
    return plain(width=LOG_COLUMNS, soft_wrap=True)


def table_of(
    title: str | None, caption: str | None, left: Sequence[str], right: Sequence[str], *, whole: bool = False
) -> Table:
    """Makes a table without rows. left: the columns of names, which are never broken. right: those of numbers.

    whole: numbers are not broken either.
    """
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=whole)
    return table


class _Results(Console):
    """A console that cuts no text of a table off: what is too long goes on in the next line."""

    def print(self, *objects: Any, **more: Any) -> None:
        for column in (column for table in objects if isinstance(table, Table) for column in table.columns):
            column.overflow = "fold"
        super().print(*objects, **more)


@contextmanager
def progress_bars(*, quiet: bool) -> Iterator[Report]:
    """Shows how far long work is, on standard error: bars while a terminal watches, a line a minute in a log.

    Args:
        quiet: Whether nothing is shown, as under --json and --quiet.

    Returns:
        A context manager around what is told a phase, how much of it is done, and the whole, or None.

    >>> with progress_bars(quiet=True) as report:
    ...     report("files read", 1, 2)
    """
    errors = Console(stderr=True)
    if quiet or is_quiet() or sys.stderr is None:
        yield unheard
    elif errors.is_terminal:
        with _bars(errors) as report:
            yield report
    else:
        with _Log() as log:
            yield log.report


@contextmanager
def _bars(errors: Console) -> Iterator[Report]:
    name = TextColumn("{task.description}", table_column=_whole())
    bar = BarColumn(bar_width=None, table_column=Column(ratio=1))
    columns = (name, bar, _Count(_whole()), _Rate(_whole()), _Left(_whole()))
    bars, task_of = Progress(*columns, console=errors, expand=True), dict[str, Any]()

    def report(phase: str, done: int, whole: int | None) -> None:
        if phase not in task_of:
            bars.start()  # now at last, for there may be nothing to tell
            task_of[phase] = bars.add_task(phase, total=whole)
        bars.update(task_of[phase], completed=done, total=whole)

    try:
        yield report
    finally:
        if task_of:
            bars.stop()


def _whole() -> Column:
    """Makes a column that gives no place to the bar."""
    return Column(no_wrap=True)


class _Count(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(counted(int(task.completed), None if task.total is None else int(task.total)))


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed and speed >= 1 else "")


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        left = task.time_remaining
        if left is None or task.finished:
            return Text(duration(task.finished_time or task.elapsed or 0.0))
        return Text(f"{duration(left)} left")


@dataclass
class _Phase:
    name: str
    begun_s: float
    done: int = 0
    whole: int | None = None


@dataclass
class _Log:
    """A line a minute about the phase that is at work; a phase of which a line was written gets a last one."""

    _phase: _Phase | None = None
    _said_s: float = field(default_factory=time.monotonic)
    _has_said: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "_Log":
        threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        with self._lock:
            self._close()

    def report(self, name: str, done: int, whole: int | None) -> None:
        with self._lock:
            if self._phase is None or self._phase.name != name:
                self._close()
                self._phase = _Phase(name, time.monotonic())
            self._phase.done, self._phase.whole = done, whole

    def _tick(self) -> None:
        while not self._ended.wait(min(SAY_EVERY_S, 1.0)):
            with self._lock:
                if time.monotonic() - self._said_s >= SAY_EVERY_S:
                    self._say()

    def _close(self) -> None:
        if self._has_said:
            self._say()
        self._has_said = False

    def _say(self) -> None:
        self._said_s, self._has_said = time.monotonic(), True
        if self._phase is not None:
            spent_s = self._said_s - self._phase.begun_s
            click.echo(line(self._phase.name, self._phase.done, self._phase.whole, spent_s), err=True)


def line(phase: str, done: int, whole: int | None, spent_s: float) -> str:
    """Tells progress as a line of a log: count and whole, share, rate, time spent, and time left if it can be said."""
    parts = [f"{phase}: {counted(done, whole)}"]
    if whole:
        parts.append(f"{100 * min(done / whole, 1):.0f} %")
    rate = done / spent_s if spent_s > 0 else 0.0
    if rate >= 1:
        parts.append(f"{rate:,.0f} a second")
    parts.append(f"after {duration(spent_s)}")
    if whole and 0 < done < whole:
        parts.append(f"about {duration(spent_s * (whole - done) / done)} left")
    return ", ".join(parts)


def counted(done: int, whole: int | None) -> str:
    return f"{done:,}" if whole is None else f"{done:,} of {max(whole, done):,}"


def duration(seconds: float) -> str:
    """Says it as 45 s, 3 min 20 s or 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
