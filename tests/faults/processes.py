"""Processes that start with everything imported, for tests that end one or let two of them meet."""

import contextlib
import gc
import io
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

# What a release imports while it runs: here once for all processes
import pipelines.commands.release
import pipelines.runs.beam.bounded
import pipelines.runs.beam.runners  # noqa: F401
from pipelines.cli import main
from tests.kit.quick import let_beam_remember, let_disks_be_quick, let_ledgers_remember
from transforms.failpoints import VARIABLE, acting

PATIENCE_S = 120

let_beam_remember()
let_ledgers_remember()
let_disks_be_quick()
gc.freeze()  # what is imported stays: no process looks through it for garbage


def forks() -> BaseContext:
    """Where processes come from that can be killed one by one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.processes"])
    return context


def run(arguments: list[str], place: str | None = None, kill_after_s: float | None = None) -> int | None:
    """Exit code of a command line in a process of its own; -9 if it was killed."""
    process = forks().Process(target=_run, args=(arguments, place))
    process.start()
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE_S)
    return process.exitcode


def _run(arguments: list[str], place: str | None) -> None:
    if place:
        os.environ[VARIABLE] = place
    os._exit(main(arguments))


class Done(NamedTuple):
    """How a process ended and what it printed."""

    code: int | None
    out: bytes
    err: bytes


def captured(program: Callable[..., object], *arguments: Any, environment: Mapping[str, str] | None = None) -> Done:
    """What a function prints in a process of its own, down to the last file descriptor."""
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        target = (program, arguments, dict(environment or {}), out.name, err.name)
        process = forks().Process(target=_captured, args=target)
        process.start()
        process.join(PATIENCE_S)
        return Done(process.exitcode, out.read(), err.read())


def _captured(program: Callable[..., object], arguments: Any, environment: dict[str, str], *files: str) -> None:
    os.environ.update(environment)
    for number, name in enumerate(files, start=1):
        os.dup2(os.open(name, os.O_WRONLY), number)
    program(*arguments)


class Other:
    """Another process that runs command lines, each up to where its noise is drawn and not recorded yet; there it
    stands until it may go on."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._code: int | None = None
        self.stands = False

    def start(self, arguments: list[str]) -> None:
        self._pipe.send(arguments)
        self._code = None
        assert self._answer() == "standing"
        self.stands = True

    def go_on(self) -> None:
        self._pipe.send("go on")
        self.stands = False

    def end(self) -> int:
        """Its exit code; waits for it, and lets it go on if it still stands."""
        if self.stands:
            self.go_on()
        if self._code is None:
            self._code = self._answer()
        return self._code

    def _answer(self) -> Any:
        assert self._pipe.poll(PATIENCE_S), "the other process does not answer"
        return self._pipe.recv()


@contextmanager
def other_process() -> Iterator[Other]:
    """One that stays and runs one command line after another, so that it is warm."""
    pipe, its = multiprocessing.Pipe()
    process = forks().Process(target=_serve, args=(its,))
    process.start()
    try:
        yield Other(pipe)
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection) -> None:
    def stand(name: str, passage: int) -> None:
        if (name, passage) == ("before-record", 1):
            pipe.send("standing")
            pipe.recv()

    while arguments := pipe.recv():
        with acting(stand), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main(arguments)
        pipe.send(code)
