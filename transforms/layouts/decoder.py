"""Decoder process: a crash costs one file or message.

Answers requests in turn with numbers, words and Arrow columns, no pickles: input may have corrupted the process.
"""

import os
import pickle
import resource
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from transforms.layouts.base import WHOLE, Layout, MessageLayout, RawBatch, Share, SplitLayout, UnreadableFile, joined
from transforms.layouts.open_file import INSIDE, files_in
from transforms.memory import keep_freed_memory

MEMORY_BYTES, SPENT_BYTES = 1 << 30, 1 << 28
STEP_CPU_S = 20
BYTE_CPU_S, ROW_CPU_S = 1e-6, 2e-4
"""Processor time for one batch; and for all batches that much again, for each byte of input and each row found: the
last resort, ten times above what the slowest layout needs for honest rows. Those of a batch take half a second."""
BATCH_BYTES = 256 << 20
"""Most bytes of one batch, which whoever asked for it holds: of ids that are read they are a sixth."""


class DecoderTask(NamedTuple):
    """File, share of a file, or messages to decode."""

    layout: Layout
    step_cpu_s: int
    paths: Sequence[str] = ()  # several small files are read as one
    payloads: Sequence[bytes] = ()
    share: Share = WHOLE

    def batches(self) -> Iterator[RawBatch]:
        """Decodes the task's files, share or messages."""
        if self.share != WHOLE:
            assert isinstance(self.layout, SplitLayout)
            return self.layout.read_share(self.paths[0], self.share)
        if self.paths:
            batches = (batch for path in self.paths for inside in files_in(path) for batch in self.layout.read(inside))
            return joined(batches) if len(self.paths) > 1 else batches
        assert isinstance(self.layout, MessageLayout)
        return self.layout.from_messages(self.payloads)


class StepResult(msgspec.Struct, frozen=True):
    """Result of one step; a batch's table follows."""

    kind: Literal["batch", "end", "unreadable", "system"]
    refused: dict[str, int] = {}
    text: str = ""
    is_spent: bool = False  # the next file needs a new process
    errno: int = 0


def serve() -> None:
    """Answers requests on standard input; discards decoders' output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is interrupted decides what becomes of its decoder
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold vehicles
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve more than they use
    keep_freed_memory()
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers, ThreadPoolExecutor(1) as sender:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        while request := receive(requests):
            sent: Future[None] | None = None
            for answer, table in _answers(pickle.loads(request)):
                if sent is not None:
                    sent.result()
                sent = sender.submit(_send_answer, answers, answer, table)  # while the next batch is decoded


def _send_answer(file: IO[bytes], answer: StepResult, table: pa.RecordBatch | None) -> None:
    """Writes a result as JSON, then its batch as an Arrow stream."""
    if table is None:
        send(file, msgspec.json.encode(answer), b"")
        return
    send(file, msgspec.json.encode(answer))
    size = pa.MockOutputStream()
    _write(table, size)
    file.write(struct.pack("<q", size.size()))
    _write(table, pa.PythonFile(file, "w"))  # at once, not by way of a copy of it all
    file.flush()


def send(file: IO[bytes], *parts: bytes) -> None:
    """Writes parts, each after its length."""
    for part in parts:
        file.write(struct.pack("<q", len(part)))
        file.write(part)
    file.flush()


def receive(file: IO[bytes]) -> bytes:
    """Reads one part, empty where the other side ended."""
    size = file.read(8)
    return file.read(struct.unpack("<q", size)[0]) if len(size) == 8 else b""


def _answers(work: DecoderTask) -> Iterator[tuple[StepResult, pa.RecordBatch | None]]:
    """Yields results of a task's steps, limiting CPU time."""
    try:
        sizes = [*map(len, work.payloads), *(os.path.getsize(path.partition(INSIDE)[0]) for path in work.paths)]
        cpu_s = time.process_time() + work.step_cpu_s + BYTE_CPU_S * sum(sizes)
        batches = work.batches()
        while True:  # the system ends this process at the limit: of one batch, or of all so far
            until_s = min(cpu_s, time.process_time() + work.step_cpu_s)
            resource.setrlimit(resource.RLIMIT_CPU, (int(until_s) + 1, resource.RLIM_INFINITY))
            batch = next(batches, None)
            if batch is None:
                break
            cpu_s += ROW_CPU_S * batch.rows
            _check(batch.table)
            yield StepResult("batch", refused=batch.refused), batch.table
        yield StepResult("end"), None
    except UnreadableFile as error:
        yield _refusal(error.rule), None
    except OSError as error:
        yield StepResult("system", text=error.strerror or type(error).__name__, errno=error.errno or 0), None
    except Exception as error:  # noqa: BLE001 - whatever a decoder raises is about this one file or message
        yield _refusal(f"cannot be decoded ({type(error).__name__})"), None


def _refusal(rule: str) -> StepResult:
    """Refuses a file; a large leak ends the process."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    return StepResult("unreadable", text=rule, is_spent=pages * resource.getpagesize() > SPENT_BYTES)


def _check(table: pa.RecordBatch) -> None:
    """Raises UnreadableFile or ArrowInvalid for a wrong batch."""
    if table.nbytes > BATCH_BYTES:
        raise UnreadableFile("", f"{table.num_rows} rows take more than {BATCH_BYTES >> 20} MiB")
    for top_column in table.columns:
        for column in top_column.flatten() if pa.types.is_struct(top_column.type) else [top_column]:
            if pa.types.is_dictionary(column.type):
                column = pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
            _as_bytes(column).validate(full=True)  # texts need not be UTF-8


def _as_bytes(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    return column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column


def _write(table: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
