"""Columns become numbers and instants value by value, whatever stands beside them, in forms a specification names."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import AVRO_TYPES, good_row, mapped, rules, run, write_avro, write_parquet
from transforms.layouts import UnreadableFile, layout
from transforms.layouts.base import FIELDS
from transforms.layouts.columns import NULL_WORDS, PLAIN_NUMBER, instants, numbers
from transforms.layouts.time_format import TimeFormat

LARGEST = np.finfo(np.float64).max


def numbers_of(values, kind=None):
    """Each value as its number, "missing" or "bad"."""
    parsed = numbers(values if isinstance(values, pa.Array) else pa.array(values, kind))
    assert not (parsed.valid & parsed.missing).any()
    assert (parsed.values[~parsed.valid] == 0).all()
    return [float(v) if ok else "missing" if no else "bad" for v, ok, no in zip(*parsed[:3], strict=True)]


def instants_of(values, unit="iso", kind=None):
    parsed = instants(values if isinstance(values, pa.Array) else pa.array(values, kind), unit)
    assert not (parsed.valid & parsed.missing).any()
    return [int(v) if ok else "missing" if no else "bad" for v, ok, no in zip(*parsed[:3], strict=True)]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_nan_and_infinity_are_bad_and_null_is_missing(kind):
    values = pa.array(np.array([1.5, 0, -2], np.float16)).cast(kind)
    assert numbers_of(values) == [1.5, 0.0, -2.0]
    odd = pa.array(np.array([np.nan, np.inf, -np.inf, 4], np.float16), mask=np.array([0, 0, 0, 1], bool)).cast(kind)
    assert numbers_of(odd) == ["bad", "bad", "bad", "missing"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, None]),
        pa.array([[1.0], [2.0], None]),
        pa.array([{"a": 1}, {"a": 2}, None]),
        pa.array([1, 2, None], pa.timestamp("s", "UTC")),
        pa.array([1, 2, None], pa.duration("s")),
    ],
)
def test_other_types_are_never_numbers(values):
    assert numbers_of(values) == ["bad", "bad", "missing"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()]
)
def test_texts_are_numbers_in_plain_notation(kind):
    texts = ["1.5", " 2 ", "+3", "-4e1", ".5", "6.", "1E2", "", "  ", None, "\t7\t"]
    expected = [1.5, 2.0, 3.0, -40.0, 0.5, 6.0, 100.0, "missing", "missing", "missing", 7.0]
    assert numbers_of(pa.array(texts).cast(kind)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "nan", "NaN", "inf", "-inf", "infinity", "0x10", "1_0", "1 0", "1,5", ".", "e5", "1e", "--1", "1d", "１",
        "\x00", "\n1",
    ],
)  # fmt: skip
def test_other_notations_are_bad(text):
    assert numbers_of([text]) == ["bad"]
    assert numbers_of([text, "1", ""]) == ["bad", 1.0, "missing"]


def test_bytes_that_are_not_utf8_are_bad_numbers():
    assert numbers_of([b"\xff\xfe", b"1", None], pa.binary()) == ["bad", 1.0, "missing"]


def test_dictionaries_are_spread():
    coded = pa.array(["1", "x", None, "1", ""]).dictionary_encode()
    assert numbers_of(coded) == [1.0, "bad", "missing", 1.0, "missing"]
    of_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, "2"]))
    assert numbers_of(of_null) == ["missing", 2.0, "missing"]
    assert instants_of(of_null, "s") == ["missing", 2_000_000, "missing"]
    empty = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.string()))
    assert numbers_of(empty) == ["missing"]


@given(st.lists(st.text("0123456789+-.eE_ xnaif\t", max_size=8), max_size=6))
def test_no_text_changes_how_another_one_is_read(texts):
    alone = [numbers_of([text])[0] for text in texts]
    assert numbers_of(texts, pa.string()) == alone
    for text, instant in zip(texts, alone, strict=True):
        stripped = text.strip(" \t")
        is_plain = re.match(PLAIN_NUMBER, stripped) is not None
        is_missing = not stripped or stripped.lower() in NULL_WORDS
        assert instant == (
            "missing" if is_missing else max(-LARGEST, min(float(stripped), LARGEST)) if is_plain else "bad"
        )


# --- instants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2023-11-15T12:00:00Z", 1_700_049_600_000_000), ("2023-11-15 12:00:00Z", 1_700_049_600_000_000),
        ("2023-11-15T12:00Z", 1_700_049_600_000_000), ("2023-11-15T17:30:00+05:30", 1_700_049_600_000_000),
        ("2023-11-15T17:30:00+0530", 1_700_049_600_000_000), ("2023-11-15T06:00:00-06", 1_700_049_600_000_000),
        ("2023-11-15T12:00:00.5Z", 1_700_049_600_500_000),
        ("2023-11-15T12:00:00.123456-00:00", 1_700_049_600_123_456),
        ("2023-11-15T12:00:00.1234569Z", 1_700_049_600_123_456), ("2024-02-29T00:00:00Z", 1_709_164_800_000_000),
        ("1970-01-01T00:00:00Z", 0), ("9999-12-31T23:59:59Z", 253_402_300_799_000_000),
    ],
)  # fmt: skip
def test_iso_instants_with_an_offset(text, us):
    assert instants_of([text]) == [us]
    assert instants_of(["nonsense", text, None, "1970-01-01T00:00Z"]) == ["bad", us, "missing", 0]


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-15T12:00:00", "2023-11-15", "2023-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2023-00-10T00:00:00Z",
        "2023-13-10T00:00:00Z", "2023-11-00T00:00:00Z", "2023-11-15T24:00:00Z", "2023-11-15T12:60:00Z",
        "2023-11-15T12:00:60Z", "2023-11-15T12:00:00+24:00", "2023-11-15T12:00:00+05:60", "2023-11-15T12:00:00+5:30",
        "2023-11-15T12:00:00.Z", "2023-11-15T12:00:00,5Z", "2023-11-15t12:00:00z", "2023-11-15T12:00:00 Z",
        "2023/11/15T12:00:00Z", "0000-01-01T00:00:00Z", "-2023-11-15T12:00:00Z", "1700049600", "２０23-11-15T12:00:00Z",
        "2023-11-15T12:00:00Z" + " " * 100, "2023-11-15T12:00:0aZ", "Z" * 20, "-" * 25,
    ],
)  # fmt: skip
def test_other_iso_texts_are_bad(text):
    assert instants_of([text]) == ["bad"]
    assert instants_of([text, "1970-01-01T00:00:00Z"]) == ["bad", 0]


def iso_texts():
    moments = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29))
    offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59)

    def write(moment, offset, separator, form):
        sign, minutes = "-" if offset < 0 else "+", abs(offset)
        tail = f"{sign}{minutes // 60:02d}{form}{minutes % 60:02d}"
        us = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return moment.isoformat(separator) + tail, us - offset * 60_000_000

    return st.builds(write, moments, offsets, st.sampled_from("T "), st.sampled_from([":", ""]))


@given(st.lists(iso_texts(), max_size=5))
def test_iso_agrees_with_the_standard_library(pairs):
    assert instants_of([text for text, _ in pairs], kind=pa.string()) == [us for _, us in pairs]


@given(iso_texts(), st.integers(0, 25), st.sampled_from("0123456789:-+TZ. x\xe9"))
def test_a_changed_letter_is_read_as_the_standard_library_does_or_refused(pair, place, letter):
    text = pair[0][:place] + letter + pair[0][place + 1 :]
    (instant,) = instants_of([text])
    if instant != "bad":
        moment = datetime.fromisoformat(text)
        assert instant == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(("unit", "us"), [("s", 1_000_000), ("ms", 1_000), ("us", 1)])
def test_numeric_instants_are_scaled_to_microseconds(unit, us):
    assert instants_of([3, None, -2], unit) == [3 * us, "missing", -2 * us]
    assert instants_of(["3", "", "x", "2023-11-15T12:00:00Z"], unit) == [3 * us, "missing", "bad", "bad"]
    assert instants_of([3.0, float("nan"), float("inf")], unit) == [3 * us, "bad", "bad"]
    assert instants_of([True, None], unit) == ["bad", "missing"]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_huge_instants_do_not_overflow(unit):
    high, low = instants_of([2**63 - 1, -(2**63)], unit)
    assert high > 2**61
    assert low < -(2**61)
    assert all(abs(us) > 2**61 for us in instants_of([1e308, -1e308], unit))
    assert instants_of([2**64 - 1], unit, pa.uint64())[0] > 2**61


@pytest.mark.parametrize(("unit", "per_s"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("asked", ["iso", "s", "ms"])
def test_arrow_timestamps_with_a_zone_are_instants_whatever_the_unit(unit, per_s, asked):
    column = pa.array([1_700_000_000 * per_s, None], pa.timestamp(unit, "Asia/Kolkata"))
    assert instants_of(column, asked) == [1_700_000_000_000_000, "missing"]
    far = pa.array([2**63 - 1, -(2**63)], pa.int64()).view(pa.timestamp(unit, "UTC"))
    assert all(abs(us) > 4_102_444_800_000_000 for us in instants_of(far, asked))


@pytest.mark.parametrize("asked", ["iso", "s"])
def test_arrow_timestamps_without_a_zone_are_bad(asked):
    assert instants_of(pa.array([1, None], pa.timestamp("s")), asked) == ["bad", "missing"]


# --- Times in forms that a specification names, and times without an offset: each read by itself. ---------------------


FORMS = ["%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d%H%M%S", "%d-%m-%y %H:%M", "%Y/%m/%dT%H:%M:%S.%f%z"]
MAP = {field: field for field in FIELDS}


def us_of(local: datetime, zone: str = "UTC") -> int:
    return round(local.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000_000)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2068, 12, 31)), st.sampled_from(FORMS))
def test_a_written_time_is_read_as_it_was_written(moment, form):
    text = moment.replace(tzinfo=UTC).strftime(form)
    times = TimeFormat(form).instants(pa.array([text, None, ""]), "UTC")
    expected = datetime.strptime(text, form)
    assert times.us[0] == us_of(expected)
    assert times.valid.tolist() == [True, False, False]
    assert times.missing.tolist() == [False, True, True]


@given(st.text("0123456789./: apmAPM-+TZ", max_size=22), st.sampled_from(FORMS))
def test_what_python_refuses_is_refused(text, form):
    times = TimeFormat(form).instants(pa.array([text, "13.05.2026 08:15:00"]), "UTC")
    try:
        datetime.strptime(text.strip(), form)
    except ValueError:
        fits = bool(text.strip()) and "p" in form and "." in text.strip()[-4:]  # p.m. is ours
        assert fits or not times.valid[0]


def test_without_separators_each_part_of_a_date_has_two_digits():
    """A day of the year is no month and day; Python's strptime takes it."""
    times = TimeFormat("%Y%m%d %H:%M").instants(pa.array(["2026072 8:15", "20260702 8:15"]), "UTC")
    assert times.valid.tolist() == [False, True]


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y"])
def test_hours_beyond_24_beside_a_date_are_of_the_next_day(form):
    """Also after the day on which clocks change, and only without an offset."""
    dates = [datetime(2016, 11, day).strftime(form) for day in (4, 5, 5, 6, 4, 4)]
    clocks = ["23:10:00", "25:30:00", "26:30:00", "24:10:00", "48:00:00", "25:10:00Z"]
    texts = pa.StructArray.from_arrays([pa.array(dates), pa.array(clocks)], names=["0", "1"])
    parse = None if form == "%Y-%m-%d" else TimeFormat(f"{form} %H:%M:%S").instants
    times = instants(texts, "iso", "America/Chicago", parse)
    assert times.valid.tolist() == [True, False, True, True, False, False]
    assert times.clock_change.tolist() == [False, True, False, False, False, False]
    local = [datetime(2016, 11, 4, 23, 10), datetime(2016, 11, 6, 2, 30), datetime(2016, 11, 7, 0, 10)]
    assert times.us[times.valid].tolist() == [us_of(moment, "America/Chicago") for moment in local]
    assert instants(texts, "iso", None, parse).no_offset.tolist() == [True, True, True, True, False, False]


