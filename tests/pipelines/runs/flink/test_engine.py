"""What Flink and its job server are asked, and what is made of it: an answer that never comes ends nothing."""

import json
import threading

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PortableOptions
from apache_beam.runners.portability.portable_runner import PortableRunner

from hatstream_lab.servers.process import LOOPBACK, free_ports
from pipelines.engine import EngineError
from pipelines.job import Outputs
from pipelines.runs.beam.runners import reason_of
from pipelines.runs.flink import engine as flink
from pipelines.runs.flink.engine import Cluster, Flink, FlinkJob, addresses, submit_pipeline
from pipelines.runs.stream import stream as streaming
from pipelines.specification import load
from tests import city
from tests.hostile.flink import ODD, SILENT, jobs
from tests.hostile.servers import ENDLESS, Service, answer, redirect
from transforms.errors import StepError
from transforms.ledger.head import LedgerError
from transforms.ledger.spending import AccountRefusal

JOB = "a1"
NO_JOBS = b'{"jobs": []}'


@pytest.fixture
def rest():
    """A server that answers as Flink's REST; `cluster` asks it."""
    with Service() as running:
        running.cluster = Cluster(f"{LOOPBACK}:{running.port}")
        yield running


def overviews(*states):
    """Answers of which each shows the job in one of these states, one after the other."""
    return [answer(200, json.dumps({"jobs": [{"jid": JOB, "state": state, "name": "x"}]}).encode()) for state in states]


# --- the REST of the cluster ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_an_answer_that_has_no_end_is_given_up(rest, monkeypatch, name):
    """Each byte of it comes in time."""
    monkeypatch.setattr(flink, "REST_WHOLE_S", 0.5)
    rest.answers = [ENDLESS[name]]
    with pytest.raises(OSError):  # noqa: PT011 - of any kind
        rest.cluster.has_ended(JOB)
    assert rest.cluster.state(JOB) is None


@pytest.mark.parametrize(
    ("body", "missing"),
    [*((body, 0) for body in (*ODD, b"<html>", b'{"jobs": [{"jid": "a1", "name": "x"}]}')), (NO_JOBS, 7)],
)
def test_what_is_no_overview_is_an_error_and_no_state(rest, body, missing):
    rest.answers = [answer(200, body, missing)]
    with pytest.raises(OSError, match="does not answer as the REST of Flink does"):
        rest.cluster.has_ended(JOB)
    assert rest.cluster.state(JOB) is None


@pytest.mark.parametrize(
    "odd",
    [answer(404), answer(500, b"{}"), redirect("/again"), redirect("file:///etc/passwd"), redirect("http://[::1")],
)
def test_other_answers_than_200_are_errors_and_no_redirect_is_followed(rest, odd):
    rest.answers = [odd]
    with pytest.raises(OSError, match="answers with"):
        rest.cluster.ask("/jobs/overview")
    assert len(rest.asked) == 1


@pytest.mark.parametrize("told", ["NaN", "1e400", "-1", '"x"', "null"])
def test_counters_that_are_no_counts_are_an_error(rest, told):
    name = f"0.x{flink.COUNTER}rows"
    sums = f'[{{"id": "{name}", "sum": {told}}}]'.encode()
    rest.answers = [answer(200, b'{"vertices": [{"id": "v"}]}'), answer(200, sums), answer(200, sums)]
    with pytest.raises(OSError, match="does not answer as the REST of Flink does"):
        rest.cluster.counters(JOB)


# --- a job, and the stream that it runs -------------------------------------------------------------------------------


@pytest.fixture
def hurry(monkeypatch):
    monkeypatch.setattr(flink, "CANCEL_S", 0.5)


def test_a_job_is_asked_to_end_once_and_waited_for(rest):
    rest.answers = [*overviews("RUNNING"), answer(200, b"{}"), *overviews("CANCELLING", "CANCELED")]
    FlinkJob(rest.cluster, JOB).cancel()
    assert rest.methods.count("PATCH") == 1


@pytest.mark.usefixtures("hurry")
def test_a_cluster_that_does_not_answer_has_ended_nothing():
    nobody = Cluster(f"{LOOPBACK}:{free_ports(1)[0]}")
    with pytest.raises(EngineError, match=f"job {JOB} has not ended .* it may run on"):
        FlinkJob(nobody, JOB).cancel()


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


