"""The type of a PCollection tells that its elements are no reports, and of what may be reports it tells nothing."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import apache_beam as beam
import pyarrow as pa
import pytest

from transforms.sources.elements import why_no_reports


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
