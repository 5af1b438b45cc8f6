"""What live slots would be worth under `levels` on telemetry: each slot's values as soon as it is over. Not private."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from rich.table import Table

from dpops.learning import DayValues, StageValues, State, learned, live, taken_in
from dpops.learning.learner import Learned
from dpops.levels import Recipe, Rows, Stage, live_stage, release_rows
from dpops.levels.live import of_slot
from dpops.levels.stages import scaled
from dpops.noise import Noise
from dpops.types import Float64s
from hatstream_lab.evaluation.learned import centres_around, look, recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA, KINDS
from hatstream_lab.evaluation.tables import table_of
from hatstream_lab.evaluation.truth import TrueCity, TrueDay
from transforms.places.hierarchy import design_of, hats_of
from transforms.releases.periods.states import facts_of, slot_values

STORM = Fraction(3, 5)
"""What all speeds of the last day are multiplied with in a made-up storm."""


@dataclass(frozen=True, kw_only=True)
class LiveErrors:
    """Mean absolute errors by reports of one day in km/h, and how far its live values lean on it."""

    total: str
    delta: str | None
    day: str
    live: float
    forecast: float
    end: float
    leans: float


@dataclass(frozen=True, kw_only=True)
class StormShown:
    """What part of a made-up storm's drop the live values of the last day show, by reports."""

    total: str
    delta: str | None
    shown: float
    by_run: list[float]


def evaluated_live(
    city: TrueCity, totals: Sequence[str], runs: int, report: Callable[[int, int], None]
) -> tuple[list[LiveErrors], list[StormShown]]:
    """Simulates every total, pure and with delta, `runs` times, each once more with a storm on the last day."""
    errors, storms, storm = [], [], stormy(city)
    plans = [(total, kind) for total in totals for kind in KINDS]
    for done, (total, kind) in enumerate(plans):
        how = recipe_for(city, kind, Fraction(total), DELTA)
        slots, delta = live_stage(kind, how.spread, Fraction(total)), None if kind == "laplace" else str(float(DELTA))
        usual = [simulate_live(city, how, slots, Noise()) for _ in range(runs)]
        shown = [_shown(city, one[-1], simulate_live(storm, how, slots, Noise())[-1], storm) for one in usual if one]
        for index, day in enumerate(city.days[1:]):
            errors.append(_errors(total, delta, day, [run[index] for run in usual]))
        if shown:
            storms.append(StormShown(total=total, delta=delta, shown=float(np.mean(shown)), by_run=shown))
        report(done + 1, len(plans))
    return errors, storms


def stormy(city: TrueCity) -> TrueCity:
    """Takes the days, the last one at STORM times its speeds."""
    day = city.days[-1]
    rows = day.rows._replace(total=day.rows.total * STORM.numerator // STORM.denominator)
    return replace(city, days=[*city.days[:-1], replace(day, rows=rows, means=day.means * float(STORM))])


def _errors(total: str, delta: str | None, day: TrueDay, days: Sequence["LiveDay"]) -> LiveErrors:
    def error(values: Float64s) -> float:
        return float(np.nansum(np.abs(values - day.means) * day.reports) / day.reports.sum())

    return LiveErrors(
        total=total,
        delta=delta,
        day=day.name,
        live=float(np.mean([error(live_day.live) for live_day in days])),
        forecast=float(np.mean([error(live_day.forecast) for live_day in days])),
        end=float(np.mean([error(live_day.end) for live_day in days])),
        leans=float(np.mean([np.sum(live_day.leans * day.reports) / day.reports.sum() for live_day in days])),
    )


def _shown(city: TrueCity, usual: "LiveDay", storm: "LiveDay", stormed: TrueCity) -> float:
    """Measures how much lower live values are than those of the day as it was, over how much lower the speeds are."""
    reports, drop = city.days[-1].reports, city.days[-1].means - stormed.days[-1].means
    return float(np.sum((usual.live - storm.live) * reports) / np.nansum(drop * reports))


def live_table(errors: Sequence[LiveErrors], storms: Sequence[StormShown]) -> Table:
    table = table_of(
        "NOT PRIVATE: actual mean absolute error by reports of live values, km/h",
        "leans: what part of the forecast's variance the day's own slots took away. storm: what part of a "
        f"made-up storm (all speeds of the last day x {float(STORM):g}) live values show.",
        ["total", "delta", "day"],
        ["live", "forecast", "end of day", "leans", "storm"],
    )
    last = errors[-1].day if errors else ""
    shown = {(of_total.total, of_total.delta): f"{of_total.shown:.2f}" for of_total in storms}
    for error in errors:
        numbers = (f"{number:.2f}" for number in (error.live, error.forecast, error.end, error.leans))
        storm = shown.get((error.total, error.delta), "") if error.day == last else ""
        table.add_row(error.total, error.delta or "-", error.day, *numbers, storm)
    return table


@dataclass(frozen=True, kw_only=True)
class LiveDay:
    """One day of a run, (cells, slots) each: live values, how far each leans on it, forecast, the day's end."""

    live: Float64s
    leans: Float64s
    forecast: Float64s
    end: Float64s


def simulate_live(city: TrueCity, how: Recipe, live_slots: Stage, noise: Noise) -> list[LiveDay]:
    """Simulates all days after the first, in order; that one has no live slots. live_slots: of a period together."""
    rest = scaled(how.later, 1 - live_slots.share)
    state = State.new(design_of(city.region), facts_of(city.fleet))
    days: list[LiveDay] = []
    for day in city.days:
        hours = np.array(day.hours, np.int64)
        learned_so_far = learned(state) if state.days else None
        forecast = None if learned_so_far is None else learned_so_far.forecast(hours)
        stages = look(city, day, replace(how, later=rest), forecast, state, noise)
        state = taken_in(state, DayValues(hours=hours, stages=stages))
        if learned_so_far is not None and forecast is not None:
            values, leans = _live_values(city, day, learned_so_far, live_slots, noise)
            end = learned(state).estimate().values
            days.append(LiveDay(live=values, leans=leans, forecast=forecast.values, end=end))
    return days


def _live_values(
    city: TrueCity, day: TrueDay, learned_so_far: Learned, live_slots: Stage, noise: Noise
) -> tuple[Float64s, Float64s]:
    """Computes the values of each slot as published after it, (cells, slots); and how far it leans on the day."""
    hours = np.array(day.hours, np.int64)
    slots: dict[int, StageValues] = {}
    values, leans = np.zeros(day.means.shape), np.zeros(day.means.shape)
    for slot in range(hours.size):
        slots[slot] = _released(city, day, slot, learned_so_far, live_slots, noise)
        belief = live(learned_so_far, hours, slots)
        values[:, slot] = np.clip(belief.field.values[:, slot], 0, float(city.grid.upper))
        leans[:, slot] = belief.leans[:, slot]
    return values, leans


def _released(
    city: TrueCity, day: TrueDay, slot: int, learned_so_far: Learned, live_slots: Stage, noise: Noise
) -> StageValues:
    hats = hats_of(city.region, (day.hours[slot],))
    centres = centres_around(city, learned_so_far.forecast(np.array(hats.hours, np.int64)))
    stage = of_slot(live_slots, len(day.hours)).on(hats, centres, city.grid.step)
    in_slot = day.rows.slot == slot
    rows = Rows(*(column[in_slot] for column in day.rows))._replace(slot=np.zeros(int(in_slot.sum()), np.int64))
    return slot_values(release_rows(rows, stage, noise), city.fleet)
