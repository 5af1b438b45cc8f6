"""A pipeline is handed to a job server with its name and its engine's options; nobody there is an engine's error."""

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PortableOptions
from apache_beam.runners.portability.portable_runner import PortableRunner

from pipelines.engine import EngineError
from pipelines.runs.flink.engine import addresses, submit_pipeline


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
