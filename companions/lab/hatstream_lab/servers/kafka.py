"""Runs a Kafka broker on this machine."""

import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from hatstream_lab.servers.maven import class_path
from hatstream_lab.servers.process import LOOPBACK, Server, ServerError, free_ports

READY_S = 300.0
_CLUSTER = "aGF0c3RyZWFtLWxvY2FsMQ"
_JAVA = ("java", "-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
"""


class Kafka:
    """Ready broker at `kafka.brokers`. Raises MissingTool or ServerError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._controller = free_ports(2)
        self._server: Server | None = None

    @property
    def brokers(self) -> str:
        """Kafka's bootstrap server as `host:port`."""
        return f"{LOOPBACK}:{self._port}"

    def __enter__(self) -> "Kafka":
        self._folder.mkdir(parents=True, exist_ok=True)
        text = _PROPERTIES.format(
            host=LOOPBACK, port=self._port, controller=self._controller, data=self._folder / "data"
        )
        self._properties.write_text(text)
        command = [*_JAVA, "-cp", class_path("kafka"), "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        result = subprocess.run(
            [*command, "-t", _CLUSTER, "-c", str(self._properties)], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise ServerError(f"Kafka's storage was not made:\n{(result.stdout + result.stderr)[-1_000:]}")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the broker and waits until it answers."""
        self._server = Server(
            [*_JAVA, "-cp", class_path("kafka"), "kafka.Kafka", str(self._properties)], self._folder / "broker.log"
        )
        self._server.wait(self._answers, READY_S)

    def stop(self) -> None:
        """Stops the broker, keeping its data."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def make_topic(self, name: str, partitions: int, settings: dict[str, str] | None = None) -> None:
        """Creates a topic and waits for it."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings or {})
        self.admin.create_topics([topic])[name].result()

    @cached_property
    def admin(self) -> AdminClient:
        """Client of all calls; a discarded client would drop its requests."""
        return AdminClient({"bootstrap.servers": self.brokers, "log_level": 2})

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def _answers(self) -> bool:
        """Checks that the broker is ready for requests."""
        try:
            topics: Any = self.admin.list_topics(timeout=1)
        except KafkaException:
            return False
        return bool(topics.brokers)
