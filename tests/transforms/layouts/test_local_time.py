"""Times without an offset: placed in a zone, refused where a clock change leaves them without one instant."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.layouts.columns import instants

ZONES = ["America/Chicago", "Asia/Kolkata", "Australia/Lord_Howe", "Europe/Berlin", "UTC"]


def us_of(local: datetime, zone: str) -> int:
    return round(local.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000_000)


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
