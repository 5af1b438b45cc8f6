"""Lateness and outages of the whole stream: what a partition's own watermark has closed is late, nothing else.

Where lateness is told to the millisecond, every message is a poll of its own, so each meets the promise that the
message before it in its partition made.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count, cycle

import psycopg
import pytest

from tests.stream import minutes
from tests.stream.cluster import BUSY, has_restarted, wait_for
from tests.stream.minutes import SPEC, Attended, Event, Running, Town, chosen, engine, position, refused
from transforms.ledger.databases import WRITERS

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
        wait_for(town.is_whole, 120)
        wait_for(lambda: refused(stream.health, "lateness/late") >= 21, 120)
        (job,) = [line["job"] for line in stream.health if "job" in line]
        counted = flink.counters(job)
    assert (counted["refused/lateness/late"], counted["duplicates"], counted["rows"]) == (21, 30, town.rows)
    town.check()


def test_late_is_what_comes_after_its_own_partition_closed_the_slot_and_nothing_else(
    tmp_path, postgres, kafka, flink, pool
):
    """30 s: three partitions with watermarks of their own, and an idle one, which follows the clock."""
    script = Script()
    town = Town(tmp_path, postgres.new_database(), kafka, events=script)
    late = sum(event.is_late for event in script.events)
    assert (late, len(script.events)) == (3 + 3 * (3 + 4), 3 + 3 * (12 + 9 + 7))
    with Attended(town, chosen(flink, pool), poll_messages=1) as stream:
        wait_for(town.is_whole, 120)
        wait_for(lambda: refused(stream.health, "lateness/late") >= late, 120)
        (job,) = [line["job"] for line in stream.health if "job" in line]
        assert not has_restarted(flink, job)
        counted = flink.counters(job)
    assert refused(stream.health, "lateness/late") == counted["refused/lateness/late"] == late
    assert counted["rows"] == town.rows
    assert counted.get("duplicates", 0) == 0
    town.check()


RATE = 40  # live events a second
BEFORE_S, AWAY_S, AFTER_S = 15, 30, 15
"""The broker goes so long before the end of a slot, for so long; the feed lasts so long after the slot's end."""
MOST_S = 600  # the stream begins to read in this time, also where much else is to be done


def check(town, stream):
    assert stream.stop() == (0, "")
    assert list(town.released()) == town.slots
    assert refused(stream.health(), "lateness/late") == 0
    town.check()


# --- the broker ---------------------------------------------------------------------------------------------------


class LiveTown(Town):
    """Events of now, fed by `live`, in the slots around the first end of one after the stream has begun to read."""

    def __init__(self, folder, ledger_url, kafka):
        super().__init__(folder, ledger_url, kafka, events=lambda _: [])
        self.start_s = int(time.time()) // 60 * 60
        self.slots = [self.start_s]
        self.end_s = None

    def settle(self):
        """Once the stream reads: the broker will be away over the end of a slot that leaves BEFORE_S until then."""
        self.end_s = (int(time.time()) + BEFORE_S) // 60 * 60 + 60
        self.slots = list(range(self.start_s, self.end_s + 60, 60))

    def live(self):
        """Until AFTER_S after the end; out of order by up to two seconds. The broker goes and comes on the way."""
        random_, partitions = random.Random(4), cycle(range(minutes.PARTITIONS))
        for i in count():
            now = time.time()
            if now > (self.end_s or self.start_s + MOST_S) + AFTER_S:
                return
            event_ms = max(self.start_s * 1_000, int(now * 1_000) - random_.randrange(2_000))
            yield Event(next(partitions), int(now * 1_000), position(f"bus{i % 300}", event_ms, i))
            time.sleep(1 / RATE)


@contextmanager
def away(kafka, town, is_read):
    """The broker is stopped for AWAY_S, from BEFORE_S before the end of a slot on, in which the stream reads."""

    def go_and_come():
        wait_for(is_read, MOST_S / BUSY)
        town.settle()
        time.sleep(max(0, town.end_s - BEFORE_S - time.time()))
        kafka.stop()
        try:
            time.sleep(AWAY_S)
        finally:
            kafka.start()

    with ThreadPoolExecutor() as pool:
        gone = pool.submit(go_and_come)
        yield
        gone.result()


def test_a_broker_that_is_away_over_the_end_of_a_slot_makes_no_row_late(tmp_path, postgres, kafka, flink, pool):
    """2 min: producers keep what they cannot send, and send it when the broker is back."""
    town = LiveTown(tmp_path, postgres.new_database(), kafka)
    with Running(town, *engine(flink, pool)) as stream:

        def is_read():
            return any(flink.counters(line["job"]).get("rows") for line in stream.health() if "job" in line)

        with away(kafka, town, is_read):
            town.feed(town.live())
        stream.wait_for(town.is_whole, 120)
        check(town, stream)


# --- the ledger ---------------------------------------------------------------------------------------------------


def test_a_ledger_that_is_killed_while_a_slot_is_recorded_takes_it_when_it_is_back(
    tmp_path, postgres, kafka, flink, pool
):
    """30 s: away for longer than a transaction is tried again."""
    town = Town(tmp_path, postgres.new_database(), kafka)
    with Running(town, *engine(flink, pool)) as stream:

        def restarted_or_ended():
            with suppress(OSError):  # this cluster ends with its job
                return has_restarted(flink, job)
            return stream.has_ended()

        job = wait_for(lambda: next((line["job"] for line in stream.health() if "job" in line), None), 90)
        with psycopg.connect(town.url, autocommit=True) as writer:
            writer.execute(f"SELECT pg_advisory_lock({WRITERS})")
            wait_for(lambda: writer.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0], 90)
            postgres.kill()
        try:
            wait_for(restarted_or_ended, 60)
            assert not stream.has_ended(), stream.stop()
        finally:
            postgres.start()
        stream.wait_for(town.is_whole, 120)
        check(town, stream)