def test_a_time_of_the_hour_that_happens_twice_is_a_clock_change_and_without_a_zone_it_has_no_offset():
    texts = pa.array(["06.11.2016 01:30", "06.11.2016 05:00"]).dictionary_encode()
    times = TimeFormat("%d.%m.%Y %H:%M").instants(texts, "America/Chicago")
    assert times.clock_change.tolist() == [True, False]
    assert TimeFormat("%d.%m.%Y %H:%M").instants(texts, None).no_offset.all()


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
    assert observed.event_us.tolist() == [us_of(datetime(2023, 11, 15, 12, 30))]
    assert (observed.lat_e7.tolist(), observed.value.tolist()) == ([302_500_000], [1_250])
    with pytest.raises(ValueError, match="time_unit: goes without time_format"):
        layout("csv", MAP, "iso", None, time_format="%d.%m.%Y %H:%M")
    with pytest.raises(ValueError, match=r"decimal: must be '\.' or ','"):
        layout("jsonl", MAP, None, None, decimal=";")


ZONES = ["America/Chicago", "Asia/Kolkata", "Australia/Lord_Howe", "Europe/Berlin", "UTC"]


@given(st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)), st.sampled_from(ZONES))
def test_a_time_that_happens_once_is_where_the_zone_says(local, zone):
    times = instants(pa.array([local.isoformat()]), "iso", zone)
    once = {local.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1)}
    if len(once) == 1:
        assert (times.us[0], times.valid[0]) == (us_of(local, zone), True)
    else:
        assert (times.valid[0], times.clock_change[0]) == (False, True)


