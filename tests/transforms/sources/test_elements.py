"""An element's values decide alone what becomes of it, and its type tells whether it may be a report."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypedDict

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from hypothesis import example, given
from hypothesis import strategies as st

from tests.transforms import inputs
from transforms.layouts import Units
from transforms.layouts.base import FIELDS, RawBatch
from transforms.sources.elements import TEXT_BYTES, _batches, classify, why_no_reports

ISO, SECONDS = Units("iso", Fraction(1)), Units("s", Fraction(1))
CHICAGO = Units("iso", Fraction(1), "America/Chicago")
INDIA = timezone(timedelta(hours=5, minutes=30))


class Shy(str):
    """A text that is none for whoever looks closely."""

    def __str__(self) -> str:
        raise ValueError("secret")


ODD = [None, True, np.bool_(True), float("nan"), float("inf"), 10**400, 10**5_000, -(10**5_000), 2**63, [], {}]
ODD += [object(), "", "x", "\ud800", b"\xff", "7" * 2_000, Decimal("NaN"), Decimal("sNaN"), Decimal("1e999")]
ODD += [date(2023, 11, 15)]
IDS = [7, 2, "7", b"7", 2.5, 2.0, np.int64(7), np.str_("7"), Decimal(7), -1, bytearray(b"7"), Shy("7"), *ODD]
TIMES = ["2023-11-15T12:00:00Z", "2023-11-15T12:00:00", datetime(2023, 11, 15, 12), 1_700_049_600, 1_700_049_600.5]
TIMES += [datetime(2023, 11, 15, 12, tzinfo=UTC), datetime(2023, 11, 15, 17, 30, tzinfo=INDIA)]
TIMES += [Timestamp(1_700_049_600), np.datetime64("2023-11-15T12:00"), np.datetime64("2023-11-15")]
TIMES += [np.datetime64("NaT"), MIN_TIMESTAMP, np.datetime64(2**60, "s"), np.datetime64(1_700_049_600, "ns")]
TIMES += [MAX_TIMESTAMP, datetime.min, datetime.max, *ODD]
NUMBERS = [30, 30.25, "30.5", b"30.5", " 30", "1e999", Decimal("30.5"), np.float32(30.5), np.int8(30), *ODD]

GOOD = {"vehicle": 7, "time": "2023-11-15T12:00:00Z", "lat": 30.5, "lon": -97.5, "speed": 20.0}
POOLS = {"vehicle": IDS, "time": TIMES, "lat": NUMBERS, "lon": NUMBERS, "speed": NUMBERS}
ROWS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(range(len(pool))) for name, pool in POOLS.items()}
).map(lambda chosen: GOOD | {name: POOLS[name][place] for name, place in chosen.items()})


def fates(elements: Sequence[Any], units: Units, names: Sequence[str] = FIELDS) -> Counter[Any]:
    """How many elements became an observation with these integers, or were refused for this reason."""
    batches, dead_letters = [], Counter[Any]()
    for batch in _batches(elements, names):
        if isinstance(batch, RawBatch):
            batches.append(batch)
        else:
            dead_letters[batch.value.reason] += batch.value.rows
    return inputs.fates(batches, units) + dead_letters


@given(
    st.lists(ROWS, min_size=1, max_size=6), st.one_of(ROWS, st.just(5)), st.integers(0, 6),
    st.sampled_from([ISO, CHICAGO, SECONDS]),
)  # fmt: skip
@example([GOOD, GOOD], GOOD | {"vehicle": 2.5}, 0, ISO)
@example([GOOD, GOOD], GOOD | {"vehicle": float("nan")}, 2, ISO)
@example([GOOD | {"time": TIMES[6]}], GOOD | {"time": TIMES[2]}, 0, CHICAGO)
@example([GOOD | {"time": TIMES[2]}], GOOD | {"time": TIMES[6]}, 0, CHICAGO)
@example([GOOD | {"time": TIMES[2]}], GOOD | {"time": date(2023, 11, 15)}, 0, CHICAGO)
@example([GOOD], GOOD | {"vehicle": 10**5_000}, 1, ISO)
def test_an_element_more_leaves_all_others_as_they_were(rows: list[Any], more: Any, place: int, units: Units) -> None:
    assert fates([*rows[:place], more, *rows[place:]], units) == fates(rows, units) + fates([more], units)


@pytest.mark.parametrize(
    ("field", "value", "units", "fate"),
    [
        ("vehicle", 2.5, ISO, "bad-vehicle"), ("vehicle", True, ISO, "bad-vehicle"),
        ("vehicle", Decimal("7.5"), ISO, "bad-vehicle"), ("vehicle", "\ud800", ISO, "bad-vehicle"),
        ("vehicle", 10**400, ISO, "bad-vehicle"), ("vehicle", None, ISO, "missing-vehicle"),
        ("time", datetime(2023, 11, 15, 12), ISO, "no-offset"), ("time", date(2023, 11, 15), CHICAGO, "bad-time"),
        ("time", 1_700_049_600, ISO, "bad-time"), ("time", MAX_TIMESTAMP, SECONDS, "implausible-time"),
        ("speed", "x", ISO, "bad-speed"), ("speed", float("nan"), ISO, "bad-speed"),
        ("speed", Decimal("NaN"), ISO, "bad-speed"), ("speed", [], ISO, "bad-speed"),
        ("speed", None, ISO, "missing-speed"),
    ],
)  # fmt: skip
def test_what_no_field_has_is_refused_for_its_reason(field: str, value: Any, units: Units, fate: str) -> None:
    good = GOOD if units is not SECONDS else GOOD | {"time": 1_700_049_600}
    assert fates([good | {field: value}], units) == {fate: 1}


def test_every_spelling_of_an_id_is_one_vehicle_in_a_pipeline_too() -> None:
    spellings = [7, 7.0, np.float32(7), np.int8(7), Decimal(7), Decimal("7.00"), "7", " 7\u00a0", b"7\n"]
    assert fates([GOOD | {"vehicle": each} for each in spellings], ISO) == {
        fate: len(spellings) for fate in fates([GOOD | {"vehicle": "7"}], ISO)
    }
    long = 9_999_999_999_999_999_999_999
    assert fates([GOOD | {"vehicle": Decimal(long)}], ISO) == fates([GOOD | {"vehicle": str(long)}], ISO)
    assert fates([GOOD | {"vehicle": Decimal("1e999999")}], ISO) == {"bad-vehicle": 1}


NESTED = ("vehicle", "time", "at.place.0", "at.place.1", "at.speed")
AT = {"place": [30.5, -97.5], "speed": 20.0}


@pytest.mark.parametrize(
    ("location", "fate"),
    [
        (7, "bad-position"),
        (None, "missing-position"),
        ({}, "missing-position"),
        ({"place": [30.5]}, "missing-position"),
        ({"place": {"0": 30.5, "1": -97.5}}, "missing-speed"),
        ({"place": "30.5", "speed": 20.0}, "bad-position"),
    ],
)
def test_what_no_dots_lead_to_is_refused_and_leaves_others_as_they_were(location: Any, fate: str) -> None:
    whole, odd = ({"vehicle": 7, "time": GOOD["time"], "at": place} for place in (AT, location))
    assert fates([whole], ISO, NESTED) == fates([GOOD], ISO)
    assert fates([odd], ISO, NESTED) == {fate: 1}
    assert fates([whole, odd, whole], ISO, NESTED) == fates([whole] * 2, ISO, NESTED) + Counter({fate: 1})


INSTANT, LOCAL = [TIMES[0], *TIMES[5:8]], ["2023-11-15T06:00:00", np.datetime64("2023-11-15T06:00")]


@pytest.mark.parametrize(
    ("field", "same"),
    [
        ("vehicle", [7, "7", b"7", np.int64(7)]),
        ("vehicle", ["bus", b"bus", np.str_("bus")]),
        ("time", [*INSTANT, *LOCAL, datetime(2023, 11, 15, 6)]),
        ("speed", [30.5, "30.5", b"30.5", Decimal("30.5"), np.float32(30.5)]),
        ("speed", [10**400, 10**5_000, "1e999", Decimal("1e999"), 1e300]),  # held at the largest float
    ],
)
def test_an_id_a_time_and_a_number_are_the_same_in_whatever_type(field: str, same: list[Any]) -> None:
    assert len({fate for value in same for fate in fates([GOOD | {field: value}], CHICAGO)}) == 1


def test_a_text_that_would_not_fit_beside_many_others_is_bad() -> None:
    assert classify("x" * TEXT_BYTES) == ("text", b"x" * TEXT_BYTES)
    assert classify("x" * (TEXT_BYTES + 1)) == classify(object()) == ("bad", True)


class Report(NamedTuple):
    bus: str
    speed: float


class Typed(TypedDict):
    bus: str


@dataclass
class Plain:
    bus: str
    speed: float


REPORTS = [{"bus": "b", "speed": 1.0}, OrderedDict(bus="b"), Report("b", 1.0), beam.Row(bus="b", speed=1.0)]
OTHERS = [7, "b", b"b", None, ("b", {"bus": "b"}), [{"bus": "b"}], Plain("b", 1.0), pa.table({"bus": ["b"]})]


def type_of(elements):
    return (beam.Pipeline() | beam.Create(elements)).element_type


@pytest.mark.parametrize("element", REPORTS, ids=repr)
def test_reports_are_taken_by_their_type(element):
    assert why_no_reports(type_of([element]), ["bus", "speed"]) is None


@pytest.mark.parametrize("element", OTHERS, ids=lambda element: type(element).__name__)
def test_what_is_no_report_is_known_by_its_type(element):
    assert "are of type" in why_no_reports(type_of([element]), ["bus", "speed"])


@pytest.mark.parametrize("element", [Report("b", 1.0), beam.Row(bus="b", speed=1.0)], ids=repr)
def test_a_field_that_is_not_there_is_named_with_those_that_are(element):
    told = why_no_reports(type_of([element]), ["bus", "time"])
    assert told == "have no field 'time'; they have bus, speed"


@pytest.mark.parametrize(
    "hint", [Any, object, dict, Mapping[str, Any], Typed, Report | None, Report | str, Iterable[dict]], ids=repr
)
def test_a_type_that_leaves_it_open_refuses_nothing(hint):
    given = beam.Pipeline() | beam.Create([1]) | beam.Map(lambda one: one).with_output_types(hint)
    assert why_no_reports(given.element_type, ["bus", "speed"]) is None
