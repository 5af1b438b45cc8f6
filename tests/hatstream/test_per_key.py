"""Private statistics by any public key: the keys alone decide which rows there are; windows are kept; retries free."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import hatstream
from hatstream.testing import account
from pipelines.runs.per_key import extract
from pipelines.specification import load
from tests.hatstream.pipelines import append, bounded, kept_of, streaming
from transforms.errors import StepError

DAY, MIDNIGHT_S = "2022-01-01", 1_640_995_200
TOTAL = (8.0, 1e-6)
MEANS = {"A": -2.0, "B": 1.0, "C": 6.0}


def late(buses=90, hours=range(24), routes="ABC"):
    """Buses that report how late they are, each on its route; in a stream of time."""
    rng = random.Random(7)
    return [
        {"bus": f"b{bus}", "route": route, "at": MIDNIGHT_S + hour * 3_600 + 60 * minute + bus % 60, "late": value}
        for bus in range(buses)
        for route in [routes[bus % len(routes)]]
        for hour in hours
        for minute in (0, 20, 40)
        for value in [MEANS[route] + rng.gauss(0, 1)]
    ]


def run(rows, transform, folder, pipe=lambda given: given):
    """Runs a pipeline; returns rows as dicts, in order."""
    with bounded() as p:
        out = pipe(p | beam.Create(rows)) | transform
        _ = out | beam.Map(plain) | beam.Map(lambda row: append(folder / "kept.jsonl", row))
    return sorted(kept_of(folder), key=lambda row: (row["start"], row["key"]))


def plain(row, window=beam.DoFn.WindowParam):
    names = [name for name in row._fields if not name.startswith("window")]
    row_of = {name: getattr(row, name) for name in names}
    assert (window.start, window.end) == (row.window_start, row.window_end)
    return row_of | {"start": int(row.window_start.micros // 1_000_000)}


def mean(of, **changed):
    defaults = {
        "user": "bus",
        "key": "route",
        "value": "late",
        "bounds": (-5, 10),
        "unit": "min",
        "keys": list("ABC"),
        "time": "at",
        "start": DAY,
        "total": TOTAL if of.hides == "presence" else 24.0,
        "account": of,
    }
    return hatstream.MeanPerKey(**defaults | changed)


def hourly(given):
    stamped = given | beam.Map(lambda row: TimestampedValue(row, row["at"]))
    return stamped | beam.WindowInto(FixedWindows(3_600))


FLEET = {"vehicles": 90, "profile": {"hats": 24, "cells": 1, "parents": 1, "grandparents": 1, "hours": 24, "parts": 6}}


@pytest.mark.few(1)
@pytest.mark.parametrize("hides", ["presence", "values"])
def test_means_of_keys_and_hours_are_near_the_true_ones(tmp_path, hides):
    of = account(TOTAL if hides == "presence" else 24.0, hides=hides)
    made = mean(of, time=None, fleet=FLEET if hides == "presence" else None)
    rows = run(late(), made, tmp_path, hourly)
    assert len(rows) == 3 * 24
    assert [row["key"] for row in rows[:3]] == list("ABC")
    error = sum(abs(row["value"] - MEANS[row["key"]]) for row in rows) / len(rows)
    assert error < 1.0
    held = sum(row["lower95"] <= MEANS[row["key"]] <= row["upper95"] for row in rows)
    assert held > 0.8 * len(rows)
    if hides == "values":
        assert {(row["vehicles"], row["reports"]) for row in rows} == {(30, 90)}
    else:  # of the released weights: nothing else is spent
        ends = [(row["vehicles_about_lower95"], row["vehicles_about_upper95"], row["vehicles_status"]) for row in rows]
        assert sum(lower <= 30 <= upper and status == "ok" for lower, upper, status in ends) > 0.9 * len(rows)
        assert "vehicles" not in rows[0]
    again = run([], mean(of, time=None, fleet=made.fleet), tmp_path, hourly) if hides == "presence" else rows
    assert again == rows  # the ledger has them: no data, and nothing is spent


def test_a_specification_of_the_same_tables_gives_the_same_numbers(tmp_path):
    of = account(24.0, hides="values")
    made, rows = mean(of), late(hours=range(3))
    first = run(rows, made, tmp_path)
    with bounded() as p:
        release = hatstream.Release(load(made.tables(86_400)), DAY, DAY, ledger=of.ledger)
        timed = [row | {"at": datetime.fromtimestamp(row["at"], UTC)} for row in rows]
        _ = p | beam.Create(timed) | release | beam.Map(lambda row: append(tmp_path / "kept.jsonl", row))
    assert {row["cell"]: row["value"] for row in kept_of(tmp_path)} == {row["key"]: row["value"] for row in first}


def test_the_public_keys_alone_decide_which_rows_there_are(tmp_path):
    of = account(TOTAL)
    rows = run(late(hours=range(3), routes="AB"), mean(of, keys=["A", "C", "Z"], fleet=90), tmp_path)
    assert [row["key"] for row in rows] == ["A", "C", "Z"]


def odd_keys(row):
    """Keys that have no text, or none that Arrow or Beam's coders take."""
    odd = {"surrogate": "\ud800", "digits": 10**5_000, "Q": "Q"}
    return (odd.get(row["route"], row["route"]) if row["route"] != "none" else [][0]), "x"


