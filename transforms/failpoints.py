"""Named failpoints at which tests inject faults."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "HATSTREAM_FAILPOINT"
FILE_VARIABLE = "HATSTREAM_FAILPOINT_FILE"
"""Names a file that says `place raise` or `place kill`. It is gone once that was done: other processes are started in
the place of one that was killed, and it must happen once."""

NAMES = (
    *("read", "parse", "assign", "tally", "before-noise", "after-noise", "before-record", "before-commit"),
    *("after-commit", "before-publish", "mid-file", "before-rename", "after-publish"),
)

Action = Callable[[str, int], object]
"""Called with the name of a place and the number of its passage, from 1; what it raises is raised there."""


class FailpointError(Exception):
    """Error injected by a test."""


_action: Action | None = None
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Fails as HATSTREAM_FAILPOINT=name:n or a file says, or runs a test's action."""
    killed_at, file = os.environ.get(VARIABLE), os.environ.get(FILE_VARIABLE)
    if killed_at is None and _action is None and file is None:
        return
    if file is not None:
        with suppress(FileNotFoundError):  # another process has done it: it happens once
            awaited_name, action = Path(file).read_text().split()  # such as `mid-file kill` or `mid-file raise`
            if awaited_name == name:
                os.rename(file, f"{file}.done")
                if action == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise FailpointError(name)
    passage = _passed[name] = _passed.get(name, 0) + 1
    if killed_at == f"{name}:{passage}":  # at the n-th passage of this failpoint
        os.kill(os.getpid(), signal.SIGKILL)
    if _action is not None:
        _action(name, passage)


@contextmanager
def acting(action: Action) -> Iterator[None]:
    """Calls the action at each failpoint within the block."""
    global _action
    _passed.clear()
    _action = action
    try:
        yield
    finally:
        _action = None
