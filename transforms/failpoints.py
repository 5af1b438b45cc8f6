"""Named places along the road where a test may make something happen, to prove that nothing is lost or released twice.

Where no test asks for anything, nothing happens.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "HATSTREAM_FAILPOINT"

NAMES = (
    "read",
    "parse",
    "assign",
    "tally",
    "before-noise",
    "after-noise",
    "before-record",
    "before-commit",
    "after-commit",
    "before-publish",
    "mid-file",
    "before-rename",
    "after-publish",
)

Action = Callable[[str, int], object]
"""Called with the name of a place and the number of its passage, from 1; what it raises is raised there."""

_action: Action | None = None
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Does what a test chose, and ends the process like `kill -9` where HATSTREAM_FAILPOINT=name:n says so."""
    killed_at = os.environ.get(VARIABLE)
    if killed_at is None and _action is None:
        return
    passage = _passed[name] = _passed.get(name, 0) + 1
    if killed_at == f"{name}:{passage}":
        os.kill(os.getpid(), signal.SIGKILL)
    if _action is not None:
        _action(name, passage)


@contextmanager
def acting(action: Action) -> Iterator[None]:
    """Calls the action at every passage of every place within the block, counted anew."""
    global _action
    _passed.clear()
    _action = action
    try:
        yield
    finally:
        _action = None
