"""Times in forms that a specification names, and times without an offset: each read by itself."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import AVRO_TYPES, good_row, mapped, rules, run, write_avro, write_parquet
from transforms.layouts import UnreadableFile, layout
from transforms.layouts.base import FIELDS
from transforms.layouts.columns import instants, numbers
from transforms.layouts.time_format import TimeFormat

FORMS = ["%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d%H%M%S", "%d-%m-%y %H:%M", "%Y/%m/%dT%H:%M:%S.%f%z"]
MAP = {field: field for field in FIELDS}


def us_of(local: datetime, zone: str = "UTC") -> int:
    return round(local.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000_000)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2068, 12, 31)), st.sampled_from(FORMS))
def test_a_written_time_is_read_as_it_was_written(moment, form):
    text = moment.replace(tzinfo=UTC).strftime(form)
    times = TimeFormat.of(form).instants(pa.array([text, None, ""]), "UTC")
    expected = datetime.strptime(text, form)
    assert times.us[0] == us_of(expected)
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
