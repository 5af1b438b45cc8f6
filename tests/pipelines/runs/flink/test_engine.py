"""A job is ended by the cluster's own word: an answer that does not come, or is none, is not taken for it."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import apache_beam as beam
import pytest

from hatstream_lab.servers.process import LOOPBACK, free_ports
from pipelines.engine import EngineError
from pipelines.job import Outputs
from pipelines.runs.flink import engine as flink
from pipelines.runs.flink import engine as job_server
from pipelines.runs.flink.engine import Flink, FlinkJob
from pipelines.runs.flink.rest import Cluster
from pipelines.runs.stream import stream as streaming
from pipelines.specification import load
from tests import city
from tests.hostile.flink import SILENT, jobs

JOB = "a1"


class Rest(BaseHTTPRequestHandler):
    """Answers as the server's `says`, a text or the states of JOB one after the other; counts what is cancelled."""

    def do_GET(self):
        says = self.server.says
        states = says if isinstance(says, list) else []
        state = states.pop(0) if len(states) > 1 else "".join(states)
        self._answer(json.dumps({"jobs": [{"jid": JOB, "state": state, "name": "x"}]}) if state else says)

    def do_PATCH(self):
        self.server.cancelled += 1
        self._answer("{}")

    def _answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text) + self.server.missing))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@contextmanager
def rest(says, missing=0):
    with ThreadingHTTPServer((LOOPBACK, 0), Rest) as server:
        server.says, server.missing, server.cancelled = says, missing, 0
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server, Cluster(f"{LOOPBACK}:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hurry(monkeypatch):
    monkeypatch.setattr(flink, "CANCEL_S", 0.5)


def test_a_job_is_asked_to_end_once_and_waited_for():
    with rest(["RUNNING", "CANCELLING", "CANCELED"]) as (server, cluster):
        FlinkJob(cluster, JOB).cancel()
    assert server.cancelled == 1


@pytest.mark.usefixtures("hurry")
def test_a_cluster_that_does_not_answer_has_ended_nothing():
    nobody = Cluster(f"{LOOPBACK}:{free_ports(1)[0]}")
    with pytest.raises(EngineError, match=f"job {JOB} has not ended .* it may run on"):
        FlinkJob(nobody, JOB).cancel()


@pytest.mark.parametrize(("says", "missing"), [("<html>", 0), ('{"jobs": []}', 7)])
def test_what_is_no_answer_of_flink_is_none(says, missing):
    with rest(says, missing) as (_, cluster):
        with pytest.raises(OSError, match="does not answer as the REST of Flink does"):
            cluster.has_ended(JOB)
        assert cluster.state(JOB) is None


class Taken:
    """An engine that has the stream's job already."""

    def __init__(self, cluster):
        self._cluster = cluster

    def submit(self, _build, _name, _stop):
        return FlinkJob(self._cluster, JOB)


@pytest.fixture
def stream(tmp_path, hatstream):
    """Runs a stream that Flink has taken; how many jobs it cancelled, and what it raised."""
    city.opened(tmp_path, hatstream)
    spec = load(tmp_path / "spec.toml")
    place = streaming.AccountLocation(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "ledger.key")
    start_s = streaming.first_slot(spec, "2026-03-01", None)
    source = streaming.folder_source(spec, tmp_path, start_s)
    made = streaming.prepare(spec, start_s, source, place, Outputs(tmp_path / "out"))
    stop = threading.Event()

    def run(cluster, say=lambda _: None):
        streaming.run(spec, made, place, Taken(cluster), stop, say)

    run.stop = stop
    return run


def test_a_stream_whose_word_cannot_be_written_leaves_no_job_behind(stream):
    def full(_):
        raise OSError(28, "No space left on device")

    with rest(["RUNNING", "CANCELED"]) as (server, cluster), pytest.raises(OSError, match="No space left"):
        stream(cluster, full)
    assert server.cancelled == 1


@pytest.mark.usefixtures("hurry")
def test_a_stream_that_cannot_be_ended_does_not_say_that_it_was(stream):
    said = []
    stream.stop.set()
    with pytest.raises(EngineError, match="it may run on"):
        stream(Cluster(f"{LOOPBACK}:{free_ports(1)[0]}"), said.append)
    assert [line for line in said if "state" in line] == []


def test_a_job_always_checkpoints_and_finishes_bundles_before_it_does():
    chosen = Flink(job_server="a:1", worker_pool="b:2", rest="c:3", parallelism=2, checkpoint_s=0.5).options
    assert {"--checkpointing_interval=500", "--finish_bundle_before_checkpointing", "--streaming"} <= set(chosen)


def submit(port, cluster, stop):
    engine = Flink(job_server=f"{LOOPBACK}:{port}", worker_pool=f"{LOOPBACK}:1", rest=cluster.rest)
    engine.submit(lambda p: p | beam.Impulse(), "x", stop)


@pytest.mark.parametrize("silent", [*SILENT, None])
def test_who_asks_to_stop_waits_for_no_answer_that_does_not_come(silent, monkeypatch):
    """Also not for a cluster that shows no job, or does so in an answer without an end."""
    monkeypatch.setattr(job_server, "STOP_S", 0.3)
    stop = threading.Event()
    stop.set()
    told = pytest.raises(EngineError, match=r"not done within 0 s of the wish to stop: .* job x.* it may run on")
    with jobs(silent=silent) as port, rest('{"jobs": []}', missing=0 if silent else 7) as (_, cluster), told:
        submit(port, cluster, stop)


@pytest.mark.parametrize(
    ("silent", "limit", "why"),
    [
        ("Run", "engine.TAKEN_S", "if the job server at"),
        (None, "engine.SHOWN_S", "the cluster at .* shows no job"),
        ("GetState", "engine.SHOWN_S", "the cluster at .* shows no job"),
    ],
)
def test_a_job_that_nobody_takes_or_shows_is_given_up(silent, limit, why, monkeypatch):
    monkeypatch.setattr(f"pipelines.runs.flink.{limit}", 0.4)
    told = pytest.raises(EngineError, match=f"not done within 0 s: {why}")
    with jobs(silent=silent) as port, rest('{"jobs": []}') as (_, cluster), told:
        submit(port, cluster, threading.Event())