def test_a_stream_whose_word_cannot_be_written_leaves_no_job_behind(stream, rest):
    def full(_):
        raise OSError(28, "No space left on device")

    rest.answers = [*overviews("RUNNING"), answer(200, b"{}"), *overviews("CANCELED")]
    with pytest.raises(OSError, match="No space left"):
        stream(rest.cluster, full)
    assert rest.methods.count("PATCH") == 1


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
def test_who_asks_to_stop_waits_for_no_answer_that_does_not_come(rest, silent, monkeypatch):
    """Also not for a cluster that shows no job, or does so in an answer without an end."""
    monkeypatch.setattr(flink, "STOP_S", 0.3)
    stop = threading.Event()
    stop.set()
    told = pytest.raises(EngineError, match=r"not done within 0 s of the wish to stop: .* job x.* it may run on")
    rest.answers = [answer(200, NO_JOBS, missing=0 if silent else 7)]
    with jobs(silent=silent) as port, told:
        submit(port, rest.cluster, stop)


@pytest.mark.parametrize(
    ("silent", "limit", "why"),
    [
        ("Run", "TAKEN_S", "if the job server at"),
        (None, "SHOWN_S", "the cluster at .* shows no job"),
        ("GetState", "SHOWN_S", "the cluster at .* shows no job"),
    ],
)
def test_a_job_that_nobody_takes_or_shows_is_given_up(rest, silent, limit, why, monkeypatch):
    monkeypatch.setattr(flink, limit, 0.4)
    rest.answers = [answer(200, NO_JOBS)]
    told = pytest.raises(EngineError, match=f"not done within 0 s: {why}")
    with jobs(silent=silent) as port, told:
        submit(port, rest.cluster, threading.Event())


# --- the job server -----------------------------------------------------------------------------------------------


def build(p):
    _ = p | beam.Impulse()


def test_the_job_server_takes_the_pipeline_under_its_name_and_its_steps_run_in_the_pool(monkeypatch):
    taken = []
    monkeypatch.setattr(PortableRunner, "run_pipeline", lambda _, p, options: taken.append((p, options)) or "taken")
    assert submit_pipeline(build, "hatstream-1", [*addresses("a:1", "b:2"), "--parallelism=2"], "a:1") == "taken"
    ((pipeline, options),) = taken
    portable = options.view_as(PortableOptions)
    assert (portable.job_endpoint, portable.environment_type, portable.environment_config) == ("a:1", "EXTERNAL", "b:2")
    assert options.view_as(GoogleCloudOptions).job_name == "hatstream-1"
    assert [step.full_label for step in pipeline.transforms_stack[0].parts] == ["Impulse"]


def test_a_job_server_that_does_not_answer_is_named(monkeypatch):
    def nobody(*_):
        raise grpc.FutureTimeoutError

    monkeypatch.setattr(PortableRunner, "run_pipeline", nobody)
    with pytest.raises(EngineError, match="no job server answers at a:1"):
        submit_pipeline(build, "hatstream-1", addresses("a:1", "b:2"), "a:1")


def test_an_error_of_the_pipeline_is_not_taken_for_one_of_the_engine():
    def wrong(_):
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        submit_pipeline(wrong, "hatstream-1", addresses("a:1", "b:2"), "a:1")


# --- what ends a bounded job: errors of ours are answers, other faults are tried again, but not for ever ------------

SAID = """java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
  File "transforms/steps.py", line 9, in process
    raise X
{}

\tat org.apache.beam.sdk.fn.data.BeamFnDataInboundObserver
"""


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "transforms.errors.StepError: a HAT cannot be released: too few",
            StepError("a HAT cannot be released: too few"),
        ),
        (
            "transforms.ledger.head.LedgerError: the ledger is away [while running 'record/record']",
            LedgerError("the ledger is away"),
        ),
        ("transforms.ledger.ledger._Passing: the ledger is away", LedgerError("the ledger is away")),
        ("transforms.ledger.spending.AccountRefusal: no", AccountRefusal("no")),
    ],
)
def test_an_error_of_ours_is_found_in_what_flink_says(line, error):
    reason = reason_of(SAID.format(line))
    assert (type(reason), str(reason)) == (type(error), str(error))


def test_other_errors_whose_texts_may_hold_data_are_not_shown():
    assert reason_of(SAID.format("ValueError: PLATE1 has no StepError: 7")) is None


def test_a_fault_of_the_cluster_is_tried_again_and_only_many_end_the_job():
    assert flink.fault(["worker lost"] * 7, "a:1") is None
    assert isinstance(flink.fault(["worker lost"] * 8, "a:1"), EngineError)
    assert isinstance(flink.fault(["worker lost", SAID.format("transforms.errors.StepError: no")], "a:1"), StepError)
