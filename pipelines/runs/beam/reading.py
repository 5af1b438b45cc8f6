"""Reading step of bounded pipelines, and pieces of input.

A piece is some small files, or a share of a large one. Facts for the judge travel with the packed events, by the key
NO_SLOT in place of a slot's start.
"""

import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from pipelines.runs.beam import judge
from transforms import counters, tasks, wire
from transforms.errors import StepError
from transforms.layouts.base import Layout, RawBatch, Share, SplitLayout, UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.records import EventBytes, PaneShard
from transforms.steps.metrics import count, passed

if TYPE_CHECKING:
    from pipelines.runs.beam.bounded import Bounded

NO_SLOT: Final = -1
"""With a second output for facts, Flink would write and read all of the first one once more."""
READERS = 4  # most pieces that one worker reads at once: a batch takes its steps four times as long as its decoder

KeyedPart = tuple[PaneShard, tuple[int, EventBytes]]
"""By what is tallied together: a slot's start and packed events of it; or by NO_SLOT a `KeyedFact`."""


class Piece(NamedTuple):
    """Small files that are read together, or one of a file's shares. paths: undecoded."""

    paths: tuple[bytes, ...]
    number: int = 0
    shares: int = 1


class Observe(beam.DoFn):
    """DoFn from file pieces to keyed events; reports unreadable files to the verdict.

    look: of an input check, takes rows before they are parsed and returns counters. counts: of a bundle, for the judge.
    """

    def __init__(self, bounded: "Bounded", look: Callable[[RawBatch], Mapping[str, int]] | None = None) -> None:
        self._bounded, self._job, self._look, self.counts = bounded, bounded.job, look, Counter[str]()

    def start_bundle(self) -> None:
        self.counts = Counter[str]()

    def process(self, pieces: Sequence[Piece]) -> Iterator[KeyedPart]:
        """Yields packed events by slot and vehicle shard; counts rows and refusals."""
        bounded, job, is_here = self._bounded, self._job, self._bounded.spool is not None
        for batch in read_pieces(pieces, self._read):
            if isinstance(batch, RawBatch):
                packing = wire.FAST if is_here else wire.DENSE  # small between machines, fast in this process
                self.counts.update(self._look(batch) if self._look else {})
                observations, cell, refused = tasks.observed(batch, job.rules, job.ground)
                count(counters.ROWS, batch.rows)  # for the engine's metrics, while `self.counts` reach the judge
                passed("read", batch.rows)  # for the progress bar
                self.counts.update({counters.ROWS: batch.rows} | refused)
                for events in wire.split(observations, cell, job.vehicle_shards, bounded.pane_s, packing):
                    self.counts[judge.OF_PERIOD + job.slots[events.key[0]].period] += events.rows  # [0]: slot's start
                    yield bounded.keyed(events)
            elif job.skips_unreadable and isinstance(batch, UnreadableFile):
                count(counters.ROWS)
                refusal = counters.refused("read", counters.UNREADABLE_FILE)
                self.counts.update({counters.ROWS: 1, refusal: 1, f"{counters.LEFT_OUT}{batch}": 1})
            else:  # an error, for which the judge refuses the input
                self.counts[f"{judge.UNREADABLE}{batch}"] += 1

    def finish_bundle(self) -> Iterator[Any]:
        """Yields the bundle's counters as a fact for the judge, under NO_SLOT."""
        fact: judge.KeyedFact = 0, msgspec.json.encode(self.counts)
        yield WindowedValue((((NO_SLOT, 0), 0), fact), MIN_TIMESTAMP, (GlobalWindow(),))

    def _read(self, piece: Piece) -> Iterator[RawBatch | UnreadableFile | StepError]:
        """Reads a piece: several small files, or a share of one."""
        first, *others = paths = list(map(os.fsdecode, piece.paths))
        if others:
            return tasks.read_small(self._job.layout, paths)
        return tasks.read(self._job.layout, first, Share(piece.number, piece.shares))


