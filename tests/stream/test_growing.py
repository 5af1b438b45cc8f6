"""A folder that grows: every file once, whole, with a watermark from public facts."""

import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.stream.by_hand import STEPS, ByHand, Counters
from tests.transforms.inputs import mapped
from transforms import counters
from transforms.sources import unbounded as growing
from transforms.sources.unbounded import Names, NamesRead, NamesTracker, ReadGrowing, _WatchFolder
from transforms.time.watermark import Watermark

LAG_S = 5
OLD_S = 1_700_000_000


def read_file(path, layout):
    return ReadGrowing(Path(), Watermark(0), mapped(layout)).read(path)


class Folder:
    def __init__(self, path):
        self.path = path
        self.reader = ByHand(_WatchFolder(Watermark(LAG_S)), Names(), str(path))

    def add(self, name, at_s=OLD_S, payload=b"{}\n"):
        part = self.path / f".{name}"
        part.write_bytes(payload)
        os.utime(part, (at_s, at_s))
        part.rename(self.path / name)

    def step(self):
        """Names that were handed over."""
        return [os.path.basename(os.fsdecode(element.value)) for element in self.reader.step()]

    @property
    def watermark_s(self):
        return self.reader.watermark.micros / 1e6


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_every_file_is_handed_over_once_oldest_first(folder):
    folder.add("b", OLD_S + 1)
    folder.add("a", OLD_S + 2)
    assert folder.step() == ["b", "a"]
    folder.add("c", OLD_S - 100)  # older than what was read: still new
    assert folder.step() == ["c"]
    assert folder.step() == []


def test_unfinished_files_and_folders_are_left_alone(folder):
    for name in (".hidden", "x.part", "y.tmp"):
        (folder.path / name).write_bytes(b"half")
    (folder.path / "sub").mkdir()
    assert folder.step() == []


def test_a_link_that_leads_nowhere_keeps_no_other_file_from_being_read(folder):
    (folder.path / "loop").symlink_to("loop")
    (folder.path / "broken").symlink_to("absent")
    folder.add("a")
    assert folder.step() == ["a"]


def test_a_restored_checkpoint_hands_over_the_same_files_again(folder):
    folder.add("a")
    kept = folder.reader.checkpoint()
    assert folder.step() == ["a"]
    folder.reader.restore(kept)
    assert folder.step() == ["a"]
    assert folder.step() == []


def test_many_files_come_a_few_at_a_time_without_a_pause(folder, monkeypatch):
    monkeypatch.setattr(growing, "POLL_FILES", 2)
    for i in range(5):
        folder.add(f"f{i}", OLD_S + i)
    assert folder.step() == ["f0", "f1"]
    assert folder.reader.delay_s <= 0
    assert folder.watermark_s == OLD_S + 1 - LAG_S
    assert folder.step() + folder.step() == ["f2", "f3", "f4"]


def test_the_watermark_is_the_newest_modification_minus_the_lag_and_the_wall_clock_when_nothing_is_new(folder):
    folder.add("a", OLD_S)
    folder.step()
    assert folder.watermark_s == OLD_S - LAG_S
    folder.step()
    assert time.time() - 2 < folder.watermark_s + LAG_S <= time.time()


def test_an_absurd_modification_time_moves_nothing(folder):
    folder.add("a", OLD_S)
    folder.add("far", 253_402_300_799)
    assert folder.step() == ["a", "far"]
    assert folder.watermark_s == OLD_S - LAG_S


def test_under_secret_counts_a_files_time_is_the_kernels_whatever_its_producer_set(tmp_path):
    """A file that was held up keeps its time of modification, by which others' files would decide whether it counts."""
    by_own = Folder(tmp_path / "own")
    by_own.path.mkdir()
    by_own.reader = ByHand(_WatchFolder(Watermark(LAG_S, by_own_times=True)), Names(), str(by_own.path))
    before_s = time.time() - 1
    by_own.add("a", OLD_S)
    (tmp_path / "elsewhere").write_bytes(b"{}\n")
    (by_own.path / "link").symlink_to(tmp_path / "elsewhere")
    with os.scandir(by_own.path) as entries:
        there = {entry.name: entry for entry in entries}
    times_ms = {name: growing._at_ms(entry, by_kernel=True) for name, entry in there.items()}
    assert set(times_ms) == {"a", "link"}
    assert all(before_s < at_ms / 1_000 <= time.time() for at_ms in times_ms.values())
    assert growing._at_ms(there["a"], by_kernel=False) == 1_000 * OLD_S
    (first, _) = by_own.reader.step()
    assert before_s - LAG_S - 10 < first.timestamp.micros / 1e6


@pytest.mark.parametrize("of_link_and_file", [(5, 7), (7, 5)])
def test_a_link_came_when_it_was_made_or_its_file_was_whatever_was_later(of_link_and_file, tmp_path):
    (tmp_path / "a").touch()
    times_ns = [at_ms * 10**6 for at_ms in of_link_and_file]
    entry = SimpleNamespace(
        name="a",
        path=tmp_path / "a",
        stat=lambda follow_symlinks=True: SimpleNamespace(st_ctime_ns=times_ns[follow_symlinks]),
    )
    assert growing._at_ms(entry, by_kernel=True) == 7


def test_a_folder_that_is_away_is_waited_for_said_once_and_is_not_silence(tmp_path, caplog):
    path = tmp_path / "mount"
    path.mkdir()
    folder = Folder(path)
    folder.add("a")
    folder.step()
    promised = folder.reader.watermark
    path.rename(tmp_path / "gone")
    with caplog.at_level(logging.WARNING, "hatstream"):
        assert folder.step() + folder.step() == []
    assert len(caplog.records) == 1
    assert folder.reader.watermark == promised
    (tmp_path / "gone").rename(path)
    folder.add("b")
    assert folder.step() == ["b"]


def test_a_split_leaves_nothing_to_the_part_that_is_done():
    tracker = NamesTracker(NamesRead(frozenset({"a"})))
    assert tracker.try_split(0.5) is None
    done, rest = tracker.try_split(0)
    assert (done.closed, rest) == (True, NamesRead(frozenset({"a"})))
    assert not tracker.try_claim(frozenset({"b"}))
    tracker.check_done()


def test_a_file_that_cannot_be_decoded_or_has_gone_is_one_refused_row(tmp_path, monkeypatch):
    counts = Counters(monkeypatch, *STEPS).counts
    broken = tmp_path / "x.avro"
    broken.write_bytes(b"no Avro")
    (refused,) = read_file(os.fsencode(broken), "avro")
    assert (refused.value.reason, refused.value.rows) == (counters.UNREADABLE_FILE, 1)
    (refused,) = read_file(os.fsencode(tmp_path / "absent"), "avro")
    assert refused.value.reason == counters.VANISHED_FILE
    assert counts["rows"] == 2
