"""Timetables with faults that agencies make: what cannot be used is left out, and told."""

import os
import struct
import zipfile

import h3
import pytest

from companions.city.tests.feeds import FEED, write
from hatstream.api import InputError
from hatstream_city.timetable.town import read_town

SHAPES = "shape_id,shape_pt_lat,shape_pt_lon,shape_pt_sequence\nS,50.5,-104.6,1\nS,{},2\nS,50.4,-104.6,3\n"
IMPOSSIBLE = "with one that cannot be, as near (0, 0) or a world away from all stops"
TRIPS = FEED["trips"].replace("block_id", "shape_id").replace("B1", "S").replace("B2", "S")


def town(folder, **tables):
    return read_town(write(folder / "feed.zip", {**FEED, **tables}), 7)


@pytest.mark.parametrize("position", ["0,0", "0.4,-0.3", "1,1", "50.45,104.6", "-50.45,-104.6", "-104.6,50.45", "x,"])
def test_a_position_that_cannot_be_makes_no_region_and_is_told(tmp_path, position):
    expected = town(tmp_path).cells - {h3.latlng_to_cell(50.45, -104.6, 7)}
    stop = town(tmp_path, stops=FEED["stops"].replace("50.45,-104.60", position))
    assert expected <= stop.cells <= town(tmp_path).cells
    assert stop.left_out == [
        f"Left out: 1 of 3 stops that are served, without a position or {IMPOSSIBLE}. The first is stop_id 'B'."
    ]
    shape = town(tmp_path, trips=TRIPS, shapes=SHAPES.format(position))
    assert expected <= shape.cells <= town(tmp_path).cells
    assert shape.left_out == [f"Left out: 1 of 3 points of shapes, without a position or {IMPOSSIBLE}."]


@pytest.mark.parametrize("lon", [179.98, -0.02, 0.5])
def test_stops_on_both_sides_of_a_meridian_are_near_each_other(tmp_path, lon):
    stops = ["stop_id,stop_name,stop_lat,stop_lon\n"]
    stops += [f"{stop},{stop},-17,{(lon + 0.02 * number + 180) % 360 - 180:.2f}\n" for number, stop in enumerate("ABC")]
    assert town(tmp_path, stops="".join(stops)).left_out == []


def test_another_encoding_is_refused_in_one_sentence(tmp_path, hatstream):
    stops = FEED["stops"].encode() + "E,Fürstätt\n".encode("latin-1")  # and too short
    feed = write(tmp_path / "feed.zip", {**FEED, "stops": stops})
    code, _, err = hatstream("spec", "new", "--gtfs", feed, "--output", tmp_path / "town.toml")
    assert (code, err.count("\n")) == (4, 1), err
    assert "stops.txt cannot be read as GTFS has it, a zip or folder of CSV files in UTF-8" in err


def packed(path, method, *, flags=0, named=None, damaged=False):
    """A feed's zip; of each member the flags, the method that its headers name, or its bytes are changed."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, text in FEED.items():
            archive.writestr(f"{name}.txt", text)
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.find(signature)
        while start >= 0:
            struct.pack_into("<H", content, start + offset, flags)
            struct.pack_into("<H", content, start + offset + 2, method if named is None else named)
            if damaged and offset == 6:
                body = start + 30 + sum(struct.unpack_from("<HH", content, start + 26))
                content[body : body + 8] = b"\xff" * 8
            start = content.find(signature, start + 4)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "damage",
    [
        {"method": zipfile.ZIP_DEFLATED, "damaged": True},
        {"method": zipfile.ZIP_BZIP2, "damaged": True},
        {"method": zipfile.ZIP_LZMA, "damaged": True},
        {"method": zipfile.ZIP_DEFLATED, "flags": 1},
        {"method": zipfile.ZIP_DEFLATED, "named": 97},
    ],
    ids=["deflate", "bzip2", "lzma", "encrypted", "unknown-method"],
)
def test_a_damaged_zip_is_refused_with_its_name(tmp_path, damage):
    with pytest.raises(InputError, match=r"feed\.zip: agency\.txt cannot be read as GTFS has it"):
        read_town(packed(tmp_path / "feed.zip", **damage), 7)


def test_a_pipe_in_the_place_of_a_feed_or_a_table_is_refused(tmp_path):
    os.mkfifo(tmp_path / "feed.zip")
    with pytest.raises(InputError, match=r"feed\.zip is no regular file"):
        read_town(tmp_path / "feed.zip", 7)
    folder = tmp_path / "feed"
    folder.mkdir()
    for name, text in FEED.items():
        (folder / f"{name}.txt").write_text(text)
    (folder / "stops.txt").unlink()
    os.mkfifo(folder / "stops.txt")
    with pytest.raises(InputError, match=r"stops\.txt is no regular file"):
        read_town(folder, 7)
