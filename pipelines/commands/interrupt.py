"""How a person or a scheduler ends a command that has no end of its own."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from pipelines.exit_codes import FAILED


@contextmanager
def asked_to_stop(within_s: float | None = None) -> Iterator[threading.Event]:
    """Lets SIGINT and SIGTERM end a command that has no end of its own.

    Args:
        within_s: So long after a signal the process ends with exit code 4, whatever it does; None: it waits.

    Returns:
        A context manager around the event that is set when a signal comes.

    >>> with asked_to_stop() as stop:
    ...     stop.wait(0.01)
    False
    """
    asked = threading.Event()
    last = threading.Timer(within_s or 0.0, _end)
    last.daemon = True

    def ask(_number: int, _frame: object) -> None:
        if within_s is not None and not asked.is_set():
            last.start()
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        last.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _end() -> None:
    click.echo("stopped, in the middle of what did not end by itself", err=True)
    os._exit(FAILED)
