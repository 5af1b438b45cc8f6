"""A file takes the place of a file, and of nothing else."""

import errno
import os
import stat
from pathlib import Path

import pytest

from tests.kit.results import CELLS, row, write
from transforms.atomic_files import locked, replacing


def test_a_new_file_takes_the_place_of_a_file_or_a_link(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link", "none"):
        with replacing(tmp_path / name) as file:
            file.write(name.encode())
    assert [(tmp_path / name).read_text() for name in ("file", "link", "none")] == ["file", "link", "none"]


def test_what_is_no_file_is_left_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="it is not a regular file"), replacing(tmp_path / name):
            pass
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_full_disk_is_told_with_the_file_that_it_has_no_room_for(tmp_path, hatstream, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write(tmp_path / "hats.parquet", [row(CELLS[0], 6, 12.0)])
    monkeypatch.setattr(os, "fsync", full)
    told = hatstream("map", "--input", tmp_path / "*.parquet", "--output", tmp_path / "map.html")
    assert told == (4, "", f"hatstream: No space left on device: {tmp_path / 'map.html'}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["hats.parquet"]


def test_a_file_is_on_disk_before_it_has_its_name_and_its_name_before_the_folder_is_left(tmp_path, monkeypatch):
    synced = []

    def fsync(handle):
        synced.append((Path(os.readlink(f"/proc/self/fd/{handle}")).name, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with locked(tmp_path), replacing(tmp_path / "file") as file:
        file.write(b"new")
    assert synced == [(".file.part", False), (tmp_path.name, True)]
