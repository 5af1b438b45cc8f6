"""Expected usable shares of rows and reports by day."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import h3.api.basic_int as h3_int
import msgspec
import numpy as np
from scipy.special import ndtr, ndtri

from dpops import fitted
from dpops.learning.expected import weight_log_variances
from dpops.levels.defaults import BoundsOnly
from dpops.levels.stages import Stage
from dpops.spread import LEAST_VEHICLES
from pipelines.outcome import hundredths
from pipelines.specification import Specification
from transforms.places.hierarchy import hats_of
from transforms.time.calendar import DAY_MINUTES

DAY_NUMBERS = (1, 7, 28)
"""Released days, counted from an account's first."""
_SCORES = ndtri((np.arange(600) + 0.5) / 600)
"""Equally likely values of a standard normal law."""


class UsableDay(msgspec.Struct, frozen=True, kw_only=True):
    """Released day with its usable shares."""

    day: int
    rows: float  # share of HATs that are `ok`
    reports: float  # share of all reports in these, 0 while held back


class UsablePart(msgspec.Struct, frozen=True, kw_only=True):
    """Usable shares by day, for a choice of HATs."""

    choice: str
    days: list[UsableDay]


def choices_of_hats(spec: Specification, bounds: BoundsOnly) -> Iterator[tuple[str, BoundsOnly]]:
    """Lists choices of HATs: as specified, coarser and longer."""
    yield "", bounds
    table, profile, fleet = spec.timetable, bounds.fleet.profile, bounds.fleet
    if spec.keys is None and spec.cells.resolution:
        parents = sorted({h3_int.cell_to_parent(cell, spec.cells.resolution - 1) for cell in spec.cells.region or ()})
        hats = hats_of(parents, [minute // 60 for minute in table.service_minutes])
        touched = max(profile.hats * profile.parents // profile.cells, profile.hours)
        fewer = replace(profile, hats=touched, cells=profile.parents, parents=profile.grandparents)
        coarser = BoundsOnly(hats=hats, fleet=replace(fleet, profile=fewer))
        yield f"cells.resolution {spec.cells.resolution - 1}", coarser
    if DAY_MINUTES % (minutes := 2 * table.slot_minutes) == 0:
        slots = profile.hours * 60 / table.slot_minutes
        met = 1 - (1 - min(profile.hats / slots / profile.cells, 1)) ** 2
        fewer = replace(profile, hats=max(round(met * profile.cells * slots / 2), 1))
        hats = hats_of(spec.cells.region or (), [minute // 60 for minute in table.service_minutes[::2]])
        yield f"slot.minutes {minutes}", BoundsOnly(hats=hats, fleet=replace(fleet, profile=fewer))


def usable_parts(stage: Stage, bounds: BoundsOnly, days: int = 1) -> tuple[float, float]:
    """Forecasts shares of `ok` HATs and of their reports.

    A HAT is `ok` where it has LEAST_VEHICLES with a probability p of two thirds, so one that has fewer takes back what
    two others are worth: max(0, 3 p - 2), expected over HATs' lognormal weights. More information never lowers that
    (Blackwell 1953), unlike the share of `ok` HATs: of an average alone, all or none are.
    """
    spread = fitted.BUSIER**2
    unknown = float(weight_log_variances(stage, bounds, np.array([LEAST_VEHICLES]), days)[0])
    known = max(spread - unknown, 0.0)
    logs = math.log(bounds.usual_vehicles / LEAST_VEHICLES) - spread / 2 + math.sqrt(known) * _SCORES
    sd = math.sqrt(unknown + 1 / LEAST_VEHICLES)  # of weights, and of numbers by chance
    rows, reports = (float(np.maximum(3 * ndtr(of / sd) - 2, 0.0).mean()) for of in (logs, logs + known))
    return rows, reports


def answer(parts: Sequence[UsablePart]) -> str:
    """Words usable shares by day, and alternatives."""
    own, *others = parts
    last = DAY_NUMBERS[-1]
    said = [
        f"on day {day.day} {hundredths(day.rows)} of 100 rows, which hold {hundredths(day.reports)} of 100 reports"
        if day.reports
        else f"on day {day.day} none, it is expected to be held back"
        for day in own.days
    ]
    instead = [
        f"{other.choice}: {hundredths(day.rows)} and {hundredths(day.reports)}"
        for other in others
        for day in other.days
        if day.day == last
    ]
    tail = f" On day {last} with {'; with '.join(instead)}." if instead else ""
    return f"Expected to be usable by themselves: {'; '.join(said)}.{tail}"
