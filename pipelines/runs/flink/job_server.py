"""Beam's job service, by which every portable engine takes a pipeline: what is the same for all of them."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult

from pipelines.engine import EngineError

ANSWER_S = 60
"""For one answer. A job server translates a whole pipeline for it, which takes long on a busy machine."""
TAKEN_S = 120.0
"""For all of them: Beam asks some again and again, and sets some no limit."""
STOP_S = 4.0
"""Who asked to stop waits no longer for whatever is asked."""
LOOK_EVERY_S = 0.1

T = TypeVar("T")


def addresses(job_server: str, worker_pool: str) -> list[str]:
    """Lists Beam's options that say who takes the pipeline and where its Python runs, each `host:port`."""
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={job_server}",
        "--environment_type=EXTERNAL",
        f"--environment_config={worker_pool}",
        f"--job_server_timeout={ANSWER_S}",
        "--experiments=disable_logging_submission_environment",  # that lists our packages, by a pip of its own
    ]


def handed_over(
    build: Callable[[beam.Pipeline], None],
    name: str,
    options: Sequence[str],
    job_server: str,
    stop: threading.Event | None = None,
) -> PipelineResult:
    """Hands over the pipeline that `build` makes, and waits until it is taken. options: Beam's, `addresses` among them.

    Raises EngineError where no job server answers in TAKEN_S, or in STOP_S once `stop` is set.
    """
    p = beam.Pipeline(options=PipelineOptions([*options, f"--job_name={name}"]))
    build(p)
    try:
        return answer_of(job_server, p.run, TAKEN_S, stop or threading.Event())
    except TimeoutError as error:
        raise EngineError(f"{error}: if the job server at {job_server} takes job {name} yet, it may run on") from None


def answer_of(job_server: str, ask: Callable[[], T], within_s: float, stop: threading.Event) -> T:
    """Waits for what `ask` gives, which asks a job server. It has a thread of its own, for an answer may have no end.

    Raises TimeoutError after so many seconds, or STOP_S after `stop` is set; EngineError where nobody answers.
    """
    given: Future[T] = Future()

    def run() -> None:
        try:
            given.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - it is raised again, where it is waited for
            given.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    until, told = time.monotonic() + within_s, f"not done within {within_s:.0f} s"
    while not wait([given], LOOK_EVERY_S).done:
        if stop.is_set() and until > time.monotonic() + STOP_S:
            until, told = time.monotonic() + STOP_S, f"not done within {STOP_S:.0f} s of the wish to stop"
        if time.monotonic() > until:
            raise TimeoutError(told)
    try:
        return given.result()
    except Exception as error:
        if not type(error).__module__.startswith("grpc"):
            raise
        raise EngineError(f"no job server answers at {job_server}") from None
