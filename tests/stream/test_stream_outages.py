"""`hatstream stream` while its servers are away: every slot is released once and whole, later."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count, cycle

import psycopg
import pytest

from tests.stream.cluster import BUSY, has_restarted, wait_for
from tests.stream.minutes import PARTITIONS, Event, Running, Town, engine, position, refused
from transforms.ledger.databases import WRITERS

pytestmark = pytest.mark.slow
RATE = 40  # live events a second
BEFORE_S, AWAY_S, AFTER_S = 15, 30, 15
"""The broker goes so long before the end of a slot, for so long; the feed lasts so long after the slot's end."""
MOST_S = 600  # the stream begins to read in this time, also where much else is to be done


def until_whole(town, stream, seconds):
    def whole():
        assert not stream.has_ended(), stream.stop()
        return len(town.released()) == len(town.slots) and town.has_published("out")

    wait_for(whole, seconds)


def check(town, stream):
    assert stream.stop() == (0, "")
    streamed, apart = town.released(), town.apart()
    assert list(streamed) == town.slots
    assert {slot: unit.digest for slot, unit in streamed.items()} == {slot: unit.digest for slot, unit in apart.items()}
    assert refused(stream.health(), "lateness/late") == 0
    spent = town.place.ledger.spent("minutes")
    assert town.release() == 0
    assert town.place.ledger.spent("minutes") == spent
    town.place.ledger.verify()


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
        random_, partitions = random.Random(4), cycle(range(PARTITIONS))
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
        until_whole(town, stream, 120)
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
        until_whole(town, stream, 120)
        check(town, stream)