@pytest.mark.parametrize("local", ["2016-11-06T01:30:00", "2016-03-13T02:30:00"])
def test_the_hour_that_happens_twice_and_the_one_left_out_are_refused_as_clock_changes(local):
    times = instants(pa.array([local, "2016-11-06T05:00:00"]), "iso", "America/Chicago")
    assert times.clock_change.tolist() == [True, False]
    assert times.valid.tolist() == [False, True]


def test_a_time_with_an_offset_keeps_it_whatever_the_zone():
    texts = pa.array(["2016-11-06T01:30:00-06:00", "2016-11-06 12:00", "2016-11-06T07:30:00Z"])
    times = instants(texts, "iso", "America/Chicago")
    assert times.valid.all()
    assert times.us[0] == times.us[2]


def test_without_a_zone_such_times_lack_an_offset_and_damaged_ones_are_bad():
    times = instants(
        pa.array(["2016-11-06T05:00:00", "2016-11-06T05:00:00.25", "2016-13-06T05:00:00", "", None]), "iso"
    )
    assert times.no_offset.tolist() == [True, True, False, False, False]
    assert times.missing.tolist() == [False, False, False, True, True]
    assert not times.valid.any()


def test_arrow_timestamps_without_a_zone_are_read_alike_in_dictionaries_too():
    local = pa.array([datetime(2016, 11, 24, 10), None, datetime(2016, 11, 6, 1, 30)], pa.timestamp("us"))
    for column in (local, local.dictionary_encode()):
        times = instants(column, "iso", "America/Chicago")
        assert times.us[0] == us_of(datetime(2016, 11, 24, 10), "America/Chicago")
        assert times.missing.tolist() == [False, True, False]
        assert times.clock_change.tolist() == [False, False, True]
        assert instants(column, "iso").no_offset.tolist() == [True, False, True]


