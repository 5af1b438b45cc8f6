"""How a person or a scheduler ends a command that has no end of its own."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Set by SIGINT or SIGTERM."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
