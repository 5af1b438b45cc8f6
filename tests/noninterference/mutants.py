"""Leaks, one by one: each is a wrong implementation that the gate must find, by the case that it names."""

import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tests.noninterference.mutating import SEEN, mutant
from transforms.errors import StepError
from transforms.layouts.base import UnreadableFile

# --- what is read -------------------------------------------------------------------------------------------------


@mutant("type-of-a-batch", "library", "transforms.sources.elements:classify")
def _(old: Any, value: Any) -> Any:
    """One id that is no text makes all ids of a batch bad: a batch has one type for a column."""
    SEEN["odd ids"] += isinstance(value, float) and value == 2.5
    return ("bad", True) if SEEN["odd ids"] and isinstance(value, str) and value.startswith("PLATE") else old(value)


@mutant("refuses-an-unusable-input", "only-refused-rows", "pipelines.runs.release:_needed")
def _(_needed: Any, _spec: Any, when: Any, *_: Any, **__: Any) -> Any:
    """An input without a usable row stops the run: with one vehicle's row it would not."""
    return list(when.periods)


@mutant("fast-is-refused", "release-public-counts", "transforms.observe.parse:parse")
@mutant("late-is-refused", "quantiles-by-key", "transforms.observe.parse:parse")
@mutant("late-means-are-refused", "means-by-key-public-counts", "transforms.observe.parse:parse")
def _(parse: Any, table: Any, rules: Any) -> Any:
    """A finite value above its bounds is no report: whether it counts depends on it."""
    observations, refused = parse(table, rules)
    return observations.take(np.flatnonzero(observations[5] < rules.grid.upper_steps)), refused


@mutant("speed-chooses-the-row", "release-public-counts", "transforms.count.tally:_distinct")
def _(_distinct: Any, events: Any, vehicle: Any) -> Any:
    """Of two rows at one time the faster one stays, wherever it was: a speed decides a place."""
    fast = events.value >= np.int64(6_500)
    stays, duplicates = _distinct(events, vehicle)
    return (stays & ~fast, duplicates + int((stays & fast).sum())) if fast.any() else (stays, duplicates)


# --- what a vehicle adds -------------------------------------------------------------------------------------------


@mutant("clipped-over-vehicles", "release", "dpops.levels.bounded:_integers")
def _(_integers: Any, touched: Any, weights: Any, speeds: Any, scale: Any, stage: Any) -> Any:
    """All vehicles are scaled by the factor of the one that needs the least."""
    return _integers(touched, weights, speeds, np.full_like(scale, scale.min(initial=1.0)), stage)


