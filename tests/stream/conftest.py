"""Real servers for the stream's tests, each started once per test run; skipped where they cannot be had."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from hatstream_lab.servers.flink import WorkerPool
from hatstream_lab.servers.kafka import Kafka
from hatstream_lab.servers.process import MissingTool, class_path
from tests.servers import unavailable
from tests.stream.cluster import JobServer
from tests.stream.minutes import chosen

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "deploy" / "flink" / "config.yaml"
QUICK = {"heartbeat.interval": "2000", "heartbeat.timeout": "60000"}
"""Settings with which a cluster soon notices that a machine is gone."""


def fetched(name):
    try:
        return class_path(name)
    except (MissingTool, RuntimeError) as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    fetched("kafka")
    with Kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def flink(tmp_path_factory):
    fetched("flink")
    with JobServer(tmp_path_factory.mktemp("flink")) as running:
        yield running


@pytest.fixture(scope="session")
def pool(tmp_path_factory):
    """Its workers find what pipelines of these tests are made of."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT))
            running = stack.enter_context(WorkerPool(tmp_path_factory.mktemp("pool")))
        yield running


@pytest.fixture
def stream_engine(flink, pool):
    """What test_engines.py runs on: to try a new engine, put it here."""
    return chosen(flink, pool)
