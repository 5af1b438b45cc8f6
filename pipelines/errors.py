"""Errors and checks, schedulers' exit codes, and progress callbacks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction


class UsageError(Exception):
    """Error of a command's wrong use; exit code 1."""


class InputError(Exception):
    """Error of missing or unusable input; exit code 4.

    >>> raise InputError("town.csv: it is empty")
    Traceback (most recent call last):
    pipelines.errors.InputError: town.csv: it is empty
    """

    _tagged_with_step = True  # Beam, in whose steps files are read, leaves it alone


class SpecificationError(Exception):
    """Error that names a specification's field, rule and value.

    >>> import hatstream
    >>> hatstream.load({"nam": "town"})
    Traceback (most recent call last):
    pipelines.errors.SpecificationError: specification: Object contains unknown field `nam`; did you ...
    """


@contextmanager
def raise_as(
    kind: type[Exception], others: type[Exception] | tuple[type[Exception], ...], prefix: str = ""
) -> Iterator[None]:
    """Raises errors of the types `others` in the block as `kind`, after a prefix."""
    try:
        yield
    except others as error:
        raise kind(f"{prefix}{error}") from None


def shortened(text: str) -> str:
    """Shortens text of over 300 letters to its ends; replaces unprintable letters."""
    length = 300
    shown = text if len(text) <= length else f"{text[: length // 2]} .. {text[-length // 4 :]}"
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in shown)


def need(holds: bool, name: str, rule: str, value: object, hint: str = "") -> None:
    """Raises SpecificationError naming field, rule and value, a fraction as a float, unless `holds`."""
    if holds:
        return
    if not isinstance(value, Fraction):
        shown = shortened(repr(value) if isinstance(value, str) else str(value))
    else:
        try:
            shown = f"{float(value):g}"
        except OverflowError:
            shown = "beyond all floating-point numbers"
    raise SpecificationError(f"{name} {rule}; it is {shown}{hint}")


def check_name(field: str, name: str) -> None:
    """Checks a printable name. Raises SpecificationError."""
    letters = 200  # keeps messages and tables readable
    need(bool(name.strip()), field, "must not be empty", name)
    fits = name.isprintable() and len(name) <= letters
    need(fits, field, f"must be at most {letters} printable letters", name)


DONE = 0
WRONG_USE = 1
BAD_SPECIFICATION = 2
REFUSED = 3  # by the account
FAILED = 4  # input or infrastructure
DIFFERS = 5  # done, but input or code differs from what was released before

Report = Callable[[str, int, int | None], None]  # takes a phase, its count, and its total if known; no vehicle's data


def ignore(_phase: str, _count: int, _total: int | None) -> None:
    """Ignores progress that nobody wants to see."""
