"""Decoder process for formats that crash, and its client.

Each process is reused; one that crashes, hangs or exceeds its memory costs one file or message, and is replaced. It
answers requests in turn with numbers, words and Arrow columns, no pickles: input may have corrupted it.
Functions named `.._apart` decode in such a process, but layouts of _LINE_BY_LINE in the calling one. A step decodes one
batch of a task. A decoder is spent, and not used again, if it holds much memory after a failure.
"""

import atexit
import fcntl
import os
import pickle
import resource
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from transforms.layouts import base
from transforms.layouts.base import WHOLE, Layout, MessageLayout, RawBatch, Share, SplitLayout, UnreadableFile
from transforms.layouts.mapped.csv import CsvTable
from transforms.layouts.mapped.json import JsonLines
from transforms.layouts.open_file import INSIDE, files_in
from transforms.memory import keep_freed_memory

MEMORY_BYTES = 1 << 30  # most of a decoder's process
SPENT_BYTES = 1 << 28  # above, a decoder that failed has leaked: the next file gets a new one
STEP_CPU_S = 20
BYTE_CPU_S, ROW_CPU_S = 1e-6, 2e-4
"""Processor time for one batch; and for all batches that much again, for each byte of input and each row found: the
last resort, ten times above what the slowest layout needs for honest rows. Those of a batch take half a second."""
BATCH_BYTES = 256 << 20  # most of one batch, which whoever asked for it holds: ids that are read are a sixth
MESSAGE_ROWS = 1 << 20  # most rows of a message, and of messages decoded together, which are held until all are decoded
PIPE_BYTES = 1 << 20

_LINE_BY_LINE = (CsvTable, JsonLines)  # lines are bounded, so these layouts are safe to decode in this process
_PROGRAM = "import hatstream; from transforms.layouts.decoder_process import serve; serve()"
_PASSED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")  # others may hold passwords
_IDLE_DECODERS: "list[_Decoder]" = []
_IDLE_LOCK = threading.Lock()


class DecoderTask(NamedTuple):
    """Files, share of one file, or messages to decode."""

    layout: Layout
    step_cpu_s: int  # the most CPU time of each batch
    paths: Sequence[str] = ()  # several small files are read as one
    payloads: Sequence[bytes] = ()
    share: Share = WHOLE  # a part of the only file, or all of the files

    def batches(self) -> Iterator[RawBatch]:
        """Decodes the task's files, share or messages."""
        if self.share != WHOLE:
            assert isinstance(self.layout, SplitLayout)
            return self.layout.read_share(self.paths[0], self.share)
        if self.paths:
            batches = (batch for path in self.paths for inside in files_in(path) for batch in self.layout.read(inside))
            return base.joined(batches) if len(self.paths) > 1 else batches
        assert isinstance(self.layout, MessageLayout)
        return self.layout.from_messages(self.payloads)


class StepResult(msgspec.Struct, frozen=True):
    """Reply of one step: a batch, whose table follows, the end, or an error."""

    kind: Literal["batch", "end", "unreadable", "system"]
    refused: dict[str, int] = {}  # rows by reason
    text: str = ""  # of an error
    is_spent: bool = False  # the next file needs a new process
    errno: int = 0


def begin_early(layout: Layout) -> None:
    """Starts a decoder before the first file, if the layout needs one."""
    if not isinstance(layout, _LINE_BY_LINE):
        with suppress(OSError):  # reading starts one again, and raises then
            _IDLE_DECODERS.append(_Decoder())


@atexit.register
def _close() -> None:
    """Ends idle decoders and waits, so this process's resource usage counts theirs."""
    while _IDLE_DECODERS:
        _IDLE_DECODERS.pop().end()


def _forget() -> None:
    """Forgets a parent's decoders in a forked child, and the lock, perhaps held."""
    global _IDLE_LOCK
    _IDLE_LOCK = threading.Lock()
    _IDLE_DECODERS.clear()


os.register_at_fork(after_in_child=_forget)