def test_rows_that_name_no_key_are_refused_by_reason(tmp_path):
    odd = [{"bus": "b1", "route": key, "at": MIDNIGHT_S, "late": 1} for key in ("Q", "surrogate", "digits", "none")]
    strange = [{"bus": "x", "route": "A"}, {"bus": "x", "route": "A", "at": float("inf")}, 7]
    made = mean(account(24.0, hides="values"), keys=None, axes=(list("ABC"), ["x"]), key=odd_keys, with_refused=True)
    with bounded() as p:
        out = p | beam.Create([*late(hours=range(2)), *odd, *strange]) | made
        _ = out.refused | beam.Map(lambda letter: append(tmp_path / "kept.jsonl", letter._asdict()))
    letters = Counter()
    for letter in kept_of(tmp_path):
        letters[letter["reason"]] += letter["rows"]
    assert letters == {"unknown-key": 2, "missing-key": 2, "missing-time": 2, "missing-vehicle": 1}


class Guarded(dict):
    def get(self, *_):
        raise ValueError("b1")


def test_elements_that_cannot_be_read_do_not_end_the_pipeline():
    assert extract("bus", Guarded()) is extract("bus", 7) is extract(lambda row: row["bus"], {}) is None


def test_releases_of_other_fields_are_apart_and_those_of_two_lambdas_refused(tmp_path):
    of, row = account(10**6, hides="values"), {"route": "A", "back": "B", "late": 0, "early": 8}
    rows = [row | {"bus": f"b{i % 40}", "at": MIDNIGHT_S + i} for i in range(400)]
    for changed, means in (({}, (0, None)), ({"value": "early"}, (8, None)), ({"key": "back"}, (None, 0))):
        released = run(rows, mean(of, keys=["A", "B"], total=10**4, **changed), tmp_path)
        expected = [value if value is None else pytest.approx(value, abs=0.5) for value in means]
        assert [row["value"] for row in released] == expected
    p = bounded()
    given = p | beam.Create(rows)
    _ = given | mean(of, value=lambda row: row["late"])
    with pytest.raises(hatstream.UsageError, match="in place of lambdas"):
        _ = given | "early" >> mean(of, value=lambda row: row["early"])


def test_rows_without_a_timestamp_are_of_no_hour(tmp_path):
    with pytest.raises(StepError, match="the input has no row"):
        run(
            [{"bus": "b1", "route": "A", "late": 1}],
            mean(account(24.0, hides="values"), time=None),
            tmp_path,
            lambda given: given | beam.WindowInto(FixedWindows(3_600)),
        )


