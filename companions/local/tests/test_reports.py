"""Reports: each row is accepted or refused for one reason, and joined per user whatever their order."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from companions.local.tests.worlds import rules
from hatstream_local.fusion import fuse as fusing
from hatstream_local.fusion.columns import Reported, parse_reports
from hatstream_local.fusion.fuse import GroupReports, fuse, join, perturb
from hatstream_local.mechanisms.estimates import fused_mean
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Reports, Service
from tests.statistical.checks import seeded

SERVICES = [Service("maps", LOCAL_MECHANISMS["pm"](0.5)), Service("weather", LOCAL_MECHANISMS["sr"](2.0))]
RULES = rules(SERVICES)
CELL = "872830828ffffff"
GOOD = {
    "user": "a1",
    "service": "maps",
    "epsilon": 0.5,
    "mechanism": "pm",
    "time": "2026-03-01T10:20:00-06:00",
    "cell": CELL,
    "report": 0.25,
}


def table(*rows: dict[str, object]) -> pa.RecordBatch:
    columns = {name: pa.array([row[name] for row in rows]) for name in GOOD}
    return pa.RecordBatch.from_pydict(columns)


def test_a_good_row_is_placed_in_its_local_hour() -> None:
    parsed, refused = parse_reports(table(GOOD), RULES)
    assert refused == {}
    assert parsed.slot_s.tolist() == [1772380800]  # 10:00 in Chicago
    assert parsed.cell.tolist() == [int(CELL, 16)]
    assert parsed.service.tolist() == [0]
    assert parsed.report.tolist() == [0.25]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"user": None}, "missing-user"),
        ({"user": ""}, "missing-user"),
        ({"user": "x" * 300}, "bad-user"),
        ({"service": "spam"}, "unknown-service"),
        ({"service": None}, "unknown-service"),
        ({"mechanism": "sr"}, "other-mechanism"),
        ({"mechanism": "exponential"}, "other-mechanism"),
        ({"epsilon": 0.6}, "other-epsilon"),
        ({"epsilon": None}, "other-epsilon"),
        ({"time": None}, "missing-time"),
        ({"time": "yesterday"}, "bad-time"),
        ({"time": "1999-01-01T00:00:00Z"}, "implausible-time"),
        ({"cell": "nowhere"}, "bad-cell"),
        ({"cell": None}, "bad-cell"),
        ({"report": None}, "missing-report"),
        ({"report": float("nan")}, "bad-report"),
        ({"report": 8.2}, "outside-range"),
        ({"service": "weather", "mechanism": "sr", "epsilon": 2.0, "report": 0.3}, "outside-range"),
    ],
)
def test_each_bad_row_is_refused_for_its_reason_and_spares_the_others(change: dict[str, object], reason: str) -> None:
    parsed, refused = parse_reports(table(GOOD, {**GOOD, **change}, GOOD), RULES)
    assert refused == {reason: 1}
    assert parsed.user.size == 2


def reported(*rows: tuple[int, int, int, float, int]) -> Reported:
    """Rows of (user, slot, service, report, time)."""
    user, slot, service, report, time = (np.array(column) for column in zip(*rows, strict=True))
    return Reported(user, slot, np.zeros_like(user), service, time, report.astype(float))


def test_reports_are_joined_per_user_in_any_order_and_doubles_are_told_apart() -> None:
    parts = [
        reported((1, 0, 0, 0.1, 5), (2, 0, 0, 0.2, 5)),
        reported((1, 0, 1, 1.0, 6), (1, 0, 0, 0.1, 5)),  # the second is a copy
        reported((1, 0, 0, 0.9, 7), (1, 3600, 0, 0.3, 8)),  # the first is a second report, and leaks
    ]
    expected = join(parts, SERVICES)
    assert (expected.repeated, expected.second, expected.users) == (1, 1, 2)
    assert expected.leakage == 0.5 + 2.0 + 0.5 + 0.5
    user, reports = dict(expected.groups)[0, 0]
    assert user.tolist() == [1, 2]
    assert np.array_equal(reports, [[0.1, 0.2], [1.0, np.nan]], equal_nan=True)
    for order in permutations(parts):
        assert repr(join(order, SERVICES)) == repr(expected)


def test_a_group_tells_the_fused_mean_and_beside_it_each_service() -> None:
    values = np.linspace(-0.8, 0.2, 500)
    noise = seeded(1)
    reports = np.stack([service.mechanism.sample(values, noise) for service in SERVICES])
    parts = [GroupReports(np.arange(500)[rows], reports[:, rows]) for rows in (slice(200), slice(200, 500))]
    rows = fuse(parts, RULES)
    assert fuse(parts[::-1], RULES) == rows
    means = {row["service"]: row for row in rows if row["statistic"] == "mean"}
    fused = fused_mean(Reports(SERVICES, reports), "fixed")
    assert set(means) == {"all", "maps", "weather"}
    assert means["all"]["value"] == pytest.approx((fused.value + 1) / 2 * 65)
    assert means["all"]["lower95"] < means["all"]["value"] < means["all"]["upper95"]
    assert means["all"]["epsilon_user"] == 2.5
    assert means["maps"]["epsilon_user"] == 0.5
    shares = [row for row in rows if row["statistic"] == "share"]
    assert sum(row["value"] for row in shares) == pytest.approx(1, abs=1e-6)
    assert (shares[0]["from_kmh"], shares[-1]["to_kmh"]) == (0, 65)


def test_perturbing_makes_one_report_for_each_service_vehicle_slot_and_cell() -> None:
    vehicle, slot, values = np.array([7, 7, 7, 9]), np.array([0, 0, 3_600_000_000, 0]), np.array([-1.0, 1.0, 1.0, 0.0])
    services = [Service("exact", LOCAL_MECHANISMS["pm"](50.0)), Service("other", LOCAL_MECHANISMS["sr"](1.0))]
    rows = perturb(vehicle, slot, np.zeros(4, np.int64), values, services, seeded(3))
    report_of = {(row["user"], row["time"]): row["report"] for row in rows if row["service"] == "exact"}
    assert len(rows) == 6
    assert report_of == {
        (f"{7:016x}", "1970-01-01T00:00:00Z"): pytest.approx(0, abs=1e-5),
        (f"{7:016x}", "1970-01-01T01:00:00Z"): pytest.approx(1, abs=1e-5),
        (f"{9:016x}", "1970-01-01T00:00:00Z"): pytest.approx(0, abs=1e-5),
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["ml", "ems"])
def test_what_small_groups_tell_is_remembered_and_is_what_each_tells_alone(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    rules_of_method = replace(RULES, distribution=method)
    reports = [(value, sign) for value in np.linspace(-1.2, 1.2, 40).tolist() for sign in (-1.0, 1.0)]
    groups = [GroupReports(np.array([1]), np.array([[a], [b]])) for a, b in [*reports, *reports]]
    together = [fuse([group], rules_of_method) for group in groups]
    assert 0 < len(fusing._DISTRIBUTION_CACHE) < len(reports)
    for group, rows in zip(groups, together, strict=True):
        monkeypatch.setattr(fusing, "_DISTRIBUTION_CACHE", {})
        assert fuse([group], rules_of_method) == rows
