"""The Kafka source on a real Flink: every slot's total is exact, also when a stage fails on the way."""

import os
import time

import pytest

from hatstream_lab.servers.flink import WorkerPool
from tests.stream import cluster as clusters
from tests.stream import feed
from tests.stream.cluster import ONLY_HERE, checkpoint_bytes, has_restarted, listeners, offspring, savepoint, wait_for
from tests.stream.conftest import CONFIGURATION, QUICK, ROOT, fetched
from tests.stream.feed import ARM, DAYS, HOUR_MS, LAYOUT, START_MS, Fleet, Tiny, database, position, running, totals
from tests.stream.minutes import Forgetful, Town, submitted
from transforms.failpoints import FILE_VARIABLE
from transforms.sources.unbounded import ReadGrowing
from transforms.time.watermark import Watermark


@pytest.fixture
def standalone(tmp_path):
    """The job server of a cluster of its own: a cluster inside of a job server passes over savepoints."""
    fetched("flink")
    with (
        clusters.Standalone(tmp_path / "cluster", CONFIGURATION, QUICK) as cluster,
        clusters.JobServer(tmp_path / "job-server", rest=cluster.rest) as running,
    ):
        yield running


@pytest.mark.slow
def test_totals_are_exact_after_a_stage_failed_and_poison_and_absurd_times_change_nothing(kafka, flink, pool, tmp_path):
    """30 s."""
    fleet = Fleet(kafka, "exact")
    fleet.drive(range(8))
    fleet.send(b"\xff is no UTF-8", START_MS + 8 * HOUR_MS)
    fleet.send(b"{}", feed.YEAR_9999_MS)
    fleet.drive(range(8, 24))
    with running(Tiny(fleet.source(100), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) >= 3, 60)
        (tmp_path / ARM).touch()
        wait_for(lambda: len(totals(tmp_path)) == 24, 60)
        assert has_restarted(flink, job)
    assert totals(tmp_path) == fleet.sent
    assert not (tmp_path / ARM).exists()
    with database(tmp_path) as db:
        reasons = {(stage, reason) for stage, reason, _ in db.execute("select * from refused")}
    assert reasons == {("read", "not-utf8"), ("parse", "missing-vehicle")}


@pytest.mark.slow
def test_an_event_whose_slot_its_partition_has_closed_is_a_late_dead_letter(kafka, flink, pool, tmp_path):
    """20 s."""
    fleet = Fleet(kafka, "late")
    fleet.drive(range(4))
    with running(Tiny(fleet.source(), tmp_path, DAYS), flink, pool, parallelism=2):
        wait_for(lambda: len(totals(tmp_path)) == 4, 60)  # idle: the wall clock closed all slots of 2023
        fleet.drive(range(3, 5), events=90)

        def late():
            with database(tmp_path) as db:
                return db.execute("select sum(rows) from refused where reason = 'late'").fetchone()[0]

        wait_for(lambda: late() == 180, 30)
    assert totals(tmp_path) == totals(tmp_path, "attempts")  # one pane each
    assert set(totals(tmp_path).values()) == {300}


@pytest.mark.slow
def test_a_job_that_goes_on_from_a_savepoint_counts_every_message_once(kafka, standalone, pool, tmp_path):
    """60 s."""
    flink = standalone
    fleet = Fleet(kafka, "savepoint")
    fleet.drive(range(24))
    with running(Tiny(fleet.source(50), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) >= 5, 60)
        place = savepoint(flink, job, cancel=True)
    before = len(totals(tmp_path))
    assert before < 24
    with running(Tiny(fleet.source(50), tmp_path, DAYS), flink, pool, savepoint=place) as job:
        wait_for(lambda: len(totals(tmp_path)) == 24, 60)
        assert clusters.has_gone_on(flink, job)
    assert totals(tmp_path) == fleet.sent


@pytest.mark.slow
def test_a_folder_that_grows_is_read_once_also_after_a_stage_failed(flink, pool, tmp_path):
    """30 s."""
    folder, sent = tmp_path / "in", {}
    folder.mkdir()

    def add(hour):
        times = [START_MS + hour * HOUR_MS + i * 1_000 for i in range(100)]
        part = folder / f".{hour:02d}.jsonl"
        part.write_bytes(b"\n".join(position(at_ms, i) for i, at_ms in enumerate(times)))
        os.utime(part, (times[-1] // 1_000, times[-1] // 1_000))
        part.rename(folder / f"{hour:02d}.jsonl")
        sent[times[0] // 1_000] = 100

    for hour in range(18):
        add(hour)
    with running(Tiny(ReadGrowing(folder, Watermark(0), LAYOUT), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) >= 1, 60)
        (tmp_path / ARM).touch()
        wait_for(lambda: len(totals(tmp_path)) == 18, 60)
        assert (tmp_path / ARM).exists() or has_restarted(flink, job)
    assert totals(tmp_path) == sent


@pytest.mark.slow
def test_the_checkpoints_of_a_source_that_polls_on_stay_level(kafka, flink, pool, tmp_path):
    """30 s: about 15 polls of each partition, which would add 5 kB each."""
    fleet = Fleet(kafka, "level")
    fleet.drive(range(2))
    with running(Tiny(fleet.source(), tmp_path, DAYS), flink, pool) as job:
        wait_for(lambda: len(totals(tmp_path)) == 2, 60)
        time.sleep(3)
        before = wait_for(lambda: checkpoint_bytes(flink, job), 10)
        time.sleep(15)
        assert checkpoint_bytes(flink, job) < before + 20_000


@pytest.mark.slow
def test_every_server_and_every_port_of_a_running_job_listens_on_the_loopback_address(kafka, flink, pool, tmp_path):
    """15 s."""
    fleet = Fleet(kafka, "loopback")
    fleet.drive(range(2))
    with running(Tiny(fleet.source(), tmp_path, DAYS), flink, pool):
        wait_for(lambda: len(totals(tmp_path)) == 2, 60)
        addresses = listeners(offspring(os.getpid()))
    assert len(addresses) >= 10
    assert {address for address, _ in addresses} <= ONLY_HERE


def test_a_fault_after_a_commit_shows_two_values_where_the_first_writer_does_not_win(
    tmp_path, kafka, flink, monkeypatch
):
    """30 s: the worker fails once, behind the first commit, and its slot is drawn again."""
    armed, attempts = tmp_path / "armed", tmp_path / "attempts.sqlite"
    monkeypatch.setenv(FILE_VARIABLE, str(armed))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # workers find the double of the ledger in `tests`
    town = Town(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}", kafka)
    armed.write_text("after-commit raise")
    with WorkerPool(tmp_path / "pool") as pool, submitted(town, flink, pool, forgetful=attempts):
        wait_for(lambda: not armed.exists(), 90)
        wait_for(lambda: max(map(len, Forgetful(attempts).values().values())) == 2, 60)
