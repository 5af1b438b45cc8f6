"""A fork server: a process that has imported what others need and forks them, so that their starts cost no import.

It begins with a cleaned environment and holds nothing of a job, so what it forks holds nothing either, whatever hostile
file is read there. It has one thread: nothing that it imports may start another one, or draw a random number, which two
copies must not have in common. (Where things lie in memory they do have in common: a file that crashes its decoder by
guessing at that may guess again.) It ends when nobody is left who may ask it, and ends first what was forked for them.
"""

import errno
import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, NamedTuple, NoReturn

import msgspec

_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Arrow's jemalloc, which nothing asks for memory, would start a thread."""
_PROGRAM = "import hatstream; from transforms.fork_server import serve; serve()"
_MESSAGE_BYTES, _HANDLES = 1 << 12, 250
_ANY_CODE = -signal.SIGKILL

_Children = dict[socket.socket, set[int]]
"""Who may ask, and the processes that were forked for each."""


class _Request(msgspec.Struct, frozen=True):
    """what: `module:function`, to be called in a new process with the handles behind its pipes; or else pid: of a
    process that is to end; or neither: the handle is of one more who may ask."""

    what: str = ""
    pid: int = 0


class _Answer(msgspec.Struct, frozen=True):
    """number: a process id, or the exit code of one that ended. errno: why none was forked."""

    number: int = 0
    errno: int = 0


class Forked(NamedTuple):
    """A process of a fork server, with its standard input and output."""

    client: "ForkClient"
    pid: int
    asks: IO[bytes]
    answers: IO[bytes]

    @property
    def is_alive(self) -> bool:
        """Whether its standard output is open."""
        return not _hung_up(self.answers)

    def end(self) -> int:
        """Kills it if it is not ending by itself. Gives its exit code, or -9 where signal 9 ended it."""
        code = self.client.end(self.pid)
        with suppress(OSError):  # of a request that it took no more
            self.asks.close()
        self.answers.close()
        return code


class ForkClient:
    """Who may ask a fork server, from any thread. asks: one end of a socket."""

    def __init__(self, asks: socket.socket) -> None:
        self._asks, self._lock = asks, threading.Lock()

    @property
    def is_alive(self) -> bool:
        return not _hung_up(self._asks)

    def fork(self, what: str, handles: Sequence[int] = ()) -> Forked:
        """Forks a process that calls what `module:function` names, with copies of the handles. Raises OSError."""
        takes, asks = os.pipe()
        answers, tells = os.pipe()
        try:
            pid = self._asked(_Request(what=what), takes, tells, *handles)
        except OSError:
            os.close(asks)
            os.close(answers)
            raise
        finally:
            os.close(takes)
            os.close(tells)
        return Forked(self, pid, os.fdopen(asks, "wb"), os.fdopen(answers, "rb"))

    def end(self, pid: int) -> int:
        """Ends one: see `Forked.end`. Once the fork server is gone nobody knows the code; it ends with its pipes."""
        try:
            return self._asked(_Request(pid=pid))
        except OSError:
            return _ANY_CODE

    def another(self) -> socket.socket:
        """Makes an end for one more who may ask: it is to be handed to a process. Raises OSError."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._asked(_Request(), its.fileno())
        return ours

    def close(self) -> None:
        with self._lock:
            self._hang_up()
            self._asks.close()

    def _hang_up(self) -> None:
        """Shuts this end, even where another process holds a copy of it, as one that was forked in the middle does."""
        with suppress(OSError):
            self._asks.shutdown(socket.SHUT_RDWR)

    def _asked(self, request: _Request, *handles: int) -> int:
        with self._lock:
            try:
                socket.send_fds(self._asks, [msgspec.json.encode(request)], handles)
                told = self._asks.recv(_MESSAGE_BYTES)
            except BaseException:  # an interrupt too: the next one who asks would be given this answer
                self._hang_up()
                raise
        if not told:
            raise BrokenPipeError("the process that others are forked from has ended")
        answer = msgspec.json.decode(told, type=_Answer)
        if answer.errno:
            raise OSError(answer.errno, os.strerror(answer.errno))
        return answer.number


class ForkServer(ForkClient):
    """A fork server of this process, which may ask it. modules: what it imports."""

    def __init__(self, modules: Sequence[str]) -> None:
        import subprocess  # a fork server itself needs none

        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | _ONE_THREAD
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
        command = [sys.executable, "-P", "-c", _PROGRAM, *modules]
        with its:
            self._process = subprocess.Popen(command, stdin=its.fileno(), stdout=subprocess.DEVNULL, env=environment)
        super().__init__(ours)

    def close(self) -> None:
        """Ends it and all that it has forked."""
        super().close()
        self._process.wait()


_BEGUN: list[ForkServer] = []


@contextmanager
def beforehand(modules: Sequence[str]) -> Iterator[None]:
    """Begins a fork server that imports while this process does: whoever needs one first takes it. If nobody did, it
    ends with the block."""
    _BEGUN.append(ForkServer(modules))
    try:
        yield
    finally:
        while _BEGUN:
            _BEGUN.pop().close()


def fork_server_of(modules: Sequence[str]) -> ForkServer:
    """Takes the fork server that was begun beforehand; if none runs, a new one, which imports these modules."""
    while _BEGUN:
        begun = _BEGUN.pop()
        if begun.is_alive:
            return begun
        begun.close()
    return ForkServer(modules)


def serve() -> NoReturn:
    """Forks and ends processes as it is asked on standard input, until nobody is left who may ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is interrupted decides what becomes of its processes
    for name in sys.argv[1:]:
        import_module(name)
    gc.freeze()  # what is imported stays: no process looks through it for garbage, and copies it for that
    children: _Children = {socket.socket(fileno=os.dup(0)): set()}
    os.dup2(1, 0)  # so that no handle that comes stands in the place of one of what is forked
    while children:
        for client in select.select([*children], [], [])[0]:
            message, handles = _request(client)
            if message:
                answer = _answer(msgspec.json.decode(message, type=_Request), handles, client, children)
                with suppress(ConnectionError):
                    client.send(msgspec.json.encode(answer))
                continue
            for pid in children.pop(client):
                _end(pid)
            client.close()
    os._exit(0)  # at once: whoever asked waits


