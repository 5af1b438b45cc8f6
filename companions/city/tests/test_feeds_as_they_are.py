"""Feeds as agencies have them: a draft reads each as what it is, or says what somebody has to do."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from hatstream_city.draft.draft import Draft, draft
from pipelines.errors import InputError, SpecificationError
from pipelines.inputs import input_paths
from pipelines.specification import load
from tests.kit import feeds
from transforms.layouts.decoder_process import read_apart
from transforms.observe.parse import parse
from transforms.time.calendar import Where

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "feeds_that_fail"


class AnyTime:
    """A calendar without an end, all of it one slot."""

    def locate(self, event_us):
        zeros, always = np.zeros(event_us.size, np.int64), np.ones(event_us.size, np.bool_)
        return Where(zeros, zeros, always, always, ("",))


def taken(drafted: Draft, path: Path, folder: Path):
    """What a release takes of a feed by its draft: vehicles, rows without duplicates, and their mean in km/h."""
    spec_path = folder / "drafted.toml"
    spec_path.write_text(drafted.toml)
    spec = load(spec_path)
    rules = spec.rules(AnyTime(), b"key")
    batches = (batch for file in input_paths(str(path)) for batch in read_apart(spec.input.layout, file))
    parts = [parse(batch.table, rules)[0] for batch in batches]
    names = ("vehicle", "event_us", "value")
    vehicle, time, value = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    rows = np.unique(np.stack([vehicle, time]), axis=1).shape[1]
    mean = float(value.mean() * float(spec.value.grid.step)) if value.size else 0.0
    return np.unique(vehicle).size, rows, mean


def read(path, folder):
    drafted = draft(path, adds_and_removes=True)
    return drafted, *taken(drafted, path, folder)


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        pytest.param(kind, layout, marks=[pytest.mark.slow] * (index % len(layouts) != number % len(layouts)))
        for number, (kind, (layouts, _)) in enumerate(feeds.KINDS.items())
        for index, layout in enumerate(layouts)
    ],
)
def test_a_feed_of_each_kind_is_read_as_what_it_is(kind, layout, tmp_path):
    feed = feeds.made(kind, layout, tmp_path)
    if feed.refused:
        with pytest.raises(InputError, match=feed.refused):
            draft(feed.path, adds_and_removes=True)
        return
    drafted, vehicles, rows, kmh = read(feed.path, tmp_path)
    assert (vehicles, rows) == (feed.vehicles, feed.rows), drafted.toml
    assert kmh == pytest.approx(feed.kmh, rel=0.01), drafted.toml
    assert feed.warned is None or any(feed.warned in line for line in drafted.warnings), drafted.warnings


@pytest.mark.parametrize("layout", feeds.OWN)
def test_the_time_of_a_header_is_taken_when_it_is_asked_for(layout, tmp_path):
    path = feeds.made("header time alone", layout, tmp_path).path
    drafted = draft(path, adds_and_removes=True, header_time=True)
    assert taken(drafted, path, tmp_path)[0] == feeds.BUSES


def test_a_vehicle_that_is_a_guess_is_left_open_and_no_command_takes_it(tmp_path):
    path = tmp_path / "feed.csv"
    rows = enumerate(feeds.reports())
    lines = [f"{row['time'].isoformat()},{row['lat']},{row['lon'] + 0.00012},{n % 2},{n}" for n, row in rows]
    path.write_text("\n".join(lines) + "\n")
    drafted = draft(path, adds_and_removes=True)
    assert drafted.is_open
    (tmp_path / "drafted.toml").write_text(drafted.toml)
    with pytest.raises(SpecificationError, match=r"columns\.vehicle: left open"):
        load(tmp_path / "drafted.toml")


def test_without_a_header_the_last_column_left_is_the_vehicle_and_no_speed(tmp_path):
    path = tmp_path / "feed.txt"
    lines = [f"{r['vehicle'][4:]},{r['time']:%Y-%m-%d %H:%M:%S},{r['lon'] + 1e-4},{r['lat']}" for r in feeds.reports()]
    path.write_text("\n".join(lines) + "\n")
    drafted = draft(path, adds_and_removes=True)
    assert drafted.is_open
    assert "derived_speed" in drafted.toml


def test_an_operator_is_told_what_is_strange_in_speeds(tmp_path, hatstream):
    feed = feeds.made("speeds of 0", "csv", tmp_path)
    spec = tmp_path / "drafted.toml"
    spec.write_text(draft(feed.path, adds_and_removes=False).toml)
    arguments = ("release", "--spec", spec, "--input", feed.path, "--from", "2026-03-10", "--to", "2026-03-10")
    code, out, _ = hatstream(*arguments, "--check-input", "--ledger", tmp_path / "ledger.sqlite", "--json")
    assert code == 0
    assert '"standing":' in out
    assert '"standing":0' not in out


# --- inputs of others, which may be no part of the project ----------------------------------------------------------


RIGHT = {  # of those that are not read whole without a word
    "c_idfloat.csv": {"warned": 'vehicle_form = "integer"'},
    "c_nulls.csv": {"rows": 10},
    "rt_deleted2.pb": {"rows": 80},
    "rt_dup_two_places.pb": {"rows": 120},
    "rt_kmh.pb": {"kmh": pytest.approx(24.5, abs=0.1)},
    "rt_no_ts.pb": {"refused": "--header-time"},
    "rt_speed_minus1.pb": {"warned": "input.no_value"},
    "rt_zero_speed.pb": {"warned": "Speeds are 0 where vehicles move"},
    "t_hm.csv": {"not warned": "looks like no vehicle|check their unit"},
}


def _expected():
    if not (FOLDER / "EXPECTED.tsv").is_file():
        return []
    with (FOLDER / "EXPECTED.tsv").open() as file:
        return [row["file"] for row in csv.DictReader(file, delimiter="\t") if not row["file"].endswith(".toml")]


@pytest.mark.slow  # the kinds above are made after them
@pytest.mark.parametrize("name", _expected())
def test_inputs_that_failed_are_read(name, tmp_path):
    right = RIGHT.get(name, {"vehicles": 12, "rows": 120})
    if "refused" in right:
        with pytest.raises(InputError, match=right["refused"]):
            draft(FOLDER / name, adds_and_removes=True)
        return
    drafted, vehicles, rows, kmh = read(FOLDER / name, tmp_path)
    warnings = "\n".join(drafted.warnings)
    assert right.items() <= (right | {"vehicles": vehicles, "rows": rows, "kmh": kmh}).items()
    assert right.get("warned", "") in warnings
    assert "not warned" not in right or not re.search(right["not warned"], warnings)
