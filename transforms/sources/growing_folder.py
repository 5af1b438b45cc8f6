"""Growing folder as a source of new files (docs/adr/0009-sources-of-a-stream.md).

Rename files into place, from a name with a leading dot or with suffix .part or .tmp.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import DoOutputsTuple, PBegin
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from transforms import counters
from transforms.atomic_files import is_skipped
from transforms.errors import StepError, reason_of
from transforms.layouts.base import Layout, RawBatch, UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.records import REFUSED
from transforms.sources.unbounded import NAMES, PROMISE, KnownElements, NamesRead, late_from, move  # noqa: F401 savepoints need NamesRead
from transforms.steps.metrics import Parting, Refusal
from transforms.steps.observe import counted, refused_file
from transforms.time.watermark import Watermark, newest_plausible_ms

LOG = logging.getLogger("hatstream.folder")
POLL_FILES, PAUSE_S, KEPT_NAMES = 16, 1.0, 10_000  # above so many names, those of files that are gone are forgotten


@dataclass
class ReadGrowing(Parting[PBegin]):
    """Batches of a folder's new files, and refusals."""

    folder: Path
    watermark: Watermark
    layout: Layout

    def expand(self, begin: PBegin) -> DoOutputsTuple:
        folders = begin | "folder" >> KnownElements([str(self.folder)])
        paths = folders | "watch" >> beam.ParDo(_WatchFolder(self.watermark)).with_output_types(bytes)
        return paths | "read" >> beam.FlatMap(self.read).with_outputs(REFUSED, main="batches")

    def read(self, path: bytes) -> Iterator[RawBatch | Refusal]:
        """Yields batches and refusals of a path in bytes."""
        try:
            yield from counted(read_apart(self.layout, os.fsdecode(path)))
        except (UnreadableFile, FileNotFoundError) as error:
            is_there = isinstance(error, UnreadableFile)
            yield from refused_file(counters.UNREADABLE_FILE if is_there else counters.VANISHED_FILE)
        except OSError as error:
            raise StepError(f"{os.fsdecode(path)}: {reason_of(error)}") from None


def _at_ms(entry: "os.DirEntry[str]", *, by_kernel: bool) -> int | None:
    """Reads a file's modification time, or by_kernel its change time, which producers cannot set."""
    if not is_skipped(entry.name) and not entry.name.endswith((".part", ".tmp")):
        with suppress(FileNotFoundError):
            if Path(entry.path).is_file():  # a link that leads nowhere is none; of a link and its file the later counts
                came_ns = max(entry.stat().st_ctime_ns, entry.stat(follow_symlinks=False).st_ctime_ns)
                return (came_ns if by_kernel else entry.stat().st_mtime_ns) // 10**6
    return None


@dataclass
class _WatchFolder(beam.DoFn):
    watermark: Watermark
    is_away: bool = False

    @beam.DoFn.unbounded_per_element()
    def process(self, element: str, tracker: Any = NAMES, estimator: Any = PROMISE) -> Iterator[Any]:
        read, now_ms, rule = tracker.current_restriction().names, time.time_ns() // 10**6, self.watermark
        try:
            with os.scandir(element) as entries:
                there = {entry.name: entry for entry in entries}
            came = {name: _at_ms(there[name], by_kernel=rule.by_own_times) for name in there.keys() - read}
        except OSError as error:  # an outage is not silence: nothing is promised
            if not self.is_away:
                LOG.warning("the folder %s cannot be listed: %s; trying until it can", element, reason_of(error))
            self.is_away = True
            tracker.defer_remainder(Duration(seconds=PAUSE_S))
            return
        self.is_away = False
        unread = sorted((at_ms, name) for name, at_ms in came.items() if at_ms is not None)
        new, names = unread[:POLL_FILES], read.intersection(there) if len(read) > KEPT_NAMES else read
        if new and not tracker.try_claim(names.union(name for _, name in new)):
            return
        times_ms = np.array([at_ms for at_ms, _ in new], np.int64)
        for (_, name), late_us in zip(new, late_from(rule, estimator, times_ms).tolist(), strict=True):
            yield TimestampedValue(os.fsencode(Path(element) / name), Timestamp(micros=late_us))
        move(estimator, rule, newest_plausible_ms(times_ms, now_ms), now_ms, idle=not unread)
        tracker.defer_remainder(Duration(seconds=0 if len(new) >= POLL_FILES else PAUSE_S))
