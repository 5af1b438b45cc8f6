"""Beam's Python worker pool, bound to one address: it runs whatever it is sent, and asks nobody who sends.

Beam's own start listens on every interface. As a program:
`python -m pipelines.streaming.worker_pool --address 10.0.0.5:50000`.
"""

import argparse
import atexit
import os
import signal
import sys
import threading
from pathlib import Path

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer, kill_process_gracefully
from apache_beam.utils import thread_pool_executor

HOME = Path(__file__).resolve().parents[2]


def serve(address: str) -> None:
    """Serves at `host:port` until SIGTERM or SIGINT, then ends the workers it started."""
    # Workers are started as `python`: let that be this one, with nothing on its path that hides our packages.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ["PYTHONPATH"] = os.pathsep.join(path_for_workers(os.environ.get("PYTHONPATH", "")))
    if hides_us(Path.cwd()):
        os.environ["PYTHONSAFEPATH"] = "1"
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    pool = BeamFnExternalWorkerPoolServicer(use_process=True, data_buffer_time_limit_ms=-1)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    server.add_insecure_port(address)
    server.start()
    atexit.register(_end_workers, pool)
    asked_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked_to_end.set())
    asked_to_end.wait()
    server.stop(0)


def path_for_workers(path: str) -> list[str]:
    """The folders of a search path, but those with packages that have our names and are not ours."""
    return [folder for folder in path.split(os.pathsep) if folder and not hides_us(Path(folder))]


def hides_us(folder: Path) -> bool:
    """Whether Python would find other packages there in the place of ours."""
    return folder.resolve() != HOME and any((folder / name).exists() for name in ("dpops", "transforms", "pipelines"))


def _end_workers(pool: BeamFnExternalWorkerPoolServicer) -> None:
    for process in list(pool._worker_processes.values()):
        kill_process_gracefully(process)


def main() -> None:
    parser = argparse.ArgumentParser(description="Beam's Python worker pool, bound to one address.")
    parser.add_argument(
        "--address", required=True, help="host:port to listen on; only the Flink cluster should reach it"
    )
    serve(parser.parse_args().address)


if __name__ == "__main__":
    main()
