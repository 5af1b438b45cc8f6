"""Named places where a test may kill the process, to prove that nothing is lost or released twice there."""

import os
import signal

VARIABLE = "HATSTREAM_FAILPOINT"

NAMES = (
    "before-record",
    "before-commit",
    "after-commit",
    "before-publish",
    "mid-file",
    "before-rename",
    "after-publish",
)

_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Ends the process like `kill -9` where the environment says HATSTREAM_FAILPOINT=name:n (its n-th passage)."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if wanted == f"{name}:{_passed[name]}":
        os.kill(os.getpid(), signal.SIGKILL)