def read_pieces(
    pieces: Sequence[Piece], read: Callable[[Piece], Iterator[RawBatch | UnreadableFile | StepError]]
) -> Iterator[RawBatch | UnreadableFile | StepError]:
    """Reads pieces in a few threads; raises unexpected errors."""
    threads = max(1, min(READERS, len(pieces), len(os.sched_getaffinity(0))))
    waiting, results = iter(pieces), queue.Queue[RawBatch | Exception | None](maxsize=threads)
    is_over = threading.Event()

    def work() -> None:
        """Puts pieces' batches into `results`, and None when no piece is left."""
        for piece in waiting:  # a sequence's iterator gives each to one thread
            if is_over.is_set():
                return
            try:
                for batch in read(piece):
                    results.put(batch)
                    if is_over.is_set():
                        return
            except Exception as error:  # noqa: BLE001 - the reader of `results` yields or raises it
                results.put(error)
        results.put(None)

    for _ in range(threads):
        threading.Thread(target=work, daemon=True).start()
    try:
        while threads:  # those that have not ended
            batch = results.get()
            if batch is None:  # a thread has ended
                threads -= 1
            elif isinstance(batch, RawBatch | UnreadableFile | StepError):
                yield batch
            else:
                raise batch
    finally:
        is_over.set()
        while not results.empty():  # so that nobody waits for room; each of them puts one thing more at most
            results.get_nowait()


SHARE_BYTES = 16 << 20  # about the size of a share of a large file
SMALL_BYTES, SMALL_FILES = 1 << 17, 64  # most bytes, and number, of files read as one: each costs milliseconds
SAMPLE_BYTES = 1 << 18  # bytes of a file's start in which lines are counted
PROBED_FILES = 8  # sampled files of one kind, taken to be alike; also the fewest pieces that small files make
_LINE_SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")


def pieces_of(layout: Layout, paths: Sequence[str]) -> list[Piece]:
    """Divides files into pieces of similar size, largest first."""
    pieces: list[tuple[float, Piece]] = []
    small: list[tuple[int, bytes]] = []
    for path in paths:
        size = os.path.getsize(path) if os.path.exists(path) else 0  # unknown of archives' members and remote files
        shares = max(1, size // SHARE_BYTES) if isinstance(layout, SplitLayout) else 1  # others are read from the start
        if 0 < size <= SMALL_BYTES:
            small.append((size, os.fsencode(path)))
        else:
            pieces += [(size / shares, Piece((os.fsencode(path),), number, shares)) for number in range(shares)]
    per_piece = max(1, min(SMALL_FILES, len(small) // PROBED_FILES))  # PROBED_FILES pieces at least, for threads
    for start in range(0, len(small), per_piece):
        sizes, together = zip(*small[start : start + per_piece], strict=True)
        pieces.append((sum(sizes), Piece(together)))
    return [piece for _, piece in sorted(pieces, key=lambda sized: -sized[0])]


def estimate_rows(paths: Sequence[str]) -> int | None:
    """Estimates rows from Parquet footers and first lines of texts; None if unknown."""
    line_bytes: dict[str, list[float]] = {}  # bytes per line of sampled files, by kind
    try:
        return round(sum(_rows(path, line_bytes) for path in paths))
    except (OSError, UnreadableFile):
        return None


def _rows(path: str, line_bytes: dict[str, list[float]]) -> float:
    """Estimates a file's rows. Raises OSError or UnreadableFile if unknown.

    line_bytes: mean bytes of a line in each sampled file, by suffix; extended here.
    """
    from transforms.layouts.mapped.parquet import ParquetFooter

    kind = os.path.splitext(path)[1].lower()
    if kind == ".parquet":  # read in a process apart, as all that may be hostile
        (batch,) = read_apart(ParquetFooter(), path)
        return max(float(batch.table.column("rows")[0].as_py()), 0.0)  # a forged footer may be negative
    sizes = line_bytes.setdefault(kind, [])
    if kind in _LINE_SUFFIXES and len(sizes) < PROBED_FILES and Path(path).is_file():
        with open(path, "rb") as file:
            start = file.read(SAMPLE_BYTES)
        if newlines := start.count(b"\n"):
            sizes.append((start.rindex(b"\n") + 1) / newlines)
    if not sizes:
        raise OSError(f"{path}: no line of its kind was sampled")
    return os.path.getsize(path) * len(sizes) / sum(sizes)