ROWS = [good_row(i) for i in range(300)]


def local_times(folder, form):
    """A file of local timestamps, noon of the first days of 1970."""
    noons = [day * 86_400_000_000 + 43_200_000_000 for day in range(300)]
    if form == "parquet":
        columns = {field: pa.array([row[field] for row in ROWS]) for field in FIELDS}
        return write_parquet(folder / "a", columns | {"time": pa.array(noons, pa.timestamp("us"))})
    local = {"type": "long", "logicalType": "local-timestamp-micros"}
    rows = [{**row, "time": noon} for row, noon in zip(ROWS, noons, strict=True)]
    return write_avro(folder / "a", rows, {**AVRO_TYPES, "time": local})


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_uuid_is_its_usual_text(tmp_path, form):
    ids = [None if i % 9 == 0 else UUID(int=i % 7) for i in range(300)]
    if form == "parquet":
        columns = {field: pa.array([row[field] for row in ROWS]) for field in FIELDS}
        path = write_parquet(tmp_path / "a", columns | {"vehicle": pa.array(ids, pa.uuid())})
    else:
        kinds = {**AVRO_TYPES, "vehicle": ["null", {"type": "string", "logicalType": "uuid"}]}
        path = write_avro(tmp_path / "a", [{**row, "vehicle": id_} for row, id_ in zip(ROWS, ids, strict=True)], kinds)
    (batch,) = mapped(form).read(path)
    texts = batch.table.column("vehicle").to_pylist()
    assert texts == [id_ and str(id_) for id_ in ids]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_local_timestamps_are_read_by_the_zone_that_is_named(tmp_path, form):
    path = local_times(tmp_path, form)
    source = layout(form, {field: field for field in FIELDS}, None, None, time_zone="Asia/Kathmandu")
    (batch,) = source.read(path)
    times = source.units.instants(batch.table.column("time"))
    assert times.valid.all()
    assert times.us[0] == (12 * 60 - 330) * 60_000_000, "Kathmandu was 5:30 ahead in 1970"


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_times_without_a_zone_are_unreadable(tmp_path, form):
    told = "column 'time' has no time zone: name it as input.time_zone"
    with pytest.raises(UnreadableFile) as refused:
        list(mapped(form).read(local_times(tmp_path, form)))
    assert refused.value.rule == told