def _request(client: socket.socket) -> tuple[bytes, Sequence[int]]:
    """Receives a request with its handles; of no bytes where nobody is left who may ask."""
    try:
        message, handles, *_ = socket.recv_fds(client, _MESSAGE_BYTES, _HANDLES)
    except ConnectionError:  # who asked was killed before it had its answer
        return b"", ()
    return message, handles


def _answer(request: _Request, handles: Sequence[int], client: socket.socket, children: _Children) -> _Answer:
    if request.what:
        return _forked(request.what, handles, client, children)
    if request.pid in children[client]:
        children[client].remove(request.pid)
        return _Answer(_end(request.pid))
    children |= {socket.socket(fileno=handle): set() for handle in handles}
    return _Answer()


def _forked(what: str, handles: Sequence[int], client: socket.socket, children: _Children) -> _Answer:
    try:
        pid = os.fork()
    except OSError as error:
        return _Answer(errno=error.errno or errno.EAGAIN)
    else:
        if not pid:
            _become(what, handles, children)
        children[client].add(pid)
        return _Answer(pid)
    finally:
        for handle in handles:
            os.close(handle)


def _become(what: str, handles: Sequence[int], others: _Children) -> NoReturn:
    """Calls in this process what was asked for, with nothing open of anybody else."""
    code = 1
    try:
        for asking in others:
            os.close(asking.detach())
        for standard, pipe in enumerate(handles[:2]):
            os.dup2(pipe, standard)
            os.close(pipe)
        module, _, function = what.partition(":")
        getattr(import_module(module), function)(handles[2:])
        code = 0
    except BaseException:  # noqa: BLE001 - nothing of the fork server may go on in its copy
        traceback.print_exc()
    finally:
        os._exit(code)


def _end(pid: int) -> int:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # nothing happens to one that is ending already
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _hung_up(end: IO[bytes] | socket.socket) -> bool:
    """Says whether nobody holds the other end."""
    poll = select.poll()
    poll.register(end, 0)
    return bool(poll.poll(0))
