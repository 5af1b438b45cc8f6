"""What a specification measures: a speed, or any other value within public bounds; and what is believed of it."""

import re

from dpops.forecast import Prior
from dpops.types import Grid
from pipelines.specification.document import Document, SpeedTable
from pipelines.specification.errors import SpecificationError, check_name, need
from transforms.layouts.base import FIELDS, HEADING
from transforms.value import Value


def value_of(document: Document) -> Value:
    """Reads what is measured: a speed, or any other value within its bounds."""
    speed, value = document.speed, document.value
    if speed is not None:
        need(value is None, "value", "stands in the place of [speed]: write one of them", "both")
        return Value(_grid_of(speed))
    if value is None:
        raise SpecificationError("[speed] must be there, or [value]")
    need(re.fullmatch(r"[a-z][a-z0-9_]{0,59}", value.name) is not None, "value.name", "must be a-z, 0-9, _", value.name)
    need(value.name not in (*FIELDS, HEADING), "value.name", "must be another than those of fields", value.name)
    check_name("value.unit", value.unit)
    need(value.lower < value.upper, "value.lower", "must be below value.upper", value.lower)
    need(max(abs(value.lower), abs(value.upper)) <= 10**6, "value", "must lie within 1e6", value.upper)
    derived = document.input.derived_speed or document.input.speed_unit
    need(derived is None, "input", "goes without speed_unit and derived_speed where [value] is measured", "given")
    return Value.between(value.name, value.unit, value.lower, value.upper)


def _grid_of(speed: SpeedTable) -> Grid:
    need(0 < speed.upper_kmh <= 100_000, "speed.upper_kmh", "must be above 0, at most 100000", speed.upper_kmh)
    need(speed.grid_kmh > 0, "speed.grid_kmh", "must be above 0", speed.grid_kmh)
    steps = speed.upper_kmh / speed.grid_kmh
    need(steps.denominator == 1, "speed.grid_kmh", "must divide speed.upper_kmh", speed.grid_kmh)
    need(steps <= 1_000_000, "speed.grid_kmh", "must give at most 1,000,000 steps up to upper_kmh", speed.grid_kmh)
    return Grid(step=speed.grid_kmh, upper_steps=int(steps))


def prior_of(speed: SpeedTable | None) -> Prior | None:
    if speed is None or speed.prior is None:
        return None
    mean, sd, between = speed.prior.mean_kmh, speed.prior.sd_kmh, speed.prior.between
    need(0 <= mean <= speed.upper_kmh, "speed.prior.mean_kmh", "must be between 0 and upper_kmh", mean)
    need(
        speed.upper_kmh / 1000 <= sd <= speed.upper_kmh, "speed.prior.sd_kmh", "must be upper_kmh/1000 to upper_kmh", sd
    )
    need(0 <= between <= 1, "speed.prior.between", "must be between 0 and 1", between)
    return Prior(float(mean), float(sd), float(between))
