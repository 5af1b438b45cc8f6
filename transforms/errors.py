"""Errors of the road: why a step cannot go on, in words that show nothing of its input."""

from collections.abc import Iterable
from difflib import get_close_matches


class StepError(Exception):
    """A step cannot go on with a file; the message names the file and what is wrong, and shows nothing of its content.

    Beam makes a RuntimeError of other exceptions of input and output, and adds its step's name to their messages.
    """

    _tagged_with_step = True  # Beam leaves it alone


def recorded_but(what: str) -> StepError:
    """Says what failed after the ledger's commit."""
    return StepError(f"{what}. The release is recorded; running the same command again publishes it.")


def reason_of(error: OSError) -> str:
    """Tells what the operating system says, without the file's name."""
    return error.strerror or type(error).__name__


def did_you_mean(wrong: object, choices: Iterable[str]) -> str:
    """Suggests, for the end of a message, the known name that a mistaken one resembles; empty where none does."""
    names = {name.lower(): name for name in choices}
    matches = get_close_matches(str(wrong).lower(), names, 1, 0.65)
    return f"; did you mean {names[matches[0]]!r}?" if matches else ""
