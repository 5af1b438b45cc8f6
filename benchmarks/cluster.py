"""Guards what a bounded release on Flink costs, and that a task manager killed in the middle changes no byte.

    .venv/bin/python -m benchmarks.cluster              # a quarter of an hour where two cores do nothing else
    .venv/bin/python -m benchmarks.cluster --millions 1,1,4     # what an event costs once Java has compiled its part

Jobs of several sizes run one after the other on one cluster; a task manager is killed in one more of the last size.
Flink and the worker pool are processes of this machine: two task managers of one slot each, parallelism 2. CPU seconds
are of all of them together. It ends with an error if any digest or any row of output differs.
"""

import io
import json
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.processes import cpu_s
from benchmarks.throughput import Case, generate, numbers, spec_of
from hatstream_lab.servers.flink import SHORT_LIVED, JobServer, WorkerPool
from pipelines.account import location
from pipelines.cli import main
from pipelines.specification import load
from tests.stream.cluster import Standalone, slots_in_use, wait_for
from tests.stream.conftest import CONFIGURATION, QUICK

DAY = "2026-05-13"
SETTINGS = QUICK | {"taskmanager.numberOfTaskSlots": "1", "taskmanager.memory.managed.size": "256m"}


class Day(NamedTuple):
    """A made-up day, and where it is released here: with the key that is taken for it everywhere."""

    feed: Path
    here: Path
    events: int

    @classmethod
    def made(cls, top: Path, number: int, events: int, cells: int) -> "Day":
        feed = top / f"feed-{number}.parquet"
        generate(Case("parquet", events, cells, 1, False, False, 2_000), feed)
        return cls(feed, top / f"here-{number}", events)


def release(folder: Path, feed: Path, *more: str) -> dict[str, object]:
    """The summary. Ledger and output are in the folder."""
    place = ["--spec", str(folder / "spec.toml"), "--ledger", str(folder / "ledger.sqlite")]
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(["release", *place, "--input", str(feed), "--from", DAY, "--to", DAY, "--output",
                     str(folder / "out"), "--json", *more])  # fmt: skip
    assert code == 0
    return json.loads(out.getvalue().splitlines()[-1])


def opened(folder: Path, key: Path | None) -> Path:
    """A folder with a ledger of its own, and with the key where there is one."""
    folder.mkdir()
    ledger = str(folder / "ledger.sqlite")
    (folder / "spec.toml").write_text(spec_of("parquet"))
    if key is not None:
        shutil.copy(key, folder / "ledger.key")
        location.find(ledger, None).witness.write({})
    with redirect_stdout(io.StringIO()):
        assert main(["init", "--spec", str(folder / "spec.toml"), "--ledger", ledger]) == 0
    return folder


def digests(folder: Path) -> dict[tuple[int, int], str]:
    units = location.find(str(folder / "ledger.sqlite"), None).ledger.released(load(folder / "spec.toml").spec_id, DAY)
    return {unit.key: unit.digest for unit in units}


def kill_one(cluster: Standalone, events: int) -> None:
    """Once a quarter of the newest job's events are read; another one takes its place."""
    earlier = {job.jid for job in cluster.jobs()}
    (new,) = wait_for(lambda: [job.jid for job in cluster.jobs() if job.jid not in earlier], 600)
    wait_for(lambda: cluster.counters(new).get("rows", 0) > events // 4 or cluster.has_ended(new), 600)
    if cluster.has_ended(new):
        raise click.ClickException("the last job ended before a task manager was killed: it needs more events")
    cluster.kill_task_manager(max(slots_in_use(cluster)))
    cluster.start_task_manager()


@click.command()
@click.option("--millions", default="16", callback=numbers, help="Millions of events.")
@click.option("--cells", default=40)
def benchmark(millions, cells):
    """Release days here and on a cluster, the last of them once more with one of two task managers killed."""
    table = Table(title="hatstream release, events of Parquet, one day")
    for title in ("events", "where", "wall s", "CPU s", "digests"):
        table.add_column(title, justify="left" if title == "where" else "right")
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def measured(where: str, day: Day, folder: Path, *more: str) -> None:
            opened(folder, day.here / "ledger.key" if folder != day.here else None)
            before, started = cpu_s(os.getpid()), time.perf_counter()
            summary = release(folder, day.feed, *more)
            wall, cpu = time.perf_counter() - started, cpu_s(os.getpid()) - before
            assert summary["rows"] == day.events
            assert digests(folder) == digests(day.here)
            row = f"{day.events:,}", where, f"{wall:.0f}", f"{cpu:.1f}", "equal"
            table.add_row(*row)
            click.echo(", ".join(row), err=True)

        days = [Day.made(top, number, million * 1_000_000, cells) for number, million in enumerate(millions)]
        for day in days:
            measured("here", day, day.here)
        cluster = Standalone(top / "cluster", CONFIGURATION, SETTINGS, task_managers=2, java=[SHORT_LIVED])
        stack.enter_context(cluster)
        flink = stack.enter_context(JobServer(top / "job-server", rest=cluster.rest))
        pool = stack.enter_context(WorkerPool(top / "pool"))
        on = ["--runner", "flink", "--job-server", flink.address, "--worker-pool", pool.address]
        on += ["--rest", cluster.rest, "--parallelism", "2"]
        for number, day in enumerate(days):
            measured("on Flink", day, top / f"flink-{number}", *on)
        with ThreadPoolExecutor() as beside:
            killed = beside.submit(kill_one, cluster, day.events)
            measured("on Flink, one of two killed", day, top / "killed", *on)
        killed.result()
    Console(width=120).print(table)


if __name__ == "__main__":
    benchmark()
