"""Runs a Kafka broker on this machine."""

import subprocess
from functools import cached_property
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from hatstream_lab.servers.maven import class_path
from hatstream_lab.servers.process import LOOPBACK, LocalServer, ServerError

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


class Kafka(LocalServer):
    """Ready broker at `kafka.brokers`. Raises MissingTool or ServerError."""

    ports = 2

    @property
    def brokers(self) -> str:
        """Kafka's bootstrap server as `host:port`."""
        return self.address

    def start(self) -> None:
        """Starts the broker, with storage made once, and waits until it answers."""
        properties, java = self._folder / "server.properties", [*_JAVA, "-cp", class_path("kafka")]
        if not properties.exists():
            port, controller = self._ports
            text = _PROPERTIES.format(host=LOOPBACK, port=port, controller=controller, data=self._folder / "data")
            properties.write_text(text)
            command = [*java, "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", _CLUSTER, "-c"]
            result = subprocess.run([*command, str(properties)], capture_output=True, text=True, check=False)
            if result.returncode:
                raise ServerError(f"Kafka's storage was not made:\n{(result.stdout + result.stderr)[-1_000:]}")
        self.run([*java, "kafka.Kafka", str(properties)], "broker.log", self._answers)

    def make_topic(self, name: str, partitions: int, settings: dict[str, str] | None = None) -> None:
        """Creates a topic and waits for it."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings or {})
        self.admin.create_topics([topic])[name].result()

    @cached_property
    def admin(self) -> AdminClient:
        """Client of all calls; a discarded client would drop its requests."""
        return AdminClient({"bootstrap.servers": self.brokers, "log_level": 2})

    def _answers(self) -> bool:
        """Checks that the broker is ready for requests."""
        try:
            topics: Any = self.admin.list_topics(timeout=1)
        except KafkaException:
            return False
        return bool(topics.brokers)