def read_apart(layout: Layout, path: str, share: Share = WHOLE) -> Iterator[RawBatch]:
    """Reads a file, or a `share` of it, in another process. Raises UnreadableFile, OSError."""
    if isinstance(layout, _LINE_BY_LINE):
        for inside in files_in(path):
            yield from layout.read(inside)
        return
    try:
        yield from _batches_apart(DecoderTask(layout, STEP_CPU_S, [os.path.abspath(path)], share=share))
    except _Refusal as error:
        raise UnreadableFile(path, str(error)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def joined_apart(layout: Layout, paths: Sequence[str]) -> list[RawBatch] | None:
    """Reads small files in one task, their batches joined; None if any fails."""
    try:
        if isinstance(layout, _LINE_BY_LINE):  # then `read_apart` reads in this process
            return list(base.joined(batch for path in paths for batch in read_apart(layout, path)))
        return list(_batches_apart(DecoderTask(layout, STEP_CPU_S, [*map(os.path.abspath, paths)])))  # joined there
    except (_Refusal, UnreadableFile, OSError):
        return None


def messages_apart(layout: MessageLayout, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
    """Decodes messages as `layout.from_messages` does, in another process.

    If that fails, each message is decoded by itself: one that fails again is a refused row.
    """
    if isinstance(layout, _LINE_BY_LINE):
        yield from layout.from_messages(payloads)
        return
    try:
        batches: list[RawBatch] = []  # yielded only when all are there, as a failure repeats them one by one
        for batch in _batches_apart(DecoderTask(layout, STEP_CPU_S, payloads=payloads)):
            batches.append(batch)
            if sum(earlier.rows for earlier in batches) > MESSAGE_ROWS:
                raise _Refusal(f"more than {MESSAGE_ROWS:,} rows", "too-long")
        yield from batches
    except _Refusal as error:
        if len(payloads) == 1:
            yield base.raw_batch({name: pa.nulls(0) for name in base.FIELDS}, {error.reason: 1})
            return
        for payload in payloads:
            yield from messages_apart(layout, [payload])


class _Refusal(Exception):
    """Decoder's failure, in words and as a refusal's reason."""

    def __init__(self, text: str, reason: str = "malformed") -> None:
        super().__init__(text)
        self.reason = reason


def _batches_apart(task: DecoderTask) -> Iterator[RawBatch]:
    """Yields a task's batches from an idle or new process. Raises _Refusal or OSError."""
    decoder, is_reusable = None, False
    with _IDLE_LOCK:
        while _IDLE_DECODERS and decoder is None:
            decoder = _IDLE_DECODERS.pop()
            if not decoder.is_alive:
                decoder.end()
                decoder = None
    decoder = decoder or _Decoder()
    try:
        decoder.ask(task)
        while True:
            answer, batch = decoder.answer()
            if batch is not None:
                yield batch
                continue
            is_reusable = not answer.is_spent
            if answer.kind == "unreadable":
                raise _Refusal(answer.text)
            if answer.kind == "system":
                raise OSError(answer.errno, answer.text)
            return
    finally:  # a decoder whose replies were not read to their end is ended: the rest would confuse the next task
        if is_reusable:
            with _IDLE_LOCK:
                _IDLE_DECODERS.append(decoder)
        else:
            decoder.end()


class _Decoder:
    """Decoder process, which ends when its pipe is closed."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        command = [sys.executable, "-P", "-c", _PROGRAM]  # -P: nothing is imported from the working directory
        self._process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asks, self._answers = self._process.stdin, self._process.stdout
        fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # fewer switches between the processes a batch

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, task: DecoderTask) -> None:
        """Sends a task; `answer` receives its results. Raises _Refusal if the process has ended."""
        try:
            send(self._asks, pickle.dumps(task))
        except OSError:
            raise self._lost() from None

    def answer(self) -> tuple[StepResult, RawBatch | None]:
        """Receives a result, and its batch if any; raises _Refusal for a broken reply."""
        head, body = receive(self._answers), receive(self._answers)  # JSON, and an Arrow stream or nothing
        if not head:
            raise self._lost()
        try:
            answer = msgspec.json.decode(head, type=StepResult)
            if answer.kind != "batch":
                return answer, None
            with pa.ipc.open_stream(body) as reader:
                table = reader.read_next_batch()
        except (msgspec.MsgspecError, ValueError, pa.ArrowException):  # truncated or corrupt reply
            raise self._lost() from None
        return answer, RawBatch(table.num_rows + sum(answer.refused.values()), table, answer.refused)

    def end(self) -> int:
        """Kills the process, waits for it, returns its code."""
        self._process.kill()
        with suppress(OSError):  # closing flushes a request that the process did not read
            self._asks.close()
        self._answers.close()
        return self._process.wait()

    def _lost(self) -> _Refusal:
        """Ends the process, and makes the error that says how it ended."""
        signal_number = -self.end()  # as `subprocess` codes it; of a process that has died already, its own
        if signal_number == signal.SIGXCPU:
            return _Refusal(f"cannot be decoded: it takes more than {STEP_CPU_S} s, far too long for what it holds")
        ending = f"signal {signal_number}" if signal_number > 0 else f"exit code {-signal_number}"
        return _Refusal(f"cannot be decoded: it crashes its decoder ({ending}), or needs over {MEMORY_BYTES >> 30} GiB")


def send(file: IO[bytes], *messages: bytes) -> None:
    """Writes parts, each after its length in 8 bytes."""
    for message in messages:
        file.write(struct.pack("<q", len(message)))
        file.write(message)
    file.flush()


def receive(file: IO[bytes]) -> bytes:
    """Reads one part that `send` wrote; empty where the sender ended."""
    size = file.read(8)
    return file.read(struct.unpack("<q", size)[0]) if len(size) == 8 else b""


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


def _answers(task: DecoderTask) -> Iterator[tuple[StepResult, pa.RecordBatch | None]]:
    """Yields a task's batches, then its end or error, within limits of CPU time."""
    try:
        outer_paths = [path.partition(INSIDE)[0] for path in task.paths]  # of a file in an archive: the archive's
        sizes = [*map(len, task.payloads), *map(os.path.getsize, outer_paths)]
        task_limit_s = time.process_time() + task.step_cpu_s + BYTE_CPU_S * sum(sizes)  # and more with each row, below
        batches = task.batches()
        while True:  # the next batch's limit, unless that of all batches so far is lower
            limit_s = min(task_limit_s, time.process_time() + task.step_cpu_s)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, resource.RLIM_INFINITY))  # rounded up
            batch = next(batches, None)
            if batch is None:
                break
            task_limit_s += ROW_CPU_S * batch.rows
            _refuse_large_or_corrupt(batch.table)
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


def _refuse_large_or_corrupt(table: pa.RecordBatch) -> None:
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
