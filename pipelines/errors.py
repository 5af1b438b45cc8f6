"""Errors, exit codes for schedulers, and progress callbacks."""

from collections.abc import Callable


class UsageError(Exception):
    """Error of a command's wrong use; exit code 1."""


class InputError(Exception):
    """Error of missing or unusable input; exit code 4.

    >>> raise InputError("town.csv: it is empty")
    Traceback (most recent call last):
    pipelines.errors.InputError: town.csv: it is empty
    """

    _tagged_with_step = True  # Beam, in whose steps files are read, leaves it alone


def shortened(text: str) -> str:
    """Shortens text to its ends, without unprintable letters."""
    length = 300
    shown = text if len(text) <= length else f"{text[: length // 2]} .. {text[-length // 4 :]}"
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in shown)


DONE = 0
WRONG_USE = 1
BAD_SPECIFICATION = 2
REFUSED = 3
"""By the account."""
FAILED = 4
"""Input or infrastructure."""
DIFFERS = 5
"""Done, but input or code differs from what was released before."""

Report = Callable[[str, int, int | None], None]
"""Called with a phase, its count, and its total if known. Never sees a vehicle's data."""


def ignore(_phase: str, _count: int, _total: int | None) -> None:
    """Ignores progress that nobody wants to see."""
