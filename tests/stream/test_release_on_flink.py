"""Releases of closed ranges on Flink, as the job of this machine has them: by the command, and by the library."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import hatstream as library
from benchmarks.cluster import SETTINGS, Day, digests, kill_one, opened, release
from hatstream_lab.servers.flink import JobServer, WorkerPool
from tests import city
from tests.hatstream.pipelines import are_delays, in_order, reports, ten_lines
from tests.pipelines.commands.releases import files_in, rows_in, said_again
from tests.stream.cluster import Standalone
from tests.stream.conftest import CONFIGURATION, fetched
from transforms.failpoints import FILE_VARIABLE

EVENTS = 16_000_000


def on(flink, pool, parallelism=1):
    addresses = ["--job-server", flink.address, "--worker-pool", pool.address, "--rest", flink.rest]
    return ["--runner", "flink", *addresses, "--parallelism", str(parallelism)]


def test_a_day_is_released_as_here_and_an_input_that_cannot_be_read_seals_nothing(flink, pool, tmp_path, hatstream):
    """Two files of several row groups; the ledger compares digests and plans of both runs."""
    city.write_parquet(tmp_path)
    assert hatstream(*city.init(tmp_path))[0] == 0
    (tmp_path / "feed-c.parquet").write_bytes(b"PAR1 no more")
    arguments = city.release(tmp_path, feed="feed-*.parquet")

    assert "feed-c.parquet: not a Parquet file" in city.refused(hatstream, *arguments, *on(flink, pool))
    verified = hatstream("ledger", "verify", "--ledger", tmp_path / "ledger.sqlite")[1]
    assert files_in(tmp_path / "out") == {}
    assert "1 entries" in verified or "1 entry" in verified

    (tmp_path / "feed-c.parquet").unlink()
    first, files = city.told(hatstream, *arguments, *on(flink, pool)), files_in(tmp_path / "out")
    again = city.told(hatstream, *arguments)
    assert (said_again(again), files_in(tmp_path / "out")) == (said_again(first), files)
    assert (first["slots_new"], again["slots_new"], first["rows"], first["duplicates"]) == (8, 0, 127, 1)


def test_what_was_recorded_before_a_worker_was_killed_is_what_is_published(flink, tmp_path, hatstream, monkeypatch):
    """Flink does the stage again, and before it as much as it likes; the ledger returns what it had."""
    armed = tmp_path / "armed"
    monkeypatch.setenv(FILE_VARIABLE, str(armed))
    city.opened(tmp_path, hatstream)
    armed.write_text("after-commit kill")
    with WorkerPool(tmp_path / "pool") as failing:
        first = city.told(hatstream, *city.release(tmp_path), *on(flink, failing))
    assert not armed.exists()
    files = files_in(tmp_path / "out")
    assert city.account(tmp_path).ledger.audit("small").changed == 0
    again = city.told(hatstream, *city.release(tmp_path))
    assert (said_again(again), files_in(tmp_path / "out")) == (said_again(first), files)
    assert (first["slots_new"], again["slots_new"]) == (8, 0)
    assert [period["most_spent_by_a_vehicle"] for period in first["periods"]] == [9, 9]


@pytest.fixture
def cluster(tmp_path):
    """Two task managers of one slot each, so that a job of parallelism 2 needs both."""
    fetched("flink")
    with Standalone(tmp_path / "cluster", CONFIGURATION, SETTINGS, task_managers=2) as running:
        yield running


@pytest.mark.slow
def test_sixteen_million_events_with_a_task_manager_killed_in_the_middle(tmp_path, cluster, pool):
    """3 min. The digests are those of this machine's job on a ledger of its own, with the same key."""
    day = Day.made(tmp_path, 0, EVENTS, cells=40)
    release(opened(day.here, None), day.feed)
    there = opened(tmp_path / "there", day.here / "ledger.key")
    with JobServer(tmp_path / "job-server", rest=cluster.rest) as flink, ThreadPoolExecutor() as beside:
        killed = beside.submit(kill_one, cluster, EVENTS)
        first = release(there, day.feed, *on(flink, pool, 2))
    killed.result()
    assert digests(there) == digests(day.here)
    assert said_again(first) == said_again(release(there, day.feed))
    assert first["rows"] == EVENTS


def options_of(flink, pool):
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={flink.address}",
        "--environment_type=EXTERNAL",
        f"--environment_config={pool.address}",
        "--parallelism=1",
        "--sdk_worker_parallelism=1",
    ]


def test_the_ten_lines_of_the_readme_run_on_flink(flink, pool, tmp_path):
    (tmp_path / "first.py").write_text(ten_lines().replace('"delays"', repr(str(tmp_path / "delays"))))
    subprocess.run([sys.executable, "first.py", *options_of(flink, pool)], cwd=tmp_path, check=True)
    assert are_delays(tmp_path)


def test_a_bounded_pipeline_on_flink_gives_the_rows_of_the_command(flink, pool, tmp_path, hatstream):
    """Flink runs it stage by stage, with a new worker for each: hatstream's pool has them ready at once."""
    city.opened(tmp_path, hatstream)
    with beam.Pipeline(options=PipelineOptions(options_of(flink, pool))) as p:
        made = library.Release(tmp_path / "spec.toml", *2 * city.DAYS[:1], ledger=str(tmp_path / "ledger.sqlite"))
        rows = p | beam.Create(reports(city.rows(city.DAYS[:1]))) | made | "as text" >> beam.Map(json.dumps)
        _ = rows | "write" >> beam.io.WriteToText(str(tmp_path / "rows"), ".jsonl", shard_name_template="")
    released = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert city.told(hatstream, *city.release(tmp_path, end=city.DAYS[0]))["slots_new"] == 0
    assert in_order(released) == in_order(rows_in(tmp_path / "out", "*.jsonl"))
    assert len(released) == 9
