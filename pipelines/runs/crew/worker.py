"""A worker process of a scheduled job: does one task after another, and ends when the job does, however that ends."""

import os
import pickle
import queue
import signal
import socket
import threading
from collections.abc import Sequence
from typing import IO

from pipelines.garbage import collect_seldom
from pipelines.runs.crew.spool import Shelf
from pipelines.runs.crew.tasks import Done, Road
from transforms.fork_server import ForkClient
from transforms.layouts.decoder import receive, send
from transforms.layouts.decoder_process import ask_for_decoders
from transforms.memory import keep_freed_memory


def serve(handles: Sequence[int]) -> None:
    """Does what comes on standard input: environment, road and the number of this worker's file, then tasks. Standard
    output: rows read, then what a task left or what it raised.

    handles: of who forks its decoders, and of all files of the shelf.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is interrupted decides what becomes of its workers
    collect_seldom()
    keep_freed_memory()
    client, *files = handles
    ask_for_decoders(ForkClient(socket.socket(fileno=client)))
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    threading.Thread(target=_listen, args=(os.fdopen(os.dup(0), "rb"), asked), daemon=True).start()
    environment: dict[str, str]
    road: Road
    number: int
    environment, road, number = pickle.loads(asked.get())
    os.environ.update(environment)
    shelf = Shelf(files, number)
    while True:
        task = pickle.loads(asked.get())
        answer: Done | Exception
        try:
            answer = task.perform(road, shelf, lambda rows: send(answers, pickle.dumps(rows)))
        except BrokenPipeError:
            os._exit(1)
        except Exception as error:  # noqa: BLE001 - it is raised where the task came from
            answer = error
        send(answers, pickle.dumps(answer))


def _listen(requests: IO[bytes], asked: "queue.SimpleQueue[bytes]") -> None:
    """Hands requests on. The end of them is the end of who asked: nobody waits for what is still being done."""
    while request := receive(requests):
        asked.put(request)
    os._exit(1)
