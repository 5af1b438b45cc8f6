"""What a person meets: errors, what exit codes mean for schedulers, and how far long work is."""

from collections.abc import Callable


class UsageError(Exception):
    """The command was called wrongly; it ends with exit code 1, and shows the message."""


class InputError(Exception):
    """The input is not there or cannot be used; a command ends with exit code 4, and shows the message.

    >>> raise InputError("town.csv: it is empty")
    Traceback (most recent call last):
    pipelines.errors.InputError: town.csv: it is empty
    """

    _tagged_with_step = True  # Beam, in whose steps files are read, leaves it alone


def shortened(text: str, length: int = 300) -> str:
    """Keeps a long text's beginning and end, for messages; nothing in it moves a terminal's cursor."""
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
"""Called with a phase, what is done of it, and its whole if that is known. Never sees a vehicle's data."""


def unheard(_phase: str, _done: int, _whole: int | None) -> None:
    """Ignores progress that nobody wants to see."""
