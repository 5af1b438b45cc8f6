"""How a person or a scheduler ends a command that has no end of its own."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from pipelines.exit_codes import FAILED


@contextmanager
def asked_to_stop(within_s: float | None = None) -> Iterator[threading.Event]:
    """Yields an event that SIGINT or SIGTERM sets. within_s: so long after it the process ends, whatever it does."""
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


def end_at_once(code: int) -> None:
    """Ends the process without taking it apart, which a busy machine may need seconds for. All is said and written."""
    try:
        sys.stdout.flush()
    except OSError:  # nobody reads it any more
        code = code or FAILED
    os._exit(code)


def _end() -> None:
    click.echo("stopped, in the middle of what did not end by itself", err=True)
    os._exit(FAILED)
