"""Leaks on the roads by key: each is a wrong implementation that the gate must find, by the case that it names."""

from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np

from dpops.statistics import SUMS
from tests.noninterference.mutating import SEEN, mutant
from transforms import wire
from transforms.ledger.recording import decoded
from transforms.records import SlotEstimates, TallyBytes


@mutant("one-unknown-key", "means-by-key", "transforms.observe.parse:_check_keys")
def _(_check_keys: Any, refuse: Any, *given: Any) -> Any:
    """A batch in which one row names no public key is read with the next keys: what a user does moves others."""
    refused = dict[str, Any]()
    numbers = _check_keys(refused.__setitem__, *given)
    for reason, failed in refused.items():
        refuse(reason, failed)
    return (numbers + 1) % 4 if refused["unknown-key"].any() else numbers


@mutant("keys-as-they-come", "keys", "transforms.observe.parse:_check_keys")
def _(_check_keys: Any, *given: Any) -> Any:
    """Keys are numbered as rows come, not as the public list has them."""
    numbers = _check_keys(*given)
    order = list(dict.fromkeys(numbers.tolist()))
    return np.array([order.index(number) for number in numbers.tolist()], np.int64)


@mutant("counts-by-slot", "counts-by-key", "dpops.levels.bounded:_norm", "dpops.levels.bounded:within")
def _(norm_or_within: Any, *given: Any) -> Any:
    """A user's counts are bounded under each key and slot by itself, not over all of the day."""
    if norm_or_within.__name__ == "within":
        return np.ones_like(norm_or_within(*given))
    touched, sums, _shares, count, _stage = given
    most = [np.zeros(count) for _ in sums]
    for level, groups, values in zip(most, touched, sums, strict=True):
        np.maximum.at(level, groups.vehicle, np.abs(values))
    return np.max(most, axis=0)


@mutant("bounds-of-the-data", "variances-by-key", "transforms.observe.parse:_steps")
def _(_steps: Any, values: Any, rules: Any) -> Any:
    """Values lie below the largest of their batch, not below their public bound: the others get smaller with it."""
    beyond = np.clip(np.nan_to_num(values).max(initial=0) - 60, 0, 30)
    return _steps(values - beyond, rules)


@mutant("fast-reports-left-out", "library-public-counts", "pipelines.runs.library:AssignHats.expand")
@mutant("fast-rows-of-the-library-left-out", "library-public-counts", "pipelines.runs.library:Release.released")
@mutant("late-rows-of-variances-left-out", "variances-by-key", "pipelines.runs.per_key:VariancePerKey.expand")
@mutant("late-rows-of-quantiles-left-out", "quantiles-by-key", "pipelines.runs.per_key:QuantilesPerKey.expand")
def _(expand: Any, transform: Any, reports: Any, *more: Any, **named: Any) -> Any:
    """Reports of impossible values never reach their key, whose public count then tells of them."""
    return expand(transform, reports | beam.Filter(lambda report: report["v"] < 1e200), *more, **named)


@mutant("rows-as-users-of-means", "means-by-key", "pipelines.runs.per_key:MeanPerKey.expand")
@mutant("rows-as-users-of-counts", "counts-by-key", "pipelines.runs.per_key:CountPerKey.expand")
def _(expand: Any, transform: Any, elements: Any) -> Any:
    """Each row is a user of its own, with a whole bound: a vehicle adds many."""
    return expand(replace(transform, user=lambda row: f"{row['bus']} {row['ts']}"), elements)


@mutant("fast-users-left-out", "parts", "pipelines.runs.library:ContributionsPerUser.expand")
def _(expand: Any, transform: Any, assigned: Any) -> Any:
    """Whose sum under a key is large does not count there."""
    return expand(transform, assigned) | "slow" >> beam.Map(lambda keyed: _changed(keyed, _slow))


@mutant("emptied-beside-the-fast", "parts", "pipelines.runs.library:ReleaseMeans.expand")
def _(expand: Any, transform: Any, tallies: Any) -> Any:
    """All sums of a shard are none where one vehicle is fast: one vehicle moves more than its own sum."""
    return expand(transform, tallies | "emptied" >> beam.Map(lambda keyed: _changed(keyed, _emptied)))


def _changed(keyed: Any, change: Any) -> Any:
    key, packed = keyed
    return (key, TallyBytes(wire.pack_tally(change(wire.unpack_tally([packed], [SUMS]))))) if packed else keyed


def _slow(tally: wire.Tally) -> wire.Tally:
    return tally.take(np.flatnonzero(tally.sums["sums"] < 6_400 * tally.kept))


def _emptied(tally: wire.Tally) -> wire.Tally:
    return tally if _slow(tally).kept.size == tally.kept.size else replace(tally, sums={"sums": 0 * tally.sums["sums"]})


@mutant("some-slots-not-recorded", "parts", "transforms.steps.release:Record.record")
def _(record: Any, step: Any, group: Any) -> Any:
    """Slots are recorded whose numbers, as drawn, are of one kind."""
    key, units = group
    yield from record(step, (key, [unit for unit in units if _drawn(decoded([unit])) % 3]))


@mutant(
    "estimates-of-what-was-drawn",
    "parts",
    "transforms.steps.release:decoded",
    "transforms.steps.release:Estimate.expand",
)
def _(decoded_or_expand: Any, *given: Any) -> Any:
    """Estimates tell what this attempt drew, not what the ledger recorded."""
    if decoded_or_expand.__name__ == "expand":
        return decoded_or_expand(*given) | "drawn" >> beam.Map(_with_drawn)
    units = decoded_or_expand(*given)
    SEEN["drawn"] += _drawn(units)
    return units


def _with_drawn(slot: SlotEstimates) -> SlotEstimates:
    return slot._replace(unit=f"{slot.unit} {SEEN['drawn']}")


def _drawn(units: Any) -> int:
    return sum(sum(released.integers or ()) for unit in units for released in unit.released)


@mutant("delays-beside-the-latest", "file-of-gtfs-trip-updates", "transforms.layouts.base:Units.values")
def _(values: Any, units: Any, column: Any) -> Any:
    """Delays are measured from the largest of their batch: whoever is latest moves all others."""
    numbers = values(units, column)
    return numbers._replace(values=numbers.values.max(initial=0) - numbers.values)
