"""What is measured and released of a vehicle: the one place that says its name and its unit."""

from dataclasses import dataclass

from dpops.types import Grid

NAME = "speed"
UNIT = "km/h"


@dataclass(frozen=True)
class Value:
    """A bounded number that each report says. grid: public; in `unit`. name: of the field of a row that holds it."""

    grid: Grid
    name: str = NAME
    unit: str = UNIT
