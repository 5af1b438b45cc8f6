"""Drafts of samples that are written in strange ways."""

import pytest

from hatstream_city.draft.draft import draft
from pipelines.errors import InputError

ROWS = [
    f"B{bus},2026-05-13T11:{minute:02d}:00Z,{-33.45 - 0.003 * minute:.6f},{-70.66 + bus / 100},30"
    for bus in range(4)
    for minute in range(20)
]


def drafted(path, header, after=""):
    path.write_text("\n".join([header, *(row + after for row in ROWS), ""]))
    return draft(path, adds_and_removes=True)


def test_a_name_that_two_columns_have_takes_no_other_column_its_name(tmp_path):
    made = drafted(tmp_path / "feed.csv", "bus,ts,lat,lon,speed_kmh,note,note", after=",a,b")
    assert 'columns = { vehicle = "bus", time = "ts", lat = "lat", lon = "lon", speed = "speed_kmh" }' in made.toml
    assert "header = false" not in made.toml


def test_a_name_that_two_needed_columns_have_is_said(tmp_path):
    with pytest.raises(InputError, match='Of one name for several columns none is read: "lat"'):
        drafted(tmp_path / "feed.csv", "bus,ts,lat,lat,speed_kmh")


def test_blanks_around_the_names_of_a_header_are_none_of_theirs(tmp_path):
    made = drafted(tmp_path / "feed.csv", "bus, ts, lat, lon, speed_kmh")
    assert 'columns = { vehicle = "bus", time = "ts", lat = "lat", lon = "lon", speed = "speed_kmh" }' in made.toml


def test_an_empty_file_is_said_to_be_empty(tmp_path):
    path = tmp_path / "feed.csv"
    path.write_text("\n")
    with pytest.raises(InputError, match="it is empty"):
        draft(path, adds_and_removes=True)


def test_positions_at_0_0_do_not_make_a_vehicle_doubtful(tmp_path):
    path = tmp_path / "feed.csv"
    nowhere = [",".join([*row.split(",")[:2], "0.0,0.0,0"]) for row in ROWS[::4]]
    path.write_text("\n".join(["bus,ts,lat,lon,speed_kmh", *ROWS, *nowhere, ""]).replace("11:00:00Z", "11:00:30Z"))
    assert not any("looks like no vehicle" in told for told in draft(path, adds_and_removes=True).warnings)


def test_text_in_another_encoding_is_said(tmp_path):
    path = tmp_path / "feed.csv"
    path.write_text("\n".join(["bus,ts,lat,lon,speed_kmh", *(f"\xe9{row}" for row in ROWS), ""]), "latin-1")
    with pytest.raises(InputError, match="text that is not UTF-8"):
        draft(path, adds_and_removes=True)
