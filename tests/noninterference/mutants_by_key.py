"""Leaks on the roads by key: each is a wrong implementation that the gate must find, by the case that it names."""

from typing import Any

import apache_beam as beam
import numpy as np

from tests.noninterference.mutating import mutant


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
def _(expand: Any, transform: Any, reports: Any) -> Any:
    """Reports of impossible speeds never reach their HAT, whose public count then tells of them."""
    name = transform.hats.spec.input.names[-1]
    return expand(transform, reports | beam.Filter(lambda report: report[name] < 1e200))


@mutant("delays-beside-the-latest", "file-of-gtfs-trip-updates", "transforms.layouts.base:Units.values")
def _(values: Any, units: Any, column: Any) -> Any:
    """Delays are measured from the largest of their batch: whoever is latest moves all others."""
    numbers = values(units, column)
    return numbers._replace(values=numbers.values.max(initial=0) - numbers.values)
