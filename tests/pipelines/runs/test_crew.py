"""A crew: however many processes read and count, the result is the same, and none of them is left behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.runs import release as scheduled
from pipelines.runs.crew import counting, crew
from pipelines.runs.crew.crew import Workers, crew_of, pieces_of, workers_for
from pipelines.runs.crew.spool import Shelf
from pipelines.runs.crew.tasks import Road
from tests import city
from tests.pipelines.commands.releases import files_in
from transforms import fork_server
from transforms.failpoints import VARIABLE
from transforms.layouts import layout
from transforms.places.ground import Hexagons

PATIENCE_S = 20
NO_ROAD = Road(None, None, Hexagons(7, None), None)


def children():
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in pids if "pipelines.runs.crew.worker" in Path(f"/proc/{pid}/cmdline").read_text()]


def test_workers_give_the_digests_and_files_that_one_process_gives(town, hatstream, monkeypatch):
    assert hatstream(*city.release(town))[0] == 0
    first = files_in(town / "out")
    monkeypatch.setattr(counting, "PART_ROWS", 5)  # so that slots are divided too
    code, out, err = hatstream(*city.release(town, "--workers", 2))
    assert (code, err) == (0, ""), "another digest would be exit code 5"
    assert "released before from other input" not in out
    assert files_in(town / "out") == first
    assert children() == []


def test_a_killed_worker_is_told_and_nothing_is_recorded(town, hatstream, monkeypatch):
    monkeypatch.setenv(VARIABLE, "tally:2")
    code, _, err = hatstream(*city.release(town, "--workers", 2))
    assert code == 4
    assert "a worker process ended in the middle of its work (signal 9); nothing was recorded" in err
    assert children() == []
    monkeypatch.delenv(VARIABLE)
    assert hatstream("ledger", "show", "--ledger", town / "ledger.sqlite")[1].count("2022-01-0") == 0
    assert hatstream(*city.release(town))[0] == 0


def test_a_release_begins_one_fork_server_before_it_opens_the_ledger(town, hatstream, monkeypatch):
    events = []
    begin, admit = fork_server.ForkServer.__init__, scheduled.admitted
    monkeypatch.setattr(fork_server.ForkServer, "__init__", lambda *asked: events.append("begun") or begin(*asked))
    monkeypatch.setattr(scheduled, "admitted", lambda *asked: events.append("admitted") or admit(*asked))
    assert hatstream(*city.release(town, "--workers", 2))[0] == 0
    assert events == ["begun", "admitted"]
    assert hatstream(*city.release(town, "--workers", 1))[0] == 0
    assert events == ["begun", "admitted", "admitted"], "lines of text are decoded here"


def test_workers_that_rest_end_by_themselves(tmp_path):
    with (tmp_path / "a").open("w+b") as a, (tmp_path / "b").open("w+b") as b:
        handles = [a.fileno(), b.fileno()]
        with Workers(NO_ROAD, Shelf(handles, 0), handles) as workers:
            workers.rest()
            assert workers._all[0]._process.answers.read() == b""
    assert children() == []


@pytest.mark.slow  # starts processes
def test_what_a_worker_refuses_is_told_as_if_there_were_none(town, hatstream):
    (town / "feed.csv").write_text("bus,ts,lat,lon\n")
    alone, together = (hatstream(*city.release(town, "--workers", number)) for number in (1, 2))
    assert alone[0] == together[0] == 4
    assert alone[2] == together[2]


def test_workers_end_with_the_process_that_started_them_even_if_it_is_killed():
    program = (
        "from pipelines.runs.crew.crew import Workers\n"
        "from pipelines.runs.crew.spool import Shelf\n"
        "from pipelines.runs.crew.tasks import Road\n"
        "import tempfile, time\n"
        "files = [tempfile.TemporaryFile() for _ in range(3)]\n"
        "handles = [file.fileno() for file in files]\n"
        "workers = Workers(Road(None, None, None, None), Shelf(handles, 0), handles)\n"
        "print(*(worker._process.pid for worker in workers._all), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        pids = parent.stdout.readline().split()
        assert len(pids) == 2
        parent.kill()
    until = time.monotonic() + PATIENCE_S
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_running, pids))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_that_talks_nonsense_is_an_ended_one(tmp_path):
    class Mute:
        def perform(self, *_):
            return "no answer that is known"

    with (tmp_path / "a").open("w+b") as a, (tmp_path / "b").open("w+b") as b:
        handles = [a.fileno(), b.fileno()]
        with Workers(NO_ROAD, Shelf(handles, 0), handles) as workers, pytest.raises(Exception, match=r".") as caught:
            list(workers.perform([Mute()]))  # which the worker cannot even find
    assert "Mute" in str(caught.value) or "worker process ended" in str(caught.value)


def test_a_small_input_starts_no_process_and_a_large_one_as_many_as_there_are_cores(tmp_path, monkeypatch):
    feed = tmp_path / "feed.csv"
    feed.write_text("bus,ts,lat,lon,v\n")
    monkeypatch.setattr(crew, "cores", lambda: 2)
    with crew_of(NO_ROAD, [str(feed)], None) as alone:
        assert type(alone).__name__ == "Alone"
    monkeypatch.setattr(crew, "WORKER_BYTES", 1)
    with crew_of(NO_ROAD, [str(feed)], None) as together:
        assert len(together._all) == 2
    assert children() == []


def test_no_worker_is_started_for_less_input_than_its_start_is_worth(tmp_path, monkeypatch):
    feed = tmp_path / "feed.csv"
    feed.write_text("x" * 100)
    monkeypatch.setattr(crew, "cores", lambda: 4)
    monkeypatch.setattr(crew, "WORKER_BYTES", 40)
    gone = str(tmp_path / "gone")
    assert [workers_for(paths) for paths in ([str(feed)] * 3, [str(feed), gone], [gone])] == [4, 2, 1]
    assert workers_for(["s3://bucket/feed.csv"]) == 4, "the size of a remote input is not known"


def test_cores_are_those_that_a_container_may_use(tmp_path, monkeypatch):
    monkeypatch.setattr(crew, "_QUOTA", tmp_path / "cpu.max")
    free = crew.cores()
    for quota, least in (("100000 100000", 1), ("50000 100000", 1), ("max 100000", free), ("nonsense", free)):
        (tmp_path / "cpu.max").write_text(quota)
        assert crew.cores() == least


def test_a_large_parquet_file_is_read_in_shares_and_a_text_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(crew, "SHARE_BYTES", 10)
    columns = {name: name for name in ("vehicle", "time", "lat", "lon", "speed")}
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(b"x" * 35)
    small.write_bytes(b"x" * 5)
    paths = [str(small), str(large), str(tmp_path / "gone")]
    pieces = pieces_of(layout("parquet", columns, None, None), paths)
    assert [(Path(piece.path).name, tuple(piece.share)) for piece in pieces] == [
        *[("large", (number, 3)) for number in range(3)],
        ("small", (0, 1)),
        ("gone", (0, 1)),
    ]
    assert [tuple(piece.share) for piece in pieces_of(layout("csv", columns, None, None), paths)] == [(0, 1)] * 3
