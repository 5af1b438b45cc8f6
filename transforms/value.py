"""What is measured and released of a vehicle: the one place that says its name, its unit and the units of inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpops.types import Grid

NAME = "speed"
UNIT = "km/h"
PER_UNIT: Mapping[str, Fraction] = {
    UNIT: Fraction(1),
    "m/s": Fraction(18, 5),
    "mph": Fraction(1_609_344, 1_000_000),
    "knots": Fraction(1_852, 1_000),
}
"""How much of UNIT one of each unit is that an input may have."""


@dataclass(frozen=True)
class Value:
    """A bounded number that each report says. grid: public; in `unit`. name: of the field of a row that holds it."""

    grid: Grid
    name: str = NAME
    unit: str = UNIT
