"""Beam's Python worker pool, bound to one address.

Beam's own pool listens on every interface and starts each worker, one per stage of a bounded job, with 3 to 10 s of
imports; here workers are forks of a process with these imports. As a program: `python -m
pipelines.runs.flink.worker_pool --address 10.0.0.5:50000`.
"""

import argparse
import multiprocessing
import os
import signal
import threading
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.utils import thread_pool_executor

from transforms.memory import keep_freed_memory

STOP_S = 10.0  # a worker's time to end before it is killed
IMPORTED = [
    "hatstream",  # first: it finds our packages before others of their names
    "apache_beam.runners.worker.sdk_worker",
    "pipelines.runs.beam.bounded",
    "pipelines.runs.stream.stream",
    "transforms.releases.periods.learned",
]
"""Imported before there is a worker. None of them starts a thread, opens a connection or draws a random number, which
two copies must not have in common."""


def main() -> None:
    """Serves a worker pool, as a program, until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="Beam's Python worker pool, bound to one address.")
    parser.add_argument("--address", required=True, help="host:port to listen on; only the engine should reach it")
    address = parser.parse_args().address
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on our matrices threads wait for one another
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    pool = _Pool()
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    server.add_insecure_port(address)
    server.start()
    asked_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked_to_end.set())
    asked_to_end.wait()
    server.stop(grace=0)
    pool.end()


class _Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Pool of workers by name; an engine's task managers may share names, as 1-1."""

    def __init__(self) -> None:
        self._fork_context = multiprocessing.get_context("forkserver")
        self._fork_context.set_forkserver_preload(IMPORTED)
        forkserver.ensure_running()  # imports now, not at the first worker
        self._workers: dict[str, list[BaseProcess]] = {}
        self._lock = threading.Lock()

    def StartWorker(self, request: Any, _context: object) -> Any:
        """Starts a worker for an engine, as a fork with all imports."""
        worker = self._fork_context.Process(target=_work, args=(request.control_endpoint.url, request.worker_id))
        try:
            with self._lock:  # only one thread at a time may ask the fork server
                worker.start()
                self._workers.setdefault(request.worker_id, []).append(worker)
        except Exception as error:  # noqa: BLE001 - the engine reports it
            return beam_fn_api_pb2.StartWorkerResponse(error=f"no worker could be started: {error}")
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, _context: object) -> Any:
        """Ends the calling engine's worker; orphans end by themselves, others' continue."""
        with self._lock:
            workers = list(self._workers.get(request.worker_id, []))
        if len(workers) == 1:
            _end(workers[0])
        elif workers:  # it is unknown which one is the caller's; that one ends by itself
            connection.wait([worker.sentinel for worker in workers], STOP_S)
        with self._lock:
            workers = self._workers.get(request.worker_id, [])
            if ended := [worker for worker in workers if not worker.is_alive()]:
                workers.remove(ended[0])  # one for each call: others that ended are of task managers yet to call
        return beam_fn_api_pb2.StopWorkerResponse()

    def end(self) -> None:
        """Ends all workers; tells all before it awaits one."""
        with self._lock:
            workers = [worker for named in self._workers.values() for worker in named]
        for worker in workers:
            worker.terminate()
        for worker in workers:
            _end(worker)


def _work(control: str, worker_id: str) -> None:
    """Runs a worker by Beam's pool's defaults. control: address of the engine's control service."""
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    keep_freed_memory()
    SdkHarness(control, worker_id=worker_id, state_cache_size=0, data_buffer_time_limit_ms=-1).run()


def _end(worker: BaseProcess) -> None:
    """Ends a worker, by force if it takes more than STOP_S."""
    worker.terminate()
    worker.join(STOP_S)
    if worker.is_alive():
        worker.kill()
        worker.join()


if __name__ == "__main__":
    main()
