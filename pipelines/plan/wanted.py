"""What all plans ask: at which totals, for how many vehicles, and from which number on something holds."""

from collections.abc import Callable
from fractions import Fraction

VEHICLES = (3, 10, 30, 100, 300)
"""In a HAT."""
FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""Of the epsilon that is specified."""


def fewest(holds: Callable[[int], bool], most: int) -> int | None:
    """Finds the smallest number that `holds` is true of from there on; None where it is not true of `most`."""
    return first_above(0, most, holds) if holds(most) else None


def first_above(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Finds the smallest number above `low` that `holds` is true of, and `high` where there is none below that."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
