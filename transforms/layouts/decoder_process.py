"""Client of the decoder process, for formats that crash.

The process is reused. One that crashes, hangs or exceeds its memory ends and is replaced.
"""

import atexit
import fcntl
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen

import msgspec
import pyarrow as pa

from transforms.layouts import base
from transforms.layouts.base import WHOLE, Layout, MessageLayout, RawBatch, Share, UnreadableFile
from transforms.layouts.decoder import MEMORY_BYTES, STEP_CPU_S, DecoderTask, StepResult, receive, send
from transforms.layouts.mapped.csv import CsvTable
from transforms.layouts.mapped.json import JsonLines
from transforms.layouts.open_file import files_in

MESSAGE_ROWS = 1 << 20  # most rows of one message; those of a poll are held together until all of it is decoded
PIPE_BYTES = 1 << 20

_LINE_BY_LINE = (CsvTable, JsonLines)  # their lines are bounded, so they need no process: they are decoded here
_PROGRAM = "import hatstream; from transforms.layouts.decoder import serve; serve()"
_PASSED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")  # others may hold passwords
_IDLE_DECODERS: "list[_Decoder]" = []
_IDLE_LOCK = threading.Lock()


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
    """Forgets its parent's decoders in a forked child, whose lock may be held."""
    global _IDLE_LOCK
    _IDLE_LOCK = threading.Lock()
    _IDLE_DECODERS.clear()


os.register_at_fork(after_in_child=_forget)


def read_apart(layout: Layout, path: str, share: Share = WHOLE) -> Iterator[RawBatch]:
    """Reads a file, or a `share` of it, as `layout.read` does, in another process."""
    if isinstance(layout, _LINE_BY_LINE):  # these are safe to decode in this process
        for inside in files_in(path):
            yield from layout.read(inside)
        return
    try:
        yield from _answers(DecoderTask(layout, STEP_CPU_S, [os.path.abspath(path)], share=share))
    except _Refusal as error:
        raise UnreadableFile(path, str(error)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def joined_apart(layout: Layout, paths: Sequence[str]) -> list[RawBatch] | None:
    """Reads small files in one task; None if one fails, as nobody knows which."""
    try:
        if isinstance(layout, _LINE_BY_LINE):  # read in this process: there is no request to save
            return list(base.joined(batch for path in paths for batch in read_apart(layout, path)))
        return list(_answers(DecoderTask(layout, STEP_CPU_S, [*map(os.path.abspath, paths)])))
    except (_Refusal, UnreadableFile, OSError):
        return None


def messages_apart(layout: MessageLayout, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
    """Decodes messages as `layout.from_messages` does, in another process.

    If that fails, each message is decoded by itself: one that fails again is a refused row.
    """
    if isinstance(layout, _LINE_BY_LINE):  # these are safe to decode in this process
        yield from layout.from_messages(payloads)
        return
    try:
        batches: list[RawBatch] = []  # yielded only when all are there, as a failure repeats them one by one
        for batch in _answers(DecoderTask(layout, STEP_CPU_S, payloads=payloads)):
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


def _answers(task: DecoderTask) -> Iterator[RawBatch]:
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
            is_reusable = not answer.is_spent  # a decoder near its limit of CPU time is
            if answer.kind == "unreadable":
                raise _Refusal(answer.text)
            if answer.kind == "system":
                raise OSError(answer.errno, answer.text)
            return
    finally:  # also if the reader stops early: the rest of the reply would confuse the next task
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
        """Receives a result, and its batch if any; raises for a broken reply."""
        head, body = receive(self._answers), receive(self._answers)
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
        signal_number = -self.end()  # as `subprocess` codes it
        if signal_number == signal.SIGXCPU:
            return _Refusal(f"cannot be decoded: it takes more than {STEP_CPU_S} s, far too long for what it holds")
        ending = f"signal {signal_number}" if signal_number > 0 else f"exit code {-signal_number}"
        return _Refusal(f"cannot be decoded: it crashes its decoder ({ending}), or needs over {MEMORY_BYTES >> 30} GiB")
