"""Leaks, one by one: each is a wrong implementation that the gate must find, by the case that it names."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import msgspec
import numpy as np
import pytest

OURS = ("dpops", "transforms", "pipelines", "hatstream")


@dataclass(frozen=True)
class Mutant:
    """breaks: what is wrong, in words. case: by which it is found (tests/noninterference/cases.py)."""

    name: str
    breaks: str
    case: str
    apply: Callable[[pytest.MonkeyPatch], None]


MUTANTS: list[Mutant] = []
Change = Callable[[Any], Any]


def mutant(name: str, case: str, *where: str) -> Callable[[Change], Change]:
    """Registers a function from what there is to what takes its place. where: `module:name`, also of a class's member.

    Its docstring says what is wrong.
    """

    def register(change: Change) -> Change:
        def apply(patch: pytest.MonkeyPatch) -> None:
            for place in where:
                replace_everywhere(patch, place, change)

        MUTANTS.append(Mutant(name, (change.__doc__ or "").strip(), case, apply))
        return change

    return register


def replace_everywhere(patch: pytest.MonkeyPatch, place: str, change: Change) -> None:
    """Whoever imported it by name gets the mutant too."""
    import_all()
    module, _, path = place.partition(":")
    *within, name = path.split(".")
    holder: Any = __import__(module, fromlist=["_"])
    for each in within:
        holder = getattr(holder, each)
    original = getattr(holder, name)
    changed = change(original)
    patch.setattr(holder, name, changed)
    for known in [known for key, known in sys.modules.items() if key.split(".")[0] in OURS and not within]:
        for at, value in list(vars(known).items()):
            if value is original:
                patch.setattr(known, at, changed)


@cache
def import_all() -> None:
    """What is imported while a mutant is there would keep it."""
    for package in ("dpops", "transforms", "pipelines"):
        for found in walk_packages(__import__(package).__path__, f"{package}."):
            if not found.name.startswith("pipelines.lab"):
                import_module(found.name)


# --- what is read -------------------------------------------------------------------------------------------------


@mutant("type-of-a-batch", "library", "transforms.sources.values:told")
def _(told: Any) -> Any:
    """One id that is no text makes all ids of a batch bad: a batch has one type for a column."""
    odd = []

    def mutated(value: Any) -> Any:
        odd.extend([value] if isinstance(value, float) and value == 2.5 else [])
        return ("bad", True) if odd and isinstance(value, str) and value.startswith("PLATE") else told(value)

    return mutated


@mutant("refuses-an-unusable-input", "only-refused-rows", "pipelines.runs.release:_needed")
def _(_needed: Any) -> Any:
    """An input without a usable row stops the run: with one vehicle's row it would not."""
    return lambda _spec, when, *_, **__: list(when.periods)


@mutant("fast-is-refused", "release-public-counts", "transforms.observe.parse:_steps")
def _(_steps: Any) -> Any:
    """A finite speed above all bounds is no report: whether it counts depends on it."""

    def mutated(speed: Any, rules: Any) -> Any:
        steps = _steps(speed, rules)
        return np.where(speed > 1e6, -1, steps)

    return mutated


@mutant("speed-chooses-the-row", "release-public-counts", "transforms.count.tally:_distinct")
def _(_distinct: Any) -> Any:
    """Of two rows at one time the faster one stays, wherever it was: a speed decides a place."""

    def mutated(events: Any, vehicle: Any) -> Any:
        fast = events.speed >= np.int64(6_500)
        stays, duplicates = _distinct(events, vehicle)
        return (stays & ~fast, duplicates + int((stays & fast).sum())) if fast.any() else (stays, duplicates)

    return mutated


# --- what a vehicle adds -------------------------------------------------------------------------------------------


@mutant("clipped-over-vehicles", "release", "dpops.levels.bounded:_integers")
def _(_integers: Any) -> Any:
    """All vehicles are scaled by the factor of the one that needs the least."""

    def mutated(touched: Any, weights: Any, speeds: Any, scale: Any, stage: Any) -> Any:
        return _integers(touched, weights, speeds, np.full_like(scale, scale.min(initial=1.0)), stage)

    return mutated


