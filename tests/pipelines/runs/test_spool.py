"""The spool: what is appended comes back, and nothing of it is left on disk."""

import os
import pickle
import threading

import pytest

from pipelines.runs.spool import Spool
from transforms.errors import StepError


def test_what_is_appended_by_many_threads_comes_back_whole():
    with Spool() as spool:
        threads = [
            threading.Thread(target=lambda k=k: [spool.append(bytes([k, i]) * (i + 1)) for i in range(100)])
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = sorted(bytes([k, i]) * (i + 1) for k in range(4) for i in range(100))
        assert sorted(spool.read_appended()) == written


def test_its_file_has_no_name_that_another_process_could_open(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Spool() as spool:
        spool.append(b"secret")
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
        spool.append(b"secret")
    assert str(tmp_path) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_it_cannot_leave_its_process():
    with Spool() as spool:
        carried = pickle.dumps(spool)
    del spool
    with pytest.raises(RuntimeError, match="process"):
        pickle.loads(carried)
