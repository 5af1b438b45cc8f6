"""The road of a stream under a watermark that the test moves by hand: slots fire once, late rows are counted."""

from dataclasses import replace

import pytest
from apache_beam.transforms.window import TimestampedValue

from pipelines.account import location
from pipelines.inputs import range_of
from pipelines.job import Outputs, job_of, ledger_account_of
from pipelines.runs.stream.stream import Stream
from tests import city
from tests.stream.by_hand import STEPS, Beats, Counters, Fed, batch, instant_s, moved, run
from transforms import counters

DAY = "2022-01-01"


@pytest.fixture
def released(tmp_path, monkeypatch):
    """Runs a clock against the slots from 8 to 10; returns units by slot, what was counted, and the files' names."""
    counts = Counters(monkeypatch, *STEPS).counts
    spec = city.loaded(tmp_path)
    place = location.find(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key")
    location.open_account(place, spec.account)
    when = range_of(spec.timetable, f"{DAY}T08:00", f"{DAY}T10:00")
    secret = location.read_key(place.key)
    job = replace(
        job_of(spec, when, secret, ledger_account_of(spec, place), Outputs(tmp_path / "out", ("csv",))),
        transaction="slot",
    )
    (tmp_path / "out").mkdir()

    def released(*moves):
        run(Stream(job, Fed(moved(moves)), Beats(tuple(job.slots)), "test"))
        units = {unit.slot_start[11:16]: unit for unit in place.ledger.released(spec.spec_id, DAY)}
        return units, counts, sorted(path.name for path in (tmp_path / "out").iterdir())

    return released


def rows(text, *speeds):
    """Handed over while the source's watermark is at that time."""

    def move(clock):
        table = batch(*((f"bus{i}", f"{DAY}T{text}:0{i}+05:30", v) for i, v in enumerate(speeds)))
        return clock.add_elements([TimestampedValue(table, clock_s(clock))])

    return move


def clock_s(clock):
    """Where the watermark of a clock stands, which is what sources stamp their elements with."""
    moved = [event.new_watermark for event in clock._events if hasattr(event, "new_watermark")]
    return moved[-1] if moved else instant_s(DAY, "08:00")


def watermark(text):
    return lambda clock: clock.advance_watermark_to(instant_s(DAY, text))


def test_each_slot_is_released_once_with_the_rows_that_came_before_its_end(released):
    units, counts, files = released(
        watermark("08:00"),
        rows("08:10", 30, 40),
        rows("09:05", 20),
        watermark("09:00"),
        rows("09:10", 25),
        watermark("10:00"),
    )
    assert [(slot, len(unit.released)) for slot, unit in units.items()] == [("08:00", 1), ("09:00", 1)]
    facts = {slot: unit.released[0].plan["facts"] for slot, unit in units.items()}
    assert {slot: (of_slot["users"], of_slot["samples"]) for slot, of_slot in facts.items()} == {
        "08:00": (2, 2),
        "09:00": (1, 2),
    }
    assert (counts[counters.NEW + DAY], len(files)) == (2, 2)


def test_rows_that_come_after_their_minute_count_while_their_slot_is_open_but_their_copies_do_not(released):
    units, counts, _ = released(
        watermark("08:00"),
        rows("08:10", 30, 40),
        watermark("08:30"),
        rows("08:10", 30, 40),  # these may be copies
        rows("08:20", 50, 60, 20),  # from a time in which nothing was heard of them
        rows("08:20", 50, 60, 20),
        watermark("08:40"),
        rows("08:25", 10),
        rows("08:20", 50),
        rows("08:45", 35),
        watermark("09:00"),
        rows("08:59", 35),
        watermark("10:00"),
    )
    assert [(slot, len(unit.released)) for slot, unit in units.items()] == [("08:00", 1), ("09:00", 0)]
    facts = units["08:00"].released[0].plan["facts"]
    assert (facts["users"], facts["samples"]) == (3, 2 + 3 + 1 + 1)
    assert (counts[counters.refused("lateness", "late")], counts[counters.DUPLICATES]) == (2 + 1, 3 + 1)


def test_rows_of_a_slot_that_has_ended_are_refused_and_counted_and_change_nothing(released):
    units, counts, _ = released(
        watermark("08:00"), rows("08:10", 30), watermark("09:00"), rows("08:50", 60, 61), watermark("10:00")
    )
    assert units["08:00"].released[0].plan["facts"]["samples"] == 1
    assert counts[counters.refused("lateness", "late")] == 2
    assert units["09:00"].released == [], "a slot without rows fires by its heartbeat"
