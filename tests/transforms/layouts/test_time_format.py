"""Times in forms that a specification names: read as Python's strptime reads them, each row by itself."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import rules, run
from transforms.layouts import layout
from transforms.layouts.base import FIELDS
from transforms.layouts.columns import numbers
from transforms.layouts.time_format import TimeFormat

FORMS = ["%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d%H%M%S", "%d-%m-%y %H:%M", "%Y/%m/%dT%H:%M:%S.%f%z"]
MAP = {field: field for field in FIELDS}


def us_of(moment):
    return round(moment.timestamp() * 1_000_000)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2068, 12, 31)), st.sampled_from(FORMS))
def test_a_written_time_is_read_as_it_was_written(moment, form):
    text = moment.replace(tzinfo=UTC).strftime(form)
    times = TimeFormat.of(form).instants(pa.array([text, None, ""]), "UTC")
    expected = datetime.strptime(text, form)
    assert times.us[0] == us_of(expected.replace(tzinfo=UTC))
    assert times.valid.tolist() == [True, False, False]
    assert times.missing.tolist() == [False, True, True]


@given(st.text("0123456789./: apmAPM-+TZ", max_size=22), st.sampled_from(FORMS))
def test_what_python_refuses_is_refused(text, form):
    times = TimeFormat.of(form).instants(pa.array([text, "13.05.2026 08:15:00"]), "UTC")
    try:
        datetime.strptime(text.strip(), form)
    except ValueError:
        fits = bool(text.strip()) and "p" in form and "." in text.strip()[-4:]  # p.m. is ours
        assert fits or not times.valid[0]


def test_a_time_of_the_hour_that_happens_twice_is_a_clock_change_and_without_a_zone_it_has_no_offset():
    texts = pa.array(["06.11.2016 01:30", "06.11.2016 05:00"]).dictionary_encode()
    times = TimeFormat.of("%d.%m.%Y %H:%M").instants(texts, "America/Chicago")
    assert times.clock_change.tolist() == [True, False]
    assert TimeFormat.of("%d.%m.%Y %H:%M").instants(texts, None).no_offset.all()


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("%d.%m.%Y", "must have hour, minute"),
        ("%d.%m.%Y %I:%M", "%I and %p"),
        ("%d.%m.%Y %H:%M %q", "knows %Y"),
        ("%d.%d.%m.%Y %H:%M", "once"),
        ("%d.%m.%Y %H:%M.%f", "after %S"),
    ],
)
def test_a_form_that_says_no_time_is_refused_by_the_rule(form, words):
    with pytest.raises(ValueError, match=f"time_format: .*{words}"):
        layout("csv", MAP, None, None, time_format=form)


def test_decimal_commas_are_read_where_they_are_declared_and_a_point_is_bad_there():
    column = pa.array(["50,45", "-104", "1.5", "", "1,2,3", "1e3"])
    parsed = numbers(column, ",")
    assert parsed.values.tolist() == [50.45, -104.0, 0.0, 0.0, 0.0, 1000.0]
    assert parsed.valid.tolist() == [True, True, False, False, False, True]
    assert not numbers(column).valid[0]


def test_a_file_of_this_kind_is_read_whole(tmp_path):
    lines = [
        "vehicle;time;lat;lon;speed",
        "b1;15.11.2023 13:30:00;30,25;-97,5;12,5",
        "b1;15.11.2023 13:31:00;30.25;-97,5;1",
    ]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    options = {"time_zone": "Europe/Berlin", "time_format": "%d.%m.%Y %H:%M:%S", "decimal": ",", "delimiter": ";"}
    source = layout("csv", MAP, None, None, **options)
    observed, refused, _ = run(source, str(tmp_path / "a.csv"), rules(source.units))
    assert refused == {"bad-position": 1}
    assert observed.event_us.tolist() == [us_of(datetime(2023, 11, 15, 12, 30, tzinfo=UTC))]
    assert (observed.lat_e7.tolist(), observed.value.tolist()) == ([302_500_000], [1_250])
    with pytest.raises(ValueError, match="time_unit: goes without time_format"):
        layout("csv", MAP, "iso", None, time_format="%d.%m.%Y %H:%M")
    with pytest.raises(ValueError, match=r"decimal: must be '\.' or ','"):
        layout("jsonl", MAP, None, None, decimal=";")
