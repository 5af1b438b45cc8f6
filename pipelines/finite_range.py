"""Options whose numbers are finite."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """Numbers of a range. nan, which a comparison with its ends lets pass, and inf are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number
