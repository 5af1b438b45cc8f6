"""Errors that a person meets, and words for them."""


class UsageError(Exception):
    """The command was called wrongly."""


class InputError(Exception):
    """The input is not there or cannot be used."""


def shortened(text: str, most: int = 300) -> str:
    """Shortens a text for messages: what is long keeps its beginning and its end; nothing in it moves a terminal's
    cursor."""
    kept = text if len(text) <= most else f"{text[: most // 2]} .. {text[-most // 4 :]}"
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in kept)
