"""Reports joined per user, and what those of a group of users tell: pure functions on columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream_local.mechanisms.aggregate import aggregate
from hatstream_local.mechanisms.distributions import Distribution, maximum_likelihood, smoothed
from hatstream_local.mechanisms.laplace import Laplace
from hatstream_local.mechanisms.likelihood import ReportRows
from hatstream_local.mechanisms.means import Method, fused_mean
from hatstream_local.mechanisms.mechanism import Float64s, Int64s
from hatstream_local.mechanisms.reports import Reports, Service
from hatstream_local.reports.columns import Reported

Row = dict[str, Any]

UNIT = "km/h"
FUSED = "all"
"""The service of a fused row; the rows of single services stand beside it for comparison."""

_REMEMBERED_ROWS, _MOST_REMEMBERED = 2, 4096
_REMEMBERED: dict[tuple[object, ...], Distribution] = {}

SCHEMA = pa.schema(
    [
        pa.field("spec_id", pa.string(), nullable=False),
        pa.field("slot_start", pa.string(), nullable=False),
        pa.field("slot_end", pa.string(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("statistic", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("from_kmh", pa.float64()),
        pa.field("to_kmh", pa.float64()),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("lower95", pa.float64()),
        pa.field("upper95", pa.float64()),
        pa.field("users", pa.int64(), nullable=False),
        pa.field("epsilon_user", pa.float64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
    ]
)

Group = tuple[int, int]
"""Start of the slot in seconds since 1970 UTC, and cell; 0 for what the specification does not ask for."""


@dataclass(frozen=True)
class FusionRules:
    """How a group is fused. buckets: of the distribution; 0 for none."""

    services: Sequence[Service]
    upper_kmh: float
    mean: Method
    distribution: str
    buckets: int


class Joined(NamedTuple):
    """groups: (group, packed table of its users). repeated: exact copies; second: other reports of a user, group and
    service that has one already. leakage: the most epsilon that any of these users gave away over all its reports."""

    groups: list[tuple[Group, bytes]]
    repeated: int
    second: int
    users: int
    leakage: float


def changes(*columns: Int64s | Float64s) -> NDArray[np.bool_]:
    """Marks entries that differ in some column from the one before, and the first."""
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(True, differs)[: columns[0].size]


def join(parts: Sequence[bytes], services: Sequence[Service]) -> Joined:
    """Joins all reports of some users, whatever their order -> per group a table of users by services.

    Of several reports of one user, group and service the earliest counts, and of these the smallest; all that are no
    exact copies have leaked, so all of them count in the leakage.
    """
    columns = [Reported.unpacked(part) for part in parts]
    whole = Reported(*(np.concatenate(column) for column in zip(*columns, strict=True)))
    whole = whole.take(np.lexsort((whole.report, whole.event_us, whole.service, whole.user, whole.cell, whole.slot_s)))
    later = ~changes(whole.slot_s, whole.cell, whole.user, whole.service)
    copy = later & ~changes(whole.event_us, whole.report)
    users, number = np.unique(whole.user, return_inverse=True)
    epsilons = np.array([service.mechanism.epsilon for service in services])
    spent = np.bincount(number, epsilons[whole.service] * ~copy, users.size)
    groups = list(_tables(whole.take(~later), len(services)))
    return Joined(groups, int(copy.sum()), int((later & ~copy).sum()), users.size, float(spent.max(initial=0.0)))


def _tables(kept: Reported, services: int) -> Iterator[tuple[Group, bytes]]:
    """Packs the users of each group as rows: hash, then a report or NaN for each service."""
    new = changes(kept.slot_s, kept.cell, kept.user)
    row = np.cumsum(new) - 1
    table = np.full((services, int(new.sum())), np.nan)
    table[kept.service, row] = kept.report
    first = kept.take(new)
    starts = np.flatnonzero(changes(first.slot_s, first.cell)).tolist()
    for start, end in pairwise([*starts, first.user.size]):
        group = int(first.slot_s[start]), int(first.cell[start])
        packed = np.concatenate([first.user[None, start:end], table[:, start:end].view(np.int64)])
        yield group, packed.tobytes()


def fuse(parts: Sequence[bytes], rules: FusionRules) -> list[Row]:
    """Makes the rows of one group, without place and time: fused mean, each service's mean, and the distribution."""
    tables = [np.frombuffer(part, np.int64).reshape(len(rules.services) + 1, -1) for part in parts]
    whole = np.concatenate(tables, axis=1)
    whole = whole[:, np.argsort(whole[0], kind="stable")]
    reports = Reports(rules.services, whole[1:].view(np.float64))
    leakage = reports.leakage()
    rows = [_mean_row(reports, rules, FUSED, leakage)]
    for index, service in enumerate(reports.services):
        single = Reports([service], reports.values[index : index + 1])
        if not np.isnan(single.values).all():
            rows.append(_mean_row(single, rules, service.name, single.leakage()))
    return rows + _share_rows(reports, rules, leakage)


def _mean_row(reports: Reports, rules: FusionRules, name: str, leakage: float) -> Row:
    """Brings the mean into [0, U], with an interval of two standard errors around it: so it is never empty."""
    fused = fused_mean(reports, rules.mean)
    upper = float(rules.upper_kmh)
    value = min(max((fused.value + 1) / 2 * upper, 0.0), upper)
    half = fused.standard_error * upper  # two of them, on a scale that is half as long
    row = _row("mean", name, value, UNIT, fused.users, leakage)
    return row | {"lower95": round(max(value - half, 0.0), 6), "upper95": round(min(value + half, upper), 6)}


def _share_rows(reports: Reports, rules: FusionRules, leakage: float) -> list[Row]:
    """Estimates the share of users in each bucket, where a service's reports tell it."""
    telling = [not isinstance(service.mechanism, Laplace) for service in reports.services]
    values = reports.values[telling]
    users = int((~np.isnan(values)).any(axis=0).sum()) if len(values) else 0
    if not rules.buckets or not users:
        return []
    shares = _distribution(aggregate(reports, rules.buckets), rules.distribution)
    status = "ok" if shares.converged else "not-converged"
    upper = float(rules.upper_kmh)
    row = _row("share", FUSED, 0.0, "1", users, leakage) | {"status": status}
    return [
        row | {"value": round(share, 9), "from_kmh": low, "to_kmh": high}
        for share, (low, high) in zip(shares.shares.tolist(), _buckets(upper, rules.buckets), strict=True)
    ]


@cache
def _buckets(upper: float, buckets: int) -> list[tuple[float, float]]:
    edges = [round(edge, 6) for edge in np.linspace(0, upper, buckets + 1).tolist()]
    return list(pairwise(edges))


def _distribution(told: ReportRows, method: str) -> Distribution:
    """Finds a distribution, and remembers it: of thousands of groups of one or two users many may tell the same."""
    if told.counts.size > _REMEMBERED_ROWS:
        return _distributions(told, method)
    key = method, told.buckets, *(column.tobytes() for column in (told.curves, told.edges, told.levels, told.counts))
    if key not in _REMEMBERED:
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[key] = _distributions(told, method)
    return _REMEMBERED[key]


def _distributions(told: ReportRows, method: str) -> Distribution:
    return smoothed(told) if method == "ems" else maximum_likelihood(told)


def _row(statistic: str, service: str, value: float, unit: str, users: int, leakage: float) -> Row:
    return {
        "statistic": statistic,
        "service": service,
        "from_kmh": None,
        "to_kmh": None,
        "value": round(value, 9),
        "unit": unit,
        "lower95": None,
        "upper95": None,
        "users": users,
        "epsilon_user": leakage,
        "status": "ok",
    }
