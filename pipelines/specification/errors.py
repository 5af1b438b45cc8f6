"""Errors of a specification, and the check `need`."""

from fractions import Fraction

from pipelines.errors import shortened


class SpecificationError(Exception):
    """Error that names a specification's field, rule and value.

    >>> import hatstream
    >>> hatstream.load({"nam": "town"})
    Traceback (most recent call last):
    pipelines.specification.errors.SpecificationError: specification: Object contains unknown field `nam`; did you ...
    """


def need(holds: bool, name: str, rule: str, value: object, hint: str = "") -> None:
    """Raises SpecificationError naming field, rule and value unless `holds`."""
    if not holds:
        raise SpecificationError(f"{name} {rule}; it is {_shown(value)}{hint}")


NAME_LETTERS = 200


def check_name(field: str, name: str) -> None:
    """Checks a printable name. Raises SpecificationError."""
    need(bool(name.strip()), field, "must not be empty", name)
    fits = name.isprintable() and len(name) <= NAME_LETTERS
    need(fits, field, f"must be at most {NAME_LETTERS} printable letters", name)


def _shown(value: object) -> str:
    if isinstance(value, Fraction):
        try:
            return f"{float(value):g}"
        except OverflowError:
            return "beyond all floating-point numbers"
    return shortened(repr(value) if isinstance(value, str) else str(value))