@mutant("shared-cap", "release", "dpops.levels.bounded:unchecked")
def _(unchecked: Any) -> Any:
    """All rows of a day share a cap: what one vehicle adds shrinks with what others report."""

    def mutated(rows: Any, stage: Any) -> Any:
        found = unchecked(rows, stage)
        return found._replace(value=found.value * 300 // max(300, int(rows.reports.sum())))

    return mutated


@mutant("bound-of-five-quarters", "with-delta", "dpops.levels.bounded:_part", "dpops.levels.bounded:within")
def _(part_or_within: Any) -> Any:
    """A vehicle's vector is a quarter too long, and its check in integers is gone."""
    if part_or_within.__name__ == "_part":
        return lambda share, stage: 1.25 * part_or_within(share, stage)
    return lambda vehicle, value, stage: np.ones_like(part_or_within(vehicle, value, stage))


# --- what is drawn ------------------------------------------------------------------------------------------------


@mutant("noise-by-the-data", "release", "transforms.releases.periods.stages:seal_stage")
def _(seal_stage: Any) -> Any:
    """More vehicles get more noise: a scale of the data."""

    def mutated(sums: Any, plan: Any, *more: Any) -> Any:
        louder = str(int(Fraction(plan.spread)) + int(np.abs(sums.weights).max() // 1000))
        return seal_stage(sums, msgspec.structs.replace(plan, spread=louder), *more)

    return mutated


# --- what is published --------------------------------------------------------------------------------------------


@mutant("publishes-what-was-drawn", "release-public-counts", "transforms.ledger.recording:record_units")
def _(record_units: Any) -> Any:
    """What goes on is what this attempt drew, not what the ledger returned."""

    def mutated(units: Any, account: Any) -> Any:
        done = record_units(units, account)
        done.slots[0].units[:] = units
        return done

    return mutated


@mutant("log-line", "release", "pipelines.runs.crew.counting:observe_files")
def _(observe_files: Any) -> Any:
    """A line of the log tells how many rows there were."""

    def mutated(crew: Any, road: Any, paths: Any, outcome: Any, progress: Any) -> Any:
        events = observe_files(crew, road, paths, outcome, progress)
        print(f"{outcome.rows} rows", file=sys.stderr)
        return events

    return mutated


SEEN = Counter[str]()
"""What some mutants know of the input and should not."""


def watch_rows(patch: pytest.MonkeyPatch) -> None:
    """Lets mutants know how many rows were read since the last release began."""

    def counting(count_in: Any) -> Any:
        def mutated(outcome: Any, counts: Any) -> None:
            count_in(outcome, counts)
            SEEN["rows"] = outcome.rows

        return mutated

    replace_everywhere(patch, "pipelines.outcome:count_in", counting)


@mutant("row-order", "release", "transforms.sinks.rows:columns_of")
def _(columns_of: Any) -> Any:
    """Rows stand in another order when the number of rows that were read is odd."""

    def mutated(slot: Any, shape: Any) -> Any:
        columns = columns_of(slot, shape)
        return {name: list(values)[:: -1 if SEEN["rows"] % 2 else 1] for name, values in columns.items()}

    return mutated


@mutant("file-size", "release", "transforms.sinks.files:write_whole")
def _(write_whole: Any) -> Any:
    """A file is longer by a byte for every ten rows that were read."""
    return lambda path, data, *more: write_whole(path, data + b" " * (SEEN["rows"] // 10), *more)


@mutant("cells-with-reports", "one-vehicle-alone", "transforms.sinks.files:publish_slot")
def _(publish_slot: Any) -> Any:
    """A slot without reports gets no file."""
    return lambda slot, *more: publish_slot(slot, *more) if SEEN["rows"] else []


# --- what is late -------------------------------------------------------------------------------------------------


@mutant("live-lateness-by-the-watermark", "live-kafka", "pipelines.runs.stream.stream:_watermark")
def _(_watermark: Any) -> Any:
    """Under secret counts a report is late by what its partition promised, which others moved."""
    return lambda *given: replace(_watermark(*given), by_own_times=False)
