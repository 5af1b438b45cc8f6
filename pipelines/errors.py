"""Errors that a person meets, and words for them."""


class UsageError(Exception):
    """The command was called wrongly; it ends with exit code 1, and shows the message."""


class InputError(Exception):
    """The input is not there or cannot be used; a command ends with exit code 4, and shows the message.

    >>> raise InputError("town.csv: it is empty")
    Traceback (most recent call last):
    pipelines.errors.InputError: town.csv: it is empty
    """

    _tagged_with_step = True  # Beam, in whose steps files are read, leaves it alone


def shortened(text: str, most: int = 300) -> str:
    """Shortens a text for messages: what is long keeps its beginning and its end; nothing in it moves a terminal's
    cursor."""
    kept = text if len(text) <= most else f"{text[: most // 2]} .. {text[-most // 4 :]}"
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in kept)
