"""An input in pieces, of which several are read at once, in this process and each decoded in one of its own."""

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.runs.beam import reading
from pipelines.runs.beam.bounded import Spool
from pipelines.runs.beam.reading import Piece, pieces_of, read_pieces
from tests import city
from transforms.errors import StepError
from transforms.layouts import layout
from transforms.layouts.base import FIELDS, UnreadableFile, raw_batch

PIECES = [Piece((b"%d" % number,)) for number in range(9)]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(reading.os, "sched_getaffinity", lambda _: {0, 1})


def batch(rows=1):
    return raw_batch({name: pa.nulls(rows) for name in FIELDS}, {})


def test_two_pieces_are_read_at_the_same_time():
    both = threading.Barrier(2, timeout=20)

    def read(_piece):
        both.wait()
        yield batch()

    assert len(list(read_pieces(PIECES[:8], read))) == 8


def test_a_piece_that_cannot_be_read_is_told_and_the_others_are_read():
    def read(piece):
        yield batch()
        if piece.paths == (b"3",):
            raise UnreadableFile("3", "damaged")
        if piece.paths == (b"5",):
            raise StepError("5: no such file")

    results = list(read_pieces(PIECES, read))
    assert sorted(str(error) for error in results if isinstance(error, Exception)) == ["3: damaged", "5: no such file"]
    assert len(results) == 11


def test_what_is_no_error_of_a_piece_is_raised_and_nobody_reads_on():
    def read(piece):
        if piece.paths == (b"1",):
            raise MemoryError
        yield batch()

    before = threading.active_count()
    with pytest.raises(MemoryError):
        list(read_pieces(PIECES, read))
    check_that_threads_end(before)


def test_who_reads_no_further_leaves_no_thread_behind():
    before = threading.active_count()
    batches = read_pieces(PIECES, lambda _: (batch() for _ in range(1_000)))
    next(batches)
    batches.close()
    check_that_threads_end(before)


def check_that_threads_end(before):
    for thread in threading.enumerate():
        if thread.daemon and "work" in thread.name:
            thread.join(20)
    assert threading.active_count() <= before


def test_a_large_parquet_file_is_read_in_shares_and_a_text_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "SHARE_BYTES", 10)
    monkeypatch.setattr(reading, "SMALL_BYTES", 6)
    columns = {name: name for name in ("vehicle", "time", "lat", "lon", "speed")}
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(b"x" * 35)
    small.write_bytes(b"x" * 5)
    paths = [str(small), str(large), str(tmp_path / "gone")]
    pieces = pieces_of(layout("parquet", columns, None, None), paths)
    assert [(Path(piece.paths[0].decode()).name, (piece.number, piece.shares)) for piece in pieces] == [
        *[("large", (number, 3)) for number in range(3)],
        ("small", (0, 1)),
        ("gone", (0, 1)),
    ]
    assert [(piece.number, piece.shares) for piece in pieces_of(layout("csv", columns, None, None), paths)] == [
        (0, 1)
    ] * 3


def test_progress_is_reported_phase_by_phase(town, hatstream, monkeypatch):
    reports = []
    monkeypatch.setattr("pipelines.commands.release.progress_bars", lambda **_: Reports(reports))
    assert hatstream(*city.release(town))[0] == 0
    phases = dict.fromkeys(phase for phase, *_ in reports)
    assert list(phases) == [
        "observations read", "slots counted", "slots released", "periods recorded and published",
    ]  # fmt: skip
    last = {phase: (number, whole) for phase, number, whole in reports}
    rows = len(city.rows())
    assert last["observations read"] == (rows, rows)
    assert [number == whole for number, whole in last.values()] == [True] * 4


class Reports:
    def __init__(self, reports):
        self._reports = reports

    def __enter__(self):
        return lambda *report: self._reports.append(report)

    def __exit__(self, *_):
        pass


@pytest.mark.slow
def test_a_release_here_imports_no_connector_of_beam_and_who_needs_one_can(town):
    program = (
        "import sys; from pipelines.cli import main; main(sys.argv[1:])\n"
        "print(*[name for name in ('apache_beam.io.gcp.bigquery', 'pymongo') if name in sys.modules])\n"
        "from transforms.layouts.open_file import _systems; print(_systems().get_scheme('s3://a/b'))\n"
    )
    line = [sys.executable, "-c", program, *map(str, city.release(town, "--json"))]
    ended = subprocess.run(line, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-2:] == ["", "s3"]


# --- what is grouped: what is appended comes back, and nothing of it is left on disk ---


def test_what_is_put_by_many_threads_comes_back_whole():
    texts = [[bytes([k, i]) * (i + 1) for i in range(100)] for k in range(4)]
    with Spool() as spool, ThreadPoolExecutor(4) as threads:
        put = list(threads.map(lambda of_thread: list(map(spool.put, of_thread)), texts))
        assert [list(map(spool.get, references)) for references in put] == texts


def test_its_file_has_no_name_that_another_process_could_open(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Spool() as spool:
        spool.put(b"secret")
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("room", [0, 3])
def test_a_full_disk_is_told_and_nothing_half_written_is_taken_for_whole(tmp_path, monkeypatch, room):
    def pwrite(_handle, data, _at):
        if room:
            return len(data[:room])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.pwrite", pwrite)
    with Spool() as spool, pytest.raises(StepError, match="space") as caught:
        spool.put(b"secret")
    assert str(tmp_path) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_it_cannot_leave_its_process():
    with Spool() as spool:
        carried = pickle.dumps(spool)
    del spool
    with pytest.raises(RuntimeError, match="process"):
        pickle.loads(carried)