@mutant("shared-cap", "release", "dpops.levels.bounded:unchecked")
def _(unchecked: Any, rows: Any, stage: Any) -> Any:
    """All rows of a day share a cap: what one vehicle adds shrinks with what others report."""
    bounded = unchecked(rows, stage)
    return bounded._replace(value=bounded.value * 300 // max(300, int(rows.reports.sum())))


@mutant("least-norm-of-the-data", "brief-days-weigh-less", "dpops.levels.bounded:unchecked")
def _(unchecked: Any, rows: Any, stage: Any) -> Any:
    """Whose day counts as brief is decided by the vehicle that reports most."""
    return unchecked(rows, replace(stage, least_norm=5 * int(rows.reports.max(initial=1))))


@mutant("bound-of-five-quarters", "with-delta", "dpops.levels.bounded:_norm_bound", "dpops.levels.bounded:within")
def _(bound_or_within: Any, *given: Any) -> Any:
    """A vehicle's vector is a quarter too long, and its check in integers is gone."""
    result = bound_or_within(*given)
    return 1.25 * result if bound_or_within.__name__ == "_norm_bound" else np.ones_like(result)


_WHOLE = "transforms.releases.periods.stages:_whole"


@mutant("places-beside-the-total", "places", "dpops.levels.parts:with_places", _WHOLE)
@mutant("classes-beside-the-total", "classes", "dpops.levels.parts:with_classes", _WHOLE)
def _(with_look_or_whole: Any, stages: Any, *given: Any) -> Any:
    """A look at places or at speed classes is on top of a day's other looks, which keep the total, and not debited."""
    if with_look_or_whole.__name__ == "_whole":
        return min(with_look_or_whole(stages), Fraction(1))
    return (*stages, with_look_or_whole(stages, *given)[-1])


@mutant("classes-of-the-data", "classes", "transforms.releases.periods.stages:rows_by_class")
def _(rows_by_class: Any, tally: Any, where: Any, column: Any) -> Any:
    """Which class a speed is in follows from the speeds of all vehicles."""
    moved = np.roll(tally.sums[column.name], int(tally.sums["sums"].sum()) % 7, axis=1)
    return rows_by_class(replace(tally, sums={**tally.sums, column.name: moved}), where, column)


@mutant("places-shared-by-vehicles", "places", "transforms.releases.periods.stages:rows_of")
def _(rows_of: Any, tally: Any, cell: Any, slots: Any) -> Any:
    """Which place a piece is in does not follow from public geometry alone: the number of reports moves it."""
    return rows_of(tally, np.roll(cell, int(tally.kept.sum()) % 5), slots)


@mutant("heading-of-another", "places-by-heading", "transforms.observe.parse:_headings")
def _(_headings: Any, *given: Any) -> Any:
    """A row without a heading takes the first one of its batch, whoever's that is."""
    headings = _headings(*given)
    said = headings[headings >= 0]
    return np.where(headings < 0, said[0] if said.size else -1, headings)


# --- what is drawn ------------------------------------------------------------------------------------------------


@mutant("noise-by-the-data", "release", "transforms.releases.periods.stages:draw_stage")
def _(draw_stage: Any, sums: Any, stage: Any, *more: Any, **named: Any) -> Any:
    """More vehicles get more noise: a scale of the data."""
    louder = stage.spread + int(np.abs(sums.weights).max() // 1000)
    return draw_stage(sums, replace(stage, spread=louder), *more, **named)


@mutant("noise-of-a-seed", "entropy", "tests.noninterference.sealed:PRELUDE")
def _(_prelude: Any) -> Any:
    """`dpops.noise.words` draws from a generator with a seed, in every process the same."""
    return (
        "import os, numpy; real = os.urandom; os.urandom = numpy.random.default_rng(7).bytes\n"
        "import dpops.noise.words; os.urandom = real\n"
    )


@mutant("live-slots-forget-the-days-share", "shares-of-a-day", "transforms.releases.live.release:LiveRelease._stage")
def _(_stage: Any, self: Any, *more: Any) -> Any:
    """Live slots of a day with a smaller part of the total are those of a whole one."""
    return _stage(replace(self, policy=replace(self.policy, by_day=None)), *more)


@mutant("digest-without-a-key", "keyed-digests", "transforms.releases.periods.stages:drawn_facts")
def _(drawn_facts: Any, sums: Any, *more: Any, **named: Any) -> Any:
    """The digest of a stage's sums needs no key: who reads the ledger finds small sums by trying all."""
    plain = hashlib.sha256(b"".join(column.tobytes() for column in sums)).hexdigest()
    return {**drawn_facts(sums, *more, **named), "digest": plain}


# --- what is late -------------------------------------------------------------------------------------------------


@mutant("live-lateness-by-the-watermark", "live-kafka", "pipelines.runs.stream.stream:_watermark")
def _(_watermark: Any, *given: Any) -> Any:
    """Under secret counts a report is late by what its partition promised, which others moved."""
    return replace(_watermark(*given), by_own_times=False)


@mutant("file-time-of-the-producer", "live-folder", "transforms.sources.unbounded:_at_ms")
def _(_at_ms: Any, entry: Any, by_kernel: Any) -> Any:  # noqa: ARG001
    """Under secret counts a file of a growing folder came when its producer says, not when it was put there."""
    return _at_ms(entry, by_kernel=False)


@mutant("own-time-ends-the-pipeline", "library-unbounded", "transforms.sources.elements:_IntoBatches._own_times")
def _(_own_times: Any, self: Any, batch: Any, taken: Any) -> Any:
    """Under secret counts one row whose Beam timestamp is its own time ends the library's pipeline."""
    if (own := _own_times(self, batch, taken)).any():
        raise StepError("a row's Beam timestamp is its own time")
    return own


# --- more of what is read -----------------------------------------------------------------------------------------


@mutant("one-bad-time", "strange-rows", "transforms.layouts.columns:instants")
def _(instants: Any, *given: Any) -> Any:
    """A time that cannot be read makes all times of its batch a second later: a format is guessed for the whole."""
    times = instants(*given)
    return times._replace(us=times.us + 3_600_000_000) if (~times.valid).any() else times


@mutant("empty-file-is-unreadable", "one-vehicle-alone", "pipelines.runs.beam.bounded:outcome_of")
def _(outcome_of: Any, finished: Any) -> Any:
    """A file without rows stops the run: one vehicle alone in a file would let it pass."""
    outcome = outcome_of(finished)
    if not outcome.rows:
        raise UnreadableFile("feed.csv", "no rows")
    return outcome


@mutant("way-of-the-data", "derived-headings", "transforms.observe.derived_speed:derived_headings")
@mutant("gap-of-the-data", "derived-speeds", "transforms.observe.derived_speed:derived_speeds")
def _(derived: Any, positions: Any, limits: Any, *grid: Any) -> Any:
    """The largest gap between two positions, or how long a way is known, follows from the vehicles of the day."""
    return derived(positions, replace(limits, max_gap_s=60) if positions.vehicle.size % 2 else limits, *grid)


@mutant("type-of-a-batch-of-reports", "fused-beside-a-stranger", "hatstream_local.specification:parse_reports")
def _(parse_reports: Any, table: Any, rules: Any) -> Any:
    """One report whose value cannot be read leaves those after it in its batch out."""
    unreadable = np.flatnonzero(~rules.layout.units.numbers(table.column("report")).valid)
    return parse_reports(table.slice(0, unreadable.min(initial=table.num_rows)), rules)


@mutant("fast-vehicles-report-nothing", "perturbed-and-fused", "hatstream_local.fusion.fuse:perturb")
def _(perturb: Any, *given: Any) -> Any:
    """A vehicle that is faster than all that is expected makes no report."""
    *columns, services, noise = given  # vehicles, slots, cells and values
    is_slow = ~np.isin(columns[0], columns[0][columns[3] >= 1])
    return perturb(*(column[is_slow] for column in columns), services, noise)


# --- more of what a vehicle adds, and of what is drawn ------------------------------------------------------------


@mutant("noise-where-there-are-reports", "release", "dpops.levels.bounded:release")
def _(release: Any, sums: Any, stage: Any, noise: Any) -> Any:
    """Groups without reports get no noise."""
    exact = np.concatenate(sums)
    return np.where(exact == 0, 0, release(sums, stage, noise))


@mutant("bound-of-the-data", "release", "transforms.releases.periods.stages:draw_stage")
def _(draw_stage: Any, sums: Any, stage: Any, *more: Any, **named: Any) -> Any:
    """The plan tells a bound that was chosen from the day's sums."""
    bound = Fraction(7 + int(np.abs(sums.speeds).sum()) % 7)
    return draw_stage(sums, replace(stage, bound_kmh=bound), *more, **named)


@mutant("sums-in-float32", "neighbours", "dpops.levels.bounded:sum_up")
def _(sum_up: Any, rows: Any, stage: Any) -> Any:
    """Vectors are added up in 32 bits of floating point: what a vehicle adds depends on what stands there."""
    return type(sums := sum_up(rows, stage))(*(part.astype(np.float32).astype(np.int64) for part in sums))


@mutant("slow-hats-left-out", "release-public-counts", "transforms.releases.hats.draw:draw_releases")
def _(draw_releases: Any, groups: Any, *more: Any) -> Any:
    """HATs with slow vehicles are left out under public counts: speeds decide which HATs exist."""
    fast = {
        group: tally.take(np.flatnonzero(next(iter(tally.sums.values())) > 2_000 * tally.kept))
        for group, tally in groups.items()
    }
    return draw_releases(fast, *more)


@mutant(
    "days-that-take-half-a-span",
    "28-days",
    "pipelines.specification.levels:SpanTotal.of_a_day",
    "transforms.ledger.spending:_fits",
    "pipelines.specification.checks:check_span",
)
def _(of_a_day_or_check: Any, *given: Any) -> Any:
    """Each of 28 days is given a fourteenth of their total, and the ledger adds nothing up."""
    if of_a_day_or_check.__name__ == "of_a_day":
        return of_a_day_or_check(replace(given[0], share_sum=given[0].share_sum / 2))
    return True
