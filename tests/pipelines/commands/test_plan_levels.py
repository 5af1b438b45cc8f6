"""`hatstream plan`: how many vehicles are needed, from public facts alone, and one's own feed counted."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import h3
import msgspec
import numpy as np
import pytest

from pipelines.plan.levels import public_facts_of
from pipelines.plan.parts import plan_places
from pipelines.plan.spans import usable_parts
from tests import city, levels_city

PRINTED = {}  # what was printed for a specification and options, without a feed


@pytest.fixture
def planned(tmp_path, hatstream):
    """The document that --json prints for a specification; the feed of the small city lies beside it."""

    def run(spec, *options, lines=None):
        levels_city.write(tmp_path, spec=spec, lines=lines)
        if lines or (spec, *options) not in PRINTED:
            PRINTED[spec, *options] = city.done(hatstream, "plan", "--spec", tmp_path / "spec.toml", "--json", *options)
        return json.loads(PRINTED[spec, *options])

    return run


def now(document):
    (specified,) = (total for total in document["totals"] if total["as_specified"])
    return specified


def test_a_larger_fleet_and_a_larger_total_need_fewer_vehicles(planned):
    many = levels_city.SPEC.replace("vehicles = 50", "vehicles = 5000")
    of = planned(many)
    later = [total for total in of["totals"] if total["days"] == "a later day"]
    assert [total["epsilon"] for total in later] == [0.66, 1.32, 2.64, 5.28, 10.56]
    needed = [total["place_vehicles"] for total in later]
    assert needed == sorted(needed, reverse=True)
    assert now(of)["fleet"] is not None
    assert (now(of)["delta"], now(planned(SPEC))["delta"]) == (None, 1e-6)
    first, later_day, week = (total for total in of["totals"] if total["epsilon"] == 2.64)
    assert first["place_vehicles"] >= later_day["place_vehicles"] >= week["place_vehicles"]


@pytest.mark.slow
def test_the_answer_comes_first_and_says_what_will_be_usable(planned, tmp_path, hatstream):
    """More vehicles, larger cells and longer slots make more of it usable; a day that is held back has nothing."""
    cells = sorted(h3.cell_to_children(h3.cell_to_parent(levels_city.CELLS[0], 5), 7))
    spec = levels_city.SPEC.replace("2.64", "60").replace(json.dumps(levels_city.CELLS), json.dumps(cells))
    few, many = (planned(spec.replace("vehicles = 50", f"vehicles = {fleet}"))["usable"] for fleet in (10, 100))
    assert [part["choice"] for part in few] == ["", "cells.resolution 6", "slot.minutes 120"]
    for part, larger in zip(few, many, strict=True):
        assert [day["day"] for day in part["days"]] == [1, 7, 28]
        for day, same in zip(part["days"], larger["days"], strict=True):
            assert 0 <= day["rows"] <= day["reports"] <= 1
            assert day["rows"] < same["rows"]
    own, cells, slots = (part["days"][-1]["rows"] for part in few)
    assert own < min(cells, slots)
    small = levels_city.SPEC.replace("vehicles = 50", "vehicles = 5")
    assert {day["reports"] for day in planned(small)["usable"][0]["days"][:1]} == {0.0}
    out = city.done(hatstream, "plan", "--spec", tmp_path / "spec.toml")
    answer = "Expected to be usable by themselves, if places and hours differ as usual: on day 1 none, it is expected"
    assert " ".join(out.split()).startswith(answer)


def test_where_every_row_has_a_trip_more_are_expected_to_be_usable(tmp_path):
    spec = city.loaded(tmp_path, levels_city.SPEC.replace("vehicles = 50", "vehicles = 3"))
    for epsilon in (9, 30):
        levels = replace(spec.by_levels, epsilon=Fraction(epsilon))
        bounds = public_facts_of(spec)
        rows, unknown = (usable_parts(levels, bounds, trips, 7)[0] for trips in (np.ones((24, 9)), None))
        assert unknown < rows < 1


def test_where_trips_are_counted_usable_rows_are_those_with_enough_of_them(tmp_path):
    """Of ten HATs with a trip, one has nine tenths of all: with few vehicles, only that one is usable."""
    spec = city.loaded(tmp_path, levels_city.SPEC.replace("vehicles = 50", "vehicles = 5"))
    trips = np.array([81, *[1] * 9, *[0] * 6])
    assert usable_parts(spec.by_levels, public_facts_of(spec), trips, 7) == pytest.approx((0.1, 0.9))
    assert usable_parts(spec.by_levels, public_facts_of(spec), 0 * trips, 7) == usable_parts(
        spec.by_levels, public_facts_of(spec), trips[1:9], 7
    )


def test_a_distribution_says_what_is_expected_of_it_and_where_it_is_not_worth_its_share(planned):
    beside = '[[statistic]]\nname = "distribution"\nmechanism = "levels"\n[fleet]'
    small, large = (
        planned(levels_city.SPEC.replace("[fleet]", beside).replace("vehicles = 50", f"vehicles = {fleet}"))
        for fleet in (10, 5000)
    )
    for document, is_worth in ((small, False), (large, True)):
        (said,) = (answer for answer in document["answers"] if "85th percentile" in answer)
        assert ("leave the statistic 'distribution' out" not in said) == is_worth
    assert not any("85th percentile" in answer for answer in planned(levels_city.SPEC)["answers"])


def test_secret_counts_change_nothing_but_the_operators_part(planned, tmp_path):
    """An add-remove plan is made of public facts: with an empty feed, one bus or many its public part is the same."""
    feed = str(tmp_path / "feed.csv")
    few, many = (planned(levels_city.SPEC, "--input", feed, lines=levels_city.rows(buses=buses)) for buses in (1, 12))
    assert few.pop("operator_only")["vehicles"] == 1
    assert many.pop("operator_only")["vehicles"] == 12
    assert few == many
    assert planned(levels_city.SPEC)["operator_only"] is None


def test_the_text_says_that_counts_are_for_the_operator_alone(tmp_path, hatstream):
    levels_city.write(tmp_path)
    out = city.done(hatstream, "plan", "--spec", tmp_path / "spec.toml", "--input", tmp_path / "feed.csv")
    assert "FOR THE OPERATOR ALONE" in out
    assert "±2 km/h" in out
    assert "out of reach" in out


def test_ones_own_feed_is_counted_as_a_release_counts_it(tmp_path, hatstream):
    """Two days alike; the plan's period holds what a release of one of them debits."""
    city.opened(tmp_path, hatstream)
    (period,) = city.told(hatstream, *city.release(tmp_path, end=city.DAYS[0]))["periods"]
    document = city.told(hatstream, "plan", "--spec", tmp_path / "spec.toml", "--input", tmp_path / "feed.csv")
    assert document["composed"]["debit_of_a_period"] == {"epsilon": period["sum_of_slot_maxima"], "known": "exact"}
    assert document["hats"] == period["hats"]
    assert "resolution 8" in {choice["choice"] for choice in document["choices"]}
    assert document["needs"]["by_epsilon"][2]["epsilon"] == 1.0


