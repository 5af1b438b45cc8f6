"""`hatstream stream` under secret counts on real servers: live slots, then the day's end, one total, exactly once."""

import json
import os
import time
from contextlib import contextmanager
from datetime import datetime
from fractions import Fraction
from itertools import groupby
from threading import Event, Thread
from zoneinfo import ZoneInfo

import pytest

from dpops.accountant import Accountant
from hatstream_lab.servers.flink import WorkerPool
from pipelines.cli import main
from tests.stream.cluster import has_restarted, wait_for
from tests.stream.minutes import SPEC, Running, Town, engine, positions
from transforms.failpoints import FILE_VARIABLE
from transforms.recorded.stage_plan import bare_stage

pytestmark = pytest.mark.slow
FED, SERVICE = 2, 3  # slots with reports, and all of the day: in the last one nothing happens
ZONE = ZoneInfo("Asia/Kolkata")
REGION = {
    "type": "Polygon",
    "coordinates": [[[-97.6, 29.9], [-97.4, 29.9], [-97.4, 30.2], [-97.6, 30.2], [-97.6, 29.9]]],
}
FILE_S = 10


def town_of(tmp_path, url):
    """Service of the minute that has begun and the next ones, after which the day ends; the day before is released."""
    start_s = int(time.time()) // 60 * 60
    edges = [datetime.fromtimestamp(start_s + 60 * minutes, ZONE) for minutes in (0, SERVICE)]
    if edges[0].date() != edges[1].date():
        pytest.skip("midnight lies among the slots")
    service = "-".join(edge.strftime("%H:%M") for edge in edges)
    (tmp_path / "region.json").write_text(json.dumps(REGION))
    spec = (
        SPEC.replace('"counts-public"', '"add-remove"')
        .replace("limit = 5000", "limit = 2.64")
        .replace("allowed_lateness_s = 5", f'allowed_lateness_s = 5\nservice = "{service}"')
        .replace('region = "occupied"', 'region = "region.json"')
        .replace("epsilon = 1.0", "epsilon = 2.64")
        .replace('per = "hat"', 'per = "period"\nscope = "period"')
        .replace('"array-average"', '"levels"')
    ) + "[live]\nshare = 0.5\nday_lateness_s = 30\n"
    town = Town(tmp_path, url, events=reports, spec=spec, start_s=start_s)
    (tmp_path / "reports").mkdir()
    (tmp_path / "nothing.jsonl").write_text("")
    day = datetime.fromtimestamp(start_s - 86_400, ZONE).date().isoformat()
    release(town, day, day, tmp_path / "nothing.jsonl")
    return town


def reports(start_s):
    return [event for event in positions(start_s, 1) if event.at_ms < 1_000 * (start_s + 60 * FED)]


@contextmanager
def fed(town):
    """The feed comes: a file for what happened in each FILE_S seconds, as soon as they are over.

    When a file came only the kernel says, so that no reports of earlier minutes can be played.
    """
    folder, ended = town.folder / "reports", Event()

    def feed():
        for number, events in groupby(reports(town.start_s), key=lambda event: event.at_ms // (1_000 * FILE_S)):
            if ended.wait(max(0, FILE_S * (number + 1) - time.time())):
                return
            part = folder / f"{number}.part"
            part.write_bytes(b"\n".join(event.payload for event in events))
            os.utime(part, (1, 1))
            part.rename(folder / f"{number}.jsonl")

    feeding = Thread(target=feed)
    feeding.start()
    try:
        yield ["--folder", folder]
    finally:
        ended.set()
        feeding.join()


def release(town, start, end, feed):
    assert main([
        "release", *map(str, town.options), "--input", str(feed), "--from", start, "--to", end,
        "--output", str(town.folder / "out"), "--formats", "jsonl", "--json",
    ]) == 0  # fmt: skip


def period(town):
    return datetime.fromtimestamp(town.start_s, ZONE).date().isoformat()


def stage(town):
    stages = [e.unit for e in town.place.ledger.stages("minutes", town.spec.spec_id) if e.unit.period == period(town)]
    return stages[0] if stages else None


def check(town):
    slots = [entry.unit for entry in town.place.ledger.live("minutes", town.spec.spec_id, period(town))]
    assert sorted(unit.slot_s for unit in slots) == [town.start_s + 60 * i for i in range(SERVICE)]
    assert {bare_stage(unit).share for unit in slots} == {Fraction(1, 2 * SERVICE)}
    debits = Accountant().compose(unit.debit for unit in [*slots, stage(town)])
    (spent,) = town.place.ledger.spent("minutes", period(town))
    assert spent.debited == debits
    town.place.ledger.verify()


def test_live_slots_and_the_days_end_are_released_by_one_stream(tmp_path, postgres, flink, pool):
    """5 minutes: the day lasts three."""
    town = town_of(tmp_path, postgres.new_database())
    with fed(town) as source, Running(town, *engine(flink, pool), source=source) as stream:
        wait_for(lambda: stage(town) or stream.has_ended(), 360)
        wait_for(lambda: len(list(tmp_path.glob("out/hats-*"))) == 2 * SERVICE, 180)
        wait_for(lambda: any("period" in line for line in stream.health()), 30)
        assert stream.stop() == (0, "")
    check(town)
    assert len(list(tmp_path.glob("out/live-*"))) == SERVICE
    health = stream.health()
    assert sum("slot" in line for line in health) == SERVICE
    before = town.place.ledger.stages("minutes", town.spec.spec_id)
    edges = [town.spec.timetable.text(town.start_s + 60 * minutes) for minutes in (0, SERVICE)]
    release(town, *edges, tmp_path / "feed.jsonl")
    assert town.place.ledger.stages("minutes", town.spec.spec_id) == before
    assert town.place.ledger.audit("minutes").changed == 0, "the scheduled job makes the same day"


@pytest.fixture
def failing_pool(tmp_path, monkeypatch):
    """A worker pool whose workers die where the file says."""
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "armed"))
    with WorkerPool(tmp_path / "pool") as running:
        yield running


@pytest.mark.parametrize("place", ["after-noise", "after-commit"])
def test_a_worker_that_is_killed_loses_and_repeats_nothing(tmp_path, flink, failing_pool, place):
    """5 minutes: the day lasts three."""
    town = town_of(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    def live():
        return town.place.ledger.live("minutes", town.spec.spec_id, period(town))

    with fed(town) as source, Running(town, *engine(flink, failing_pool), source=source) as stream:
        seen = wait_for(live, 180)
        (tmp_path / "armed").write_text(f"{place} kill")
        wait_for(lambda: stage(town) or stream.has_ended(), 360)
        (job,) = [line["job"] for line in stream.health() if "job" in line]
        assert has_restarted(flink, job)
        assert live()[: len(seen)] == seen
    check(town)
