"""Numbers of a specification as rational values."""

from decimal import Decimal
from fractions import Fraction

from pipelines.errors import shortened


def from_toml(kind: type, value: object) -> Fraction:
    """Reads a number as it is written: 0.1 is one tenth."""
    if kind is Fraction and isinstance(value, int | Decimal) and not isinstance(value, bool):
        if isinstance(value, Decimal) and not value.is_finite():
            raise ValueError(f"expected a finite number, got {value}")
        if value and abs(Decimal(value).adjusted()) > 30:
            raise ValueError(f"expected a number between 1e-30 and 1e30, got {shortened(str(value))}")
        return Fraction(value)
    raise ValueError(f"expected a number, got {value!r}")
