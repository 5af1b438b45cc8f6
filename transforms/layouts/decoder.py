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

MEMORY_BYTES = 1 << 30  # most of a decoder's process
SPENT_BYTES = 1 << 28  # above, a decoder that failed has leaked: the next file gets a new one
STEP_CPU_S = 20
BYTE_CPU_S, ROW_CPU_S = 1e-6, 2e-4
"""Processor time for one batch; and for all batches that much again, for each byte of input and each row found: the
last resort, ten times above what the slowest layout needs for honest rows. Those of a batch take half a second."""
BATCH_BYTES = 256 << 20  # most of one batch, which whoever asked for it holds: ids that are read are a sixth


class DecoderTask(NamedTuple):
    """Files, share of one file, or messages to decode."""

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
    """Reply of one step: a batch, whose table follows, the end, or an error."""

    kind: Literal["batch", "end", "unreadable", "system"]
    refused: dict[str, int] = {}  # rows by reason
    text: str = ""  # of an error
    is_spent: bool = False  # the next file needs a new process
    errno: int = 0


def serve() -> None:
    """Decodes tasks from standard input, replying on standard output, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends its decoder, also when interrupted
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold vehicles
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve more than they use
    keep_freed_memory()
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers, ThreadPoolExecutor(1) as sender:
        nowhere = os.open(os.devnull, os.O_WRONLY)  # what a library prints could hold data
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        while request := receive(requests):
            sent: Future[None] | None = None
            for answer, table in _answers(pickle.loads(request)):  # the parent's own words, no input
                if sent is not None:
                    sent.result()  # one batch waits at most, and a failure to send raises here
                sent = sender.submit(_send_answer, answers, answer, table)  # while the next batch is decoded


def _send_answer(file: IO[bytes], answer: StepResult, table: pa.RecordBatch | None) -> None:
    """Writes a result as JSON and its batch as Arrow, each after its length."""
    if table is None:
        send(file, msgspec.json.encode(answer), b"")  # an empty part stands for no batch
        return
    send(file, msgspec.json.encode(answer))
    counting = pa.MockOutputStream()  # only measures: a copy of the stream would double the memory
    _write(table, counting)
    file.write(struct.pack("<q", counting.size()))
    _write(table, pa.PythonFile(file, "w"))
    file.flush()


def send(file: IO[bytes], *messages: bytes) -> None:
    """Writes parts, each after its length in 8 bytes."""
    for message in messages:
        file.write(struct.pack("<q", len(message)))
        file.write(message)
    file.flush()


def receive(file: IO[bytes]) -> bytes:
    """Reads one part, empty where the other side ended."""
    size = file.read(8)
    return file.read(struct.unpack("<q", size)[0]) if len(size) == 8 else b""


def _answers(task: DecoderTask) -> Iterator[tuple[StepResult, pa.RecordBatch | None]]:
    """Yields a task's batches, then its end or error, within limits of CPU time."""
    try:
        sizes = [*map(len, task.payloads), *(os.path.getsize(path.partition(INSIDE)[0]) for path in task.paths)]
        task_limit_s = time.process_time() + task.step_cpu_s + BYTE_CPU_S * sum(sizes)  # more with each row read
        batches = task.batches()
        while True:  # the next batch's limit, unless that of all batches so far is lower
            limit_s = min(task_limit_s, time.process_time() + task.step_cpu_s)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, resource.RLIM_INFINITY))  # rounded up
            batch = next(batches, None)
            if batch is None:
                break
            task_limit_s += ROW_CPU_S * batch.rows
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
    """Makes the reply that refuses a file."""
    data_pages = int(Path("/proc/self/statm").read_text().split()[5])  # see proc(5)
    return StepResult("unreadable", text=rule, is_spent=data_pages * resource.getpagesize() > SPENT_BYTES)


def _check(table: pa.RecordBatch) -> None:
    """Raises UnreadableFile for a batch too large, ArrowInvalid for a corrupt one."""
    if table.nbytes > BATCH_BYTES:
        raise UnreadableFile(path="", rule=f"{table.num_rows} rows take more than {BATCH_BYTES >> 20} MiB")
    for top_column in table.columns:
        for column in top_column.flatten() if pa.types.is_struct(top_column.type) else [top_column]:
            if pa.types.is_dictionary(column.type):
                column = pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
            _as_bytes(column).validate(full=True)  # texts need not be UTF-8


def _as_bytes(column: Any) -> Any:
    """Views texts as bytes, without a copy: they may not be UTF-8."""
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    return column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column


def _write(table: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
