"""The measured value: its name, unit and bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from dpops.types import Float64s, Grid

Number = TypeVar("Number", float, Float64s)

STEPS = 6_500  # of the grid between the bounds of a value: steps of 0.01 km/h for speeds up to 65
SPEED = "speed"  # the default value, and the field in which layouts read whatever value
UNIT = "km/h"
PER_UNIT: Mapping[str, Fraction] = {  # how much of UNIT one of each unit is that an input may have
    UNIT: Fraction(1),
    "m/s": Fraction(18, 5),
    "cm/s": Fraction(9, 250),
    "ft/s": Fraction(109_728, 100_000),
    "mph": Fraction(1_609_344, 1_000_000),
    "knots": Fraction(1_852, 1_000),
}
SECONDS: Mapping[str, int] = {"s": 1, "min": 60, "h": 3_600}


def per_unit(unit: str) -> Mapping[str, Fraction]:
    """Lists units of inputs, as multiples of `unit`."""
    if unit in SECONDS:
        return {name: Fraction(seconds, SECONDS[unit]) for name, seconds in SECONDS.items()}
    return PER_UNIT if unit == UNIT else {unit: Fraction(1)}


STANDARD_WIDTH = 65  # of the scale on which `levels` works: its constants are for bus speeds of 0 to 65 km/h


@dataclass(frozen=True)
class Value:
    """A bounded number in each report, with its grid.

    >>> delay = Value.between("delay", "min", Fraction(-5), Fraction(10))
    >>> delay.standard.upper, delay.shown(0.0), delay.shown(65.0), delay.width(65.0)
    (Fraction(65, 1), -5.0, 10.0, 15.0)
    """

    grid: Grid
    name: str = SPEED
    unit: str = UNIT
    lower: Fraction = Fraction(0)
    scale: Fraction = Fraction(1)  # size, in `unit`, of 1 on the standard scale, from 0 to 65, on which `levels` works

    @classmethod
    def between(cls, name: str, unit: str, lower: Fraction, upper: Fraction) -> "Value":
        """Makes a value with these bounds, on a grid of STEPS."""
        width = upper - lower
        return cls(Grid(step=width / STEPS, upper_steps=STEPS), name, unit, lower, width / STANDARD_WIDTH)

    @property
    def plural(self) -> str:
        """The value in sentences about several reports."""
        return f"{self.name}s" if self.name == SPEED else f"{self.name} values"

    @property
    def standard(self) -> Grid:
        """The grid on the standard scale."""
        return Grid(step=self.grid.step / self.scale, upper_steps=self.grid.upper_steps)

    def shown(self, values: Number) -> Number:
        """Converts from the standard scale."""
        return self.width(values) + float(self.lower)

    def width(self, values: Number) -> Number:
        """Converts differences from the standard scale."""
        return values if self.scale == 1 else values * float(self.scale)
