"""`hatstream stream` on real servers: every slot released once, as the scheduled job would release it."""

import json
import signal
from collections import Counter

import pytest

from tests.stream.cluster import wait_for
from tests.stream.minutes import SLOTS, Running, Town, engine


@pytest.fixture
def town(tmp_path, postgres, kafka):
    return Town(tmp_path, postgres.new_database(), kafka)


def until_released(town, stream, seconds=90):
    def whole():
        assert not stream.has_ended(), stream.stop()
        return len(town.released()) == SLOTS

    wait_for(whole, seconds)


def plans(unit):
    return [(released.cell, released.statistic, released.mechanism, released.plan) for released in unit.released]


def test_stream_and_scheduled_job_seal_the_same_slots_from_the_same_events_and_share_their_values(
    town, flink, pool, capsys
):
    """45 s."""
    with Running(town, *engine(flink, pool)) as stream:
        until_released(town, stream)
        wait_for(lambda: sum("slot" in line for line in stream.health()) >= SLOTS, 30)
        code, said = stream.stop()
    assert (code, said) == (0, "")
    assert not any(flink.is_running(job.jid) for job in flink.jobs())

    streamed, apart = town.released(), town.apart()
    assert list(streamed) == town.slots == list(apart)
    for slot_s in town.slots:
        assert streamed[slot_s].digest == apart[slot_s].digest
        assert plans(streamed[slot_s]) == plans(apart[slot_s])
    assert [len(unit.released) for unit in streamed.values()] == [3, 3, 3, 3, 0, 3, 3, 3, 3, 3]

    spent = town.place.ledger.spent("minutes")
    capsys.readouterr()
    assert town.release() == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["slots_new"], summary["slots_that_differ_now"]) == (town.rows, 0, 0)
    assert town.place.ledger.spent("minutes") == spent
    for path in (town.folder / "scheduled").iterdir():
        assert path.read_bytes() == (town.folder / "out" / path.name).read_bytes()

    slots = Counter(line["slot"] for line in stream.health() if "slot" in line)
    assert slots.keys() >= {town.spec.timetable.text(slot) for slot in town.slots}
    assert set(slots.values()) == {1}
    assert "bus" not in json.dumps(stream.health())
    town.place.ledger.verify()


@pytest.mark.slow
def test_a_folder_is_streamed_with_servers_of_its_own_into_a_ledger_in_a_file(tmp_path):
    """60 s."""
    town = Town(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    folder = tmp_path / "in"
    folder.mkdir()
    with Running(town, "--local", source=["--folder", folder]) as stream:
        (tmp_path / "feed.jsonl").rename(folder / "feed.jsonl")
        until_released(town, stream, 120)
        code, said = stream.stop(signal.SIGTERM)
    assert (code, said) == (0, "")
    (folder / "feed.jsonl").rename(tmp_path / "feed.jsonl")
    assert {slot: unit.digest for slot, unit in town.released().items()} == {
        slot: unit.digest for slot, unit in town.apart().items()
    }
    assert town.release() == 0
