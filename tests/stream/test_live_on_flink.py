"""`hatstream stream` under secret counts on real servers: live slots, then the day's end, one total, exactly once."""

import json
import os
import time
from datetime import datetime
from itertools import groupby
from zoneinfo import ZoneInfo

import pytest

from dpops.accountant import Accountant
from pipelines.cli import main
from pipelines.servers.worker_pool import WorkerPool
from tests.stream.cluster import has_restarted, wait_for
from tests.stream.minutes import SLOTS, SPEC, Running, Town, engine, positions
from transforms.failpoints import FILE_VARIABLE
from transforms.recorded.stage_plan import plan_of

pytestmark = pytest.mark.slow
SERVICE = SLOTS + 4
"""Slots of a day: those of the feed, two that have passed since, and two that are to come."""
ZONE = ZoneInfo("Asia/Kolkata")
REGION = {
    "type": "Polygon",
    "coordinates": [[[-97.6, 29.9], [-97.4, 29.9], [-97.4, 30.2], [-97.6, 30.2], [-97.6, 29.9]]],
}


FILE_S = 10


def town_of(tmp_path, url):
    """Service from the feed's first minute to the end of the next, which ends the day; the day before is released.

    The feed is a folder, whose files can be of minutes ago: what a broker stamps is of now.
    """
    start_s = (int(time.time()) // 60 - SLOTS - 2) * 60
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
    ) + "[live]\nshare = 0.5\nday_lateness_s = 90\n"
    town = Town(tmp_path, url, spec=spec)
    write_files(tmp_path / "reports", town.start_s)
    assert town.start_s == start_s, "a minute ended meanwhile"
    (tmp_path / "nothing.jsonl").write_text("")
    day = datetime.fromtimestamp(start_s - 86_400, ZONE).date().isoformat()
    release(town, day, day, tmp_path / "nothing.jsonl")
    return town


def write_files(folder, start_s):
    """The feed, a file for what was received in each FILE_S seconds."""
    folder.mkdir()
    for at, events in groupby(positions(start_s, 1), key=lambda event: event.at_ms // (1_000 * FILE_S)):
        file = folder / f"{at}.jsonl"
        file.write_bytes(b"\n".join(event.payload for event in events))
        os.utime(file, times=(FILE_S * (at + 1) - 1,) * 2)


def source(town):
    return ["--folder", town.folder / "reports"]


def release(town, start, end, feed):
    assert main([
        "release", *map(str, town.options), "--input", str(feed), "--from", start, "--to", end,
        "--output", str(town.folder / "out"), "--formats", "jsonl", "--json",
    ]) == 0  # fmt: skip


def period(town):
    return datetime.fromtimestamp(town.start_s, ZONE).date().isoformat()


def stage(town):
    found = [e.unit for e in town.place.ledger.stages("minutes", town.spec.spec_id) if e.unit.period == period(town)]
    return found[0] if found else None


def check(town):
    slots = [entry.unit for entry in town.place.ledger.live("minutes", town.spec.spec_id, period(town))]
    assert sorted(unit.slot_s for unit in slots) == [town.start_s + 60 * i for i in range(SERVICE)]
    assert {plan_of(unit).share for unit in slots} == {"1/28"}
    debits = Accountant().compose(unit.debit for unit in [*slots, stage(town)])
    (spent,) = town.place.ledger.spent("minutes", period(town))
    assert spent.debited == debits
    town.place.ledger.verify()


def test_live_slots_and_the_days_end_are_released_by_one_stream(tmp_path, postgres, flink, pool):
    """4 minutes: the day ends in two."""
    town = town_of(tmp_path, postgres.new_database())
    with Running(town, *engine(flink, pool), source=source(town)) as stream:
        wait_for(lambda: stage(town) or stream.has_ended(), 240)
        wait_for(lambda: len(list(tmp_path.glob("out/hats-*"))) == 2 * SERVICE, 180)
        wait_for(lambda: any("period" in line for line in stream.health()), 30)
        code, said = stream.stop()
    assert (code, said) == (0, "")
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
    """4 minutes: the day ends in two."""
    town = town_of(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    def live():
        return town.place.ledger.live("minutes", town.spec.spec_id, period(town))

    with Running(town, *engine(flink, failing_pool), source=source(town)) as stream:
        seen = wait_for(live, 120)
        (tmp_path / "armed").write_text(f"{place} kill")
        wait_for(lambda: stage(town) or stream.has_ended(), 240)
        (job,) = [line["job"] for line in stream.health() if "job" in line]
        assert has_restarted(flink, job)
        assert live()[: len(seen)] == seen
    check(town)
