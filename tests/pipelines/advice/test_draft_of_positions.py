"""`hatstream spec new` of feeds whose positions are written in another way, and of feeds in which they are nested."""

import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.advice.draft.draft import draft
from pipelines.advice.plan.feed import fullest_period
from pipelines.errors import InputError
from pipelines.specification import load
from tests.pipelines.advice.circles import rows

NAMES = ("vehicle", "time", "lat", "lon", "speed")


def drafted(lines, folder):
    """The specification that is drafted from these rows, and how many of them a release would take."""
    sample, spec = folder / "feed.csv", folder / "town.toml"
    with sample.open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *lines])
    spec.write_text(draft(sample, adds_and_removes=True).toml)
    made = load(spec)
    return made, fullest_period(made, str(sample), lambda *_: None).observations.event_us.size


def moved(degrees):
    return [(bus, time, lat, lon + degrees, speed) for bus, time, lat, lon, speed in rows()]


def test_longitudes_from_0_to_360_are_those_of_the_same_places(tmp_path):
    spec, taken = drafted(moved(360), tmp_path)
    assert (spec.cells, spec.timetable.zone, taken) == (drafted(rows(), tmp_path)[0].cells, "America/Chicago", 240)


def test_longitudes_that_are_none_are_named(tmp_path):
    with pytest.raises(
        InputError, match=r"no column of lon was made out.*degrees .* from -180 to 180 or from 0 to 360"
    ):
        drafted(moved(720), tmp_path)


def test_devices_that_do_not_know_where_they_are_do_not_hide_the_columns_of_positions(tmp_path):
    lost = [(bus, time, 91, 181, speed) for bus, time, _, _, speed in rows()[::9]]
    spec, taken = drafted(lost + rows(), tmp_path)
    assert (spec.cells, taken) == (drafted(rows(), tmp_path)[0].cells, 240)


def test_columns_that_are_nested_are_named(tmp_path):
    records = [{"vehicle": bus, "time": time, "place": {"lat": lat, "lon": lon}} for bus, time, lat, lon, _ in rows()]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "feed.parquet")
    with pytest.raises(InputError, match=r'no column of lat and lon .* Nested columns are not read: "place"\.'):
        draft(tmp_path / "feed.parquet", adds_and_removes=True)
