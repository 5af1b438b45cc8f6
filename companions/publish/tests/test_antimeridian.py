"""A city on both sides of the antimeridian: its places lie side by side on maps, tiles and in records."""

import gzip
import json

import h3
import msgspec
import numpy as np
import pyarrow as pa
import pytest

from companions.city.tests import feeds as timetables
from hatstream_city.timetable.town import read_town
from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.places import NamedPlaces, box_of
from tests.kit.results import row
from transforms.places.hexagons import cells_of_geojson
from transforms.sinks.published import SCHEMA

FIJI = sorted(h3.grid_disk(h3.latlng_to_cell(-16.85, 180.0, 7), 3))


def degrees(cells, ground=()):
    """Longitudes of all positions of a map, of its places and of the ground under them."""
    rows = pa.Table.from_pylist([row(cell, 6, 12.0) for cell in cells], schema=SCHEMA)
    head, body = gzip.decompress(packed(rows, NamedPlaces(), ground)).split(b"\n", 1)
    longitudes, start = {}, 0
    for name, kind, size in json.loads(head)["arrays"]:
        width = int(kind[1:])
        if name.endswith(".x"):
            planes = np.frombuffer(body[start : start + width * size], np.uint8).reshape(width, size)
            longitudes[name.removesuffix(".x")] = planes.T.copy().view("<i4").ravel().cumsum() / 1e5
        start += width * size
    return longitudes["places"], longitudes["ground"]


def test_neighbours_across_the_antimeridian_are_neighbours_on_a_map():
    places, _ = degrees(FIJI)
    assert np.ptp(places) < 0.3


def test_a_box_across_the_antimeridian_has_its_west_in_the_east():
    west, south, east, north = box_of(NamedPlaces().place(cell).shape for cell in FIJI)
    assert (round(west), round(east)) == (180, -180)
    assert 179.8 < west < 180
    assert -180 < east < -179.8
    assert south < -16.85 < north


def crossing(folder):
    """A timetable of which one line leads from 179.95 east to 179.95 west, 10 km."""
    stops = "stop_id,stop_name,stop_lat,stop_lon\nA,West,-16.85,179.95\nB,Middle,-16.85,-180\nC,East,-16.85,-179.95\n"
    return timetables.write(folder / "feed.zip", {**timetables.FEED, "stops": stops})


def test_a_timetable_s_line_across_the_antimeridian_does_not_lead_around_the_world(tmp_path):
    town = read_town(crossing(tmp_path), 7)
    assert 5 <= len(town.cells) <= 8
    region = cells_of_geojson(msgspec.json.decode(town.files("t")["t-region.geojson"]), 7)
    assert {h3.int_to_str(cell) for cell in region} == town.cells
    lons = [lon for line in town.documents["ground"]["features"] for lon, _ in line["geometry"]["coordinates"]]
    assert max(lons) - min(lons) == pytest.approx(0.1)


def test_segments_across_the_antimeridian_are_as_long_as_they_are(tmp_path):
    """Two, of 5.3 km each; a way around the world would be 40,000 km long."""
    town = read_town(crossing(tmp_path), 7, directed=False)
    for segment in town.documents["segments"]["features"]:
        lons = [lon for lon, _ in segment["geometry"]["coordinates"]]
        assert max(lons) - min(lons) < 0.06
