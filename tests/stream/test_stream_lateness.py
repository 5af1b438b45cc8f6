"""Lateness on the whole stream, to the millisecond: what a partition's own watermark has closed is late, nothing else.

Every message is a poll of its own, so each meets the promise that the message before it in its partition made.
"""

from itertools import count

import pytest

from tests.stream.cluster import has_restarted, wait_for
from tests.stream.minutes import SLOTS, SPEC, Attended, Event, Town, chosen, position, refused

pytestmark = pytest.mark.slow
S = 1_000
LAG = 5 * S  # the specification's allowed lateness, in milliseconds


class Script:
    """Messages around the ends of some slots; each of another vehicle, so that none hides another."""

    def __init__(self):
        self._vehicles, self.events = count(), []

    def send(self, partition, at_ms, event_ms, late=False):
        i = next(self._vehicles)
        self.events.append(Event(partition, at_ms, position(f"bus{i}", event_ms, i), late))

    def __call__(self, start_s):
        start = start_s * S
        for partition in range(3):
            self.send(partition, start + S, start - 1, late=True)  # a stream leaves alone what ends when it starts
        for slot in (0, 3, 6):
            end = start + (slot + 1) * 60 * S
            self.up_to_the_last_millisecond(0, end)
            self.behind(1, end)
            self.a_slot_ahead(2, end)
        return self.events

    def up_to_the_last_millisecond(self, partition, end):
        self.send(partition, end - 30 * S, end - S)
        self.send(partition, end + LAG - 2, end - S)
        for event_ms in (end - S, end - 1, end, end + S):  # its last millisecond is not promised yet
            self.send(partition, end + LAG - 2, event_ms)
        self.send(partition, end + LAG - 1, end - S)
        for event_ms, late in ((end - S, True), (end - 1, True), (end, False), (end + S, False)):
            self.send(partition, end + LAG - 1, event_ms, late)
        self.send(partition, end - 30 * S, end - S, late=True)  # an older message opens nothing again

    def behind(self, partition, end):
        """Whatever other partitions promise."""
        for at_ms in (end - 20 * S, end, end + LAG - 2):
            for event_ms in (end - S, end, end + S):
                self.send(partition, at_ms, event_ms)

    def a_slot_ahead(self, partition, end):
        self.send(partition, end + 60 * S + LAG, end - S)
        for event_ms in (end - S, end, end + S, end + 59 * S):
            self.send(partition, end + 60 * S + LAG, event_ms, late=True)
        for event_ms in (end + 60 * S, end + 61 * S):
            self.send(partition, end + 60 * S + LAG, event_ms)


def after_a_gap(start_s):
    """In slots of five minutes a bus without a network sends later what it kept, twice; another one repeats itself."""
    for slot in (0, 3, 6):
        start = (start_s + slot * 300) * S
        kept, others = range(100 * S, 200 * S, 10 * S), [*range(0, 100 * S, 10 * S), *range(200 * S, 250 * S, 10 * S)]
        for number, offset in enumerate(others):
            yield Event(0, start + offset, position("gap", start + offset, number))
            yield Event(0, start + offset, position("steady", start + offset, number))
        for number, offset in enumerate([*kept, *kept]):
            yield Event(0, start + 280 * S, position("gap", start + offset, number % len(kept)))
        for number, offset in enumerate(others[:7]):
            yield Event(0, start + 280 * S, position("steady", start + offset, number), is_late=True)


def test_what_comes_after_its_minute_counts_while_its_slot_is_open_unless_it_may_be_a_copy(
    tmp_path, postgres, kafka, flink, pool
):
    """30 s."""
    spec = SPEC.replace("minutes = 1\n", "minutes = 5\n")
    town = Town(tmp_path, postgres.new_database(), kafka, events=after_a_gap, spec=spec)
    with Attended(town, chosen(flink, pool), poll_messages=1) as stream:
        wait_for(lambda: len(town.released()) == SLOTS and town.has_published("out"), 120)
        wait_for(lambda: refused(stream.health, "lateness/late") >= 21, 120)
        (job,) = [line["job"] for line in stream.health if "job" in line]
        counted = flink.counters(job)
    assert (counted["refused/lateness/late"], counted["duplicates"], counted["rows"]) == (21, 30, town.rows)
    streamed, apart = town.released(), town.apart()
    assert {slot: unit.digest for slot, unit in streamed.items()} == {slot: unit.digest for slot, unit in apart.items()}


def test_late_is_what_comes_after_its_own_partition_closed_the_slot_and_nothing_else(
    tmp_path, postgres, kafka, flink, pool
):
    """30 s: three partitions with watermarks of their own, and an idle one, which follows the clock."""
    script = Script()
    town = Town(tmp_path, postgres.new_database(), kafka, events=script)
    late = sum(event.is_late for event in script.events)
    assert (late, len(script.events)) == (3 + 3 * (3 + 4), 3 + 3 * (12 + 9 + 7))
    with Attended(town, chosen(flink, pool), poll_messages=1) as stream:
        wait_for(lambda: len(town.released()) == SLOTS and town.has_published("out"), 120)
        wait_for(lambda: refused(stream.health, "lateness/late") >= late, 120)
        (job,) = [line["job"] for line in stream.health if "job" in line]
        assert not has_restarted(flink, job)
        counted = flink.counters(job)
    assert refused(stream.health, "lateness/late") == counted["refused/lateness/late"] == late
    assert counted["rows"] == town.rows
    assert counted.get("duplicates", 0) == 0
    streamed, apart = town.released(), town.apart()
    assert {slot: unit.digest for slot, unit in streamed.items()} == {slot: unit.digest for slot, unit in apart.items()}
    town.place.ledger.verify()
