"""What every engine must keep, or rows are lost that no counter knows: a wrong one seals slots without them."""

from collections import Counter

import pytest

from tests.stream.cluster import wait_for
from tests.stream.minutes import SLOTS, Attended, Event, Town, position

pytestmark = pytest.mark.slow
ROWS_A_SECOND = 4
POLL_MESSAGES = 40  # so few make sixty polls of what lies in the one partition: those of the idle ones come in between


def all_in_one_partition(start_s):
    for i in range(60 * SLOTS * ROWS_A_SECOND):
        at_ms = start_s * 1_000 + i * 1_000 // ROWS_A_SECOND
        yield Event(0, at_ms, position(f"bus{i % 28}", at_ms, i))


def test_a_partition_that_is_behind_is_waited_for_whatever_idle_ones_promise(tmp_path, kafka, stream_engine):
    """60 s: three partitions are empty, and so follow the clock; behind the source the least of all four holds."""
    town = Town(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}", kafka, events=all_in_one_partition)
    with Attended(town, stream_engine, POLL_MESSAGES) as stream:
        wait_for(lambda: len(town.released()) == SLOTS, 300)
        wait_for(lambda: sum("slot" in line for line in stream.health) >= SLOTS, 30)
    assert sum(line.get("rows", 0) for line in stream.health) == town.rows
    assert set(Counter(line["slot"] for line in stream.health if "slot" in line).values()) == {1}
    assert stream.health[-1] == {"state": "CANCELED"}
    town.check()
