"""Who does the tasks of a scheduled job: this process alone, or workers beside it."""

import os
import pickle
import queue
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from pipelines.input_files import paths_of
from pipelines.runs.crew.spool import Shelf
from pipelines.runs.crew.tasks import Done, Observe, Road, Task, Told
from transforms.errors import StepError, reason_of
from transforms.fork_server import ForkServer, beforehand, fork_server_of
from transforms.layouts.base import Layout, Share, SplitLayout
from transforms.layouts.decoder import receive, send
from transforms.layouts.decoder_process import begun_early as decoder_begun_early
from transforms.layouts.remote import is_remote

MOST_WORKERS = 16
WORKER_BYTES = 128 << 20
"""Of input for each worker. With less, two are slower than one, whose files are decoded beside it anyway."""
SHARE_BYTES = 16 << 20
"""About the size of a share that one worker reads of a large file."""

_MODULE = "pipelines.runs.crew.worker"
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Crew(Protocol):
    """shelf: what tasks leave, and what this process adds."""

    shelf: Shelf

    def perform(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Performs tasks and yields what they leave, in any order. Raises StepError, whereupon nothing more is done."""
        ...

    def rest(self) -> None:
        """Hears that no task comes any more."""
        ...

    @property
    def rows(self) -> int:
        """Rows read so far."""
        ...


def cores() -> int:
    """Counts the cores that this process may use, at most MOST_WORKERS."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        able = min(able, max(1, int(quota) // int(period)))  # "max" is no number: there is no quota
    return min(able, MOST_WORKERS)


def workers_for(paths: Sequence[str]) -> int:
    """Gives as many workers as there are cores, but no more than the input is worth; the size of a remote one is not
    known."""
    if any(map(is_remote, paths)):
        return cores()
    size = sum(os.path.getsize(path) for path in paths if os.path.exists(path))
    return min(cores(), max(1, size // WORKER_BYTES))


def begun_early(layout: Layout, release: str, pattern: str, workers: int | None) -> AbstractContextManager[None]:
    """Begins what workers, or decoders alone, will be forked from, while this process still imports.

    release: the module of its kind. pattern: of the input.
    """
    paths = [pattern] if is_remote(pattern) else paths_of(pattern, or_none=True)
    if (workers or workers_for(paths)) > 1:
        return beforehand([_MODULE, *_own([type(layout).__module__, release])])
    return decoder_begun_early(layout)


def pieces_of(layout: Layout, paths: Sequence[str]) -> list[Observe]:
    """Lists the files, large ones in shares, largest first."""
    pieces = []
    for path in paths:
        size = os.path.getsize(path) if os.path.exists(path) else 0
        shares = max(1, size // SHARE_BYTES) if isinstance(layout, SplitLayout) else 1
        pieces += [(size / shares, Observe(path, Share(number, shares))) for number in range(shares)]
    return [piece for _, piece in sorted(pieces, key=lambda sized: -sized[0])]


@contextmanager
def crew_of(road: Road, paths: Sequence[str], workers: int | None) -> Iterator[Crew]:
    """Starts a crew. workers: as many processes beside this one; 1: none; None: see `workers_for`."""
    workers = workers or workers_for(paths)
    with ExitStack() as stack:
        files = 1 if workers == 1 else workers + 1  # one for every process, which writes to no other
        handles = [stack.enter_context(tempfile.TemporaryFile(prefix="hatstream-")).fileno() for _ in range(files)]
        shelf = Shelf(handles, 0)
        if workers == 1:
            yield Alone(road, shelf)
        else:
            yield stack.enter_context(Workers(road, shelf, handles))


class Alone:
    """This process does every task itself."""

    def __init__(self, road: Road, shelf: Shelf) -> None:
        self._road, self.shelf, self.rows = road, shelf, 0

    def perform(self, tasks: Sequence[Task]) -> Iterator[Done]:
        for task in tasks:
            yield task.perform(self._road, self.shelf, self._told)

    def rest(self) -> None:
        """Changes nothing."""

    def _told(self, rows: int) -> None:
        self.rows += rows


class Workers:
    """Processes that each do one task after another; they end with this one, and before it if a task fails."""

    def __init__(self, road: Road, shelf: Shelf, handles: Sequence[int]) -> None:
        self.shelf, self.rows = shelf, 0
        self._lock = threading.Lock()
        modules = [type(part).__module__ for part in (road.layout, road.release)]
        self._fork_server = fork_server_of([_MODULE, *_own(modules)])
        self._all: list[_Worker] = []
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        try:
            for number in range(1, len(handles)):
                self._all.append(_Worker(road, handles, number, self._fork_server))
                self._idle.put(self._all[-1])
        except OSError as error:
            self._end()
            raise StepError(f"a worker process cannot be started: {reason_of(error)}") from None
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()

    def perform(self, tasks: Sequence[Task]) -> Iterator[Done]:
        with ThreadPoolExecutor(len(self._all)) as threads:
            try:
                for future in as_completed([threads.submit(self._perform, task) for task in tasks]):
                    yield future.result()
            except BaseException:  # an interrupt too: nobody waits for what is being done
                threads.shutdown(wait=False, cancel_futures=True)
                self._end()
                raise

    def rest(self) -> None:
        """Lets the workers end beside this process: that takes a while, for their memory is large."""
        for worker in self._all:
            worker.rest()

    def _perform(self, task: Task) -> Done:
        worker = self._idle.get()
        try:
            return worker.perform(task, self._told)
        finally:
            self._idle.put(worker)

    def _told(self, rows: int) -> None:
        with self._lock:
            self.rows += rows

    def _end(self) -> None:
        for worker in self._all:
            worker.end()
        self._fork_server.close()


def _own(modules: Sequence[str]) -> list[str]:
    """Picks what every worker needs of its road's modules; nothing of a caller's own, which may start threads."""
    return [module for module in modules if module.startswith("transforms.")]


class _Worker:
    """A process of pipelines/runs/crew/worker.py."""

    def __init__(self, road: Road, handles: Sequence[int], number: int, fork_server: ForkServer) -> None:
        with fork_server.another() as client:
            self._process = fork_server.fork(f"{_MODULE}:serve", [client.fileno(), *handles])
        self._ask((dict(os.environ), road, number))

    def _ask(self, what: object) -> None:
        with suppress(BrokenPipeError):  # its answer will tell
            send(self._process.asks, pickle.dumps(what))

    def perform(self, task: Task, told: Told) -> Done:
        self._ask(task)
        while isinstance(answer := self._answer(), int):
            told(answer)
        if isinstance(answer, Done):
            return answer
        raise answer

    def _answer(self) -> int | Done | Exception:
        answer = receive(self._process.answers)
        with suppress(pickle.UnpicklingError, EOFError):  # of an answer that is none, or was cut short
            reply: int | Done | Exception = pickle.loads(answer)
            return reply
        code = self._process.end()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return StepError(f"a worker process ended in the middle of its work ({how}); nothing was recorded")

    def rest(self) -> None:
        self._process.asks.close()

    def end(self) -> None:
        self._process.end()