def test_slots_that_cannot_follow_a_clock_change_are_said_and_the_others_are_planned(tmp_path, hatstream):
    lines = [
        f"{bus},2022-03-27T{hour:02d}:30:00Z,{21.17 + 0.02 * (bus % 3)},72.83,{20 + bus}\n"
        for bus in range(6)
        for hour in range(9, 12)
    ]
    london = city.SPEC.replace("Asia/Kolkata", "Europe/London").replace('service = "08:00-12:00"\n', "")
    spec, feed = city.write(tmp_path, spec=london, lines=lines)
    out = hatstream("plan", "--spec", spec, "--input", feed, "--json")[1]
    document = json.loads(out)
    assert {"resolution 8", "30-minute slots"} <= {each["choice"] for each in document["choices"]}
    assert any("slots of 120 minutes cannot follow it" in note for note in document["notes"])


def test_a_plan_of_delays_speaks_of_minutes_alone(planned, tmp_path, hatstream):
    """Its bounds lie 6.5 min apart, so numbers are a tenth of what they are for speeds, and nothing is said of km/h."""
    delay = '[value]\nname = "delay"\nunit = "min"\nlower = -1.5\nupper = 5'
    late = levels_city.SPEC.replace("[speed]\nupper_kmh = 65", delay)
    of_speeds, of_delays = planned(levels_city.SPEC), planned(late, "--within", "0.2")
    assert now(of_speeds)["place_vehicles"] is not None
    assert now(of_delays)["place_vehicles"] == now(of_speeds)["place_vehicles"]
    assert now(of_delays)["half_widths"] == pytest.approx([half / 10 for half in now(of_speeds)["half_widths"]])
    assert of_delays["spans"][0]["constant"] == pytest.approx(of_speeds["spans"][0]["constant"] / 10)
    out = city.done(hatstream, "plan", "--spec", tmp_path / "spec.toml")
    assert "±2 min" in out
    assert "km/h" not in out