def test_pairs_of_two_lists_are_keys(tmp_path):
    of, axes = account(24.0, hides="values"), (["A", "B"], [0, 1])
    made = mean(of, keys=None, axes=axes, key=lambda row: (row["route"], row["at"] // 3_600 % 2))
    rows = run(late(hours=range(4), routes="AB"), made, tmp_path)
    assert [row["key"] for row in rows] == ["A|0", "A|1", "B|0", "B|1"]
    assert all(abs(row["value"] - MEANS[row["key"][0]]) < 1 for row in rows)


def test_rows_without_a_timestamp_all_count(tmp_path):
    rows = [{"bus": f"b{i % 9}", "route": "A", "late": 4 * (i // 450)} for i in range(900)]  # 50 zeros, 50 fours each
    made = mean(account(10**6, hides="values"), time=None, keys=["A"], total=10**4)
    (row,) = run(rows, made, tmp_path)
    assert row["value"] == pytest.approx(2, abs=0.2)


def test_reports_of_a_user_within_a_millisecond_all_count(tmp_path):
    """Under keys that lie 1,000 apart, and under one key a microsecond apart."""
    first = datetime(2022, 1, 1, 8, tzinfo=UTC)
    given = [(0, first, 3), (1_000, first, 5), (1_000, first + timedelta(microseconds=1), 9), (1_000, first, 5)]
    rows = [{"bus": "b1", "route": key, "when": when, "late": value} for key, when, value in given]
    made = mean(account(10**6, hides="values"), time="when", keys=range(1_001), total=10**4)
    values = {row["key"]: row["value"] for row in run(rows, made, tmp_path) if row["value"] is not None}
    assert values == {"0": pytest.approx(3, abs=0.1), "1000": pytest.approx(7, abs=0.1)}


def test_variances_and_quantiles_are_in_the_values_own_unit(tmp_path):
    of = account(10**6, hides="values")
    common = {
        "user": "bus", "key": "route", "keys": ["A"], "value": "late", "bounds": (-5, 10), "start": DAY,
        "total": 10**4, "account": of,
    }  # fmt: skip
    rows = [{"bus": f"b{i}", "route": "A", "late": -3 if i % 4 else 5} for i in range(400)]
    (variance,) = run(rows, hatstream.VariancePerKey(**common), tmp_path)
    assert variance["value"] == pytest.approx(8**2 * 3 / 16, abs=1)
    (quantiles,) = run(rows, hatstream.QuantilesPerKey(**common), tmp_path)
    assert quantiles["p50"] == pytest.approx(-3, abs=0.5)
    assert quantiles["p85"] == pytest.approx(5, abs=0.5)
    assert quantiles["mean"] == pytest.approx(-1, abs=0.5)
    assert quantiles["variance"] == pytest.approx(12, abs=2)


@pytest.mark.few(1)
@pytest.mark.parametrize(("of", "bound", "told"), [("users", 1, 60), ("elements", 12, 60 * 12)])
def test_counts_have_an_interval_of_their_noise(tmp_path, of, bound, told):
    made = hatstream.CountPerKey(
        user="bus", key="route", keys=["A", "B", "Z"], of=of, bound=bound, start=DAY, total=(40.0, 1e-6),
        account=account((40.0, 1e-6)), time=lambda row: datetime.fromtimestamp(row["at"], UTC),
    )  # fmt: skip
    rows = run(late(buses=120, hours=range(4), routes="AB"), made, tmp_path)
    assert [row["key"] for row in rows] == ["A", "B", "Z"]
    for row, true in zip(rows, (told, told, 0), strict=True):
        assert row["value"] == pytest.approx(true, abs=12 * bound)
        assert row["lower95"] <= row["value"] <= row["upper95"]


def test_counts_of_a_heavy_user_are_bounded_over_all_keys(tmp_path):
    """Any number of elements of one user weighs as the bound says, however they are spread."""
    rows = [{"bus": "one", "route": "ABC"[i % 3]} for i in range(1_500)]
    made = hatstream.CountPerKey(
        user="bus", key="route", keys=list("ABC"), bound=3, start=DAY, total=(200.0, 1e-6),
        account=account((200.0, 1e-6)),
    )  # fmt: skip
    counts = [row["value"] for row in run(rows, made, tmp_path)]
    assert sum(count * count for count in counts) ** 0.5 == pytest.approx(3, abs=2)


def test_a_stream_releases_each_window_once_it_is_over(tmp_path):
    clock = Clock().advance_watermark_to(MIDNIGHT_S)
    for hour in range(3):
        rows = late(hours=[hour] if hour != 1 else [], buses=30)  # one in which nobody drives
        clock = clock.add_elements([TimestampedValue(row, row["at"] + 1) for row in rows])
        clock = clock.advance_watermark_to(MIDNIGHT_S + 3_600 * (hour + 1))
    p = streaming()
    made = mean(account(24.0, hides="values"), start=f"{DAY}T00:00")
    given = p | clock.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(3_600))
    _ = given | made | beam.Map(plain) | beam.Map(lambda row: append(tmp_path / "kept.jsonl", row))
    p.run().wait_until_finish()
    rows = [row for row in kept_of(tmp_path) if row["value"] is not None]
    assert {(row["start"] - MIDNIGHT_S) // 3_600 for row in rows} == {0, 2}
    assert len(rows) == 6


def test_a_stream_with_hidden_presence_is_refused_when_it_is_built():
    p = streaming()
    stream = p | Clock().advance_watermark_to_infinity()
    with pytest.raises(hatstream.UsageError, match="hides='values'"):
        _ = stream | mean(account(TOTAL))


@pytest.mark.parametrize(("changed", "told"), [({"value": "lat"}, "no field 'lat'; they have bus"), ({}, None)])
def test_a_field_that_elements_of_a_schema_lack_is_told_before_anything_is_spent(changed, told):
    rows = bounded() | beam.Create([0]) | beam.Map(lambda n: beam.Row(bus="b", route="A", late=1.0, at=n))
    if told is None:
        assert rows | mean(account(24.0, hides="values"), **changed)
        return
    with pytest.raises(hatstream.UsageError, match=told):
        _ = rows | mean(account(24.0, hides="values"), **changed)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"keys": None}, "name the public keys"),
        ({"keys": ["A", "A"]}, "without repeats"),
        ({"bounds": (3, 3)}, "bounds value: value.lower must be below"),
        ({"total": (1.0, 1e-6)}, "an epsilon alone"),
        ({"start": None}, "needs start"),
        ({"start": "soon"}, "neither a date"),
    ],
)
def test_wrong_arguments_are_told_when_the_pipeline_is_built(changed, told):
    p = bounded()
    with pytest.raises((hatstream.UsageError, hatstream.SpecificationError), match=told):
        _ = p | beam.Create([{}]) | mean(account(24.0, hides="values"), **changed)
