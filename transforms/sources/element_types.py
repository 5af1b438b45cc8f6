"""What the type of a PCollection says of its elements before one is read: whether they can be reports at all."""

from collections.abc import Collection, Mapping
from typing import Any

from apache_beam.typehints import typehints

_NO_REPORTS = (
    typehints.TupleConstraint,
    typehints.TupleHint.TupleSequenceConstraint,
    typehints.ListHint.ListConstraint,
)


def why_no_reports(kind: Any, names: Collection[str]) -> str | None:
    """Tells why elements of a Beam type are no reports; None where they may be: types say little of dicts and Any.

    names: of the fields that a report must have; dots may lead into them.
    """
    fields = _fields_of(kind)
    if fields is not None:
        missing = [name for name in names if name not in fields and name.split(".")[0] not in fields]
        return f"have no field {missing[0]!r}; they have {', '.join(fields)}" if missing else None
    if isinstance(kind, type):
        return None if kind is object or _may_be_read(kind) else f"are of type {kind.__qualname__}"
    return f"are of type {kind}" if isinstance(kind, _NO_REPORTS) else None


def _fields_of(kind: Any) -> list[str] | None:
    """Lists the names in a NamedTuple or in a Beam Row; None where the type tells none."""
    fields = getattr(kind, "_fields", None)
    return [field if isinstance(field, str) else field[0] for field in fields] if isinstance(fields, tuple) else None


def _may_be_read(kind: type) -> bool:
    return issubclass(kind, Mapping) or hasattr(kind, "as_dict") or hasattr(kind, "_asdict")