# --- places smaller than cells: which are worth it, from when on, and when none are ---


SPEC = levels_city.SPEC.replace("epsilon = 2.64", "epsilon = 2.64\ndelta = 1e-6").replace(
    "limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }"
)
LINE = {"type": "LineString", "coordinates": [[72.83, 21.16], [72.83, 21.22]]}
FILE = {"type": "FeatureCollection", "features": [{"properties": {"name": "Ring Road"}, "geometry": LINE}]}


@pytest.fixture
def places_planned(tmp_path: Path) -> Any:
    """What a plan says of places, for a fleet and [places]."""

    def run(vehicles: int, more: str = "", spec: str = SPEC, document: object = FILE) -> Any:
        (tmp_path / "segments.geojson").write_text(json.dumps(document))
        loaded = city.loaded(tmp_path, spec.replace("vehicles = 50", f"vehicles = {vehicles}") + more)
        assert loaded.levels is not None
        return msgspec.to_builtins(plan_places(loaded, public_facts_of(loaded)))

    return run


def test_a_few_vehicles_are_told_to_leave_places_out_and_how_many_it_takes(places_planned):
    document = places_planned(1)
    assert not document["is_asked"]
    (said,) = document["answers"]
    assert "Places are not worth it for this fleet and total" in said
    assert "Leave [places] out" in said
    needed = int(said.split("it needs some ")[1].split(" vehicles")[0].replace(",", ""))
    assert "resolution 8 are worth it" in " ".join(places_planned(needed)["answers"])
    assert "not worth it" in " ".join(places_planned(needed - 1)["answers"])


def test_a_larger_fleet_has_finer_places_sooner(places_planned):
    few, many = places_planned(10), places_planned(300)
    of = [{(kind["what"], kind["traffic"]): kind for kind in document["kinds"]} for document in (few, many)]
    assert list(of[0]) == [
        (f"resolution {resolution}", traffic) for resolution in (8, 9) for traffic in ("spread", "concentrated")
    ]
    for name in of[0]:
        assert of[1][name]["ok"][-1] >= of[0][name]["ok"][-1]
        assert of[1][name]["half_width"] < of[0][name]["half_width"]
        for kinds in of:
            assert kinds[name]["ok"] == sorted(kinds[name]["ok"])
            errors = zip(kinds[name]["error"], kinds[name]["cell_error"], strict=True)
            assert all(map_error <= cell_error for map_error, cell_error in errors)
    assert "Places of resolution 9 are worth it" in many["answers"][0]


def test_of_segments_that_many_share_alike_less_is_promised_than_of_hexagons(places_planned):
    """No few of the segments have most of the traffic."""
    middles = {child: h3.cell_to_latlng(child) for cell in levels_city.CELLS for child in h3.cell_to_children(cell, 9)}
    lines = [
        {"properties": {"name": name}, "geometry": {**LINE, "coordinates": [[x - 0.0008, y], [x + 0.0008, y]]}}
        for name, (y, x) in middles.items()
    ]
    of = places_planned(100, '[places]\nfile = "segments.geojson"\n', document=FILE | {"features": lines})["kinds"]
    segments, hexagons = (
        next(kind["ok"] for kind in of if (kind["what"], kind["traffic"]) == (what, "spread"))
        for what in ("the file's", "resolution 9")
    )
    assert segments[2] < hexagons[2] / 2, "after four days"


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_table_shows_half_widths_and_the_part_that_is_ok(tmp_path, hatstream, monkeypatch, columns):
    """However wide a terminal is, no row's name is broken."""
    monkeypatch.setenv("COLUMNS", columns)
    (tmp_path / "segments.geojson").write_text(json.dumps(FILE))
    (tmp_path / "spec.toml").write_text(SPEC + '[places]\nfile = "segments.geojson"\n')
    out = city.done(hatstream, "plan", "--spec", tmp_path / "spec.toml")
    assert "A map of places" in out
    rows = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│ ")]
    assert {"resolution 8", "resolution 9", "the file's"} <= set(rows)
