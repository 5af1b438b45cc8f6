"""Runs a Kafka broker on this machine."""

import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from hatstream_lab.servers.process import LOOPBACK, LocalServer, ServerError, class_path

_CLUSTER = "aGF0c3RyZWFtLWxvY2FsMQ"  # 16 bytes in base64, as Kafka wants them
_JAVA = ("java", "-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES = Path(__file__).with_name("kafka.properties")


class Kafka(LocalServer):
    """Ready broker at `kafka.brokers`. Raises MissingTool or ServerError."""

    ports = 2  # free `_ports`: of clients, and of the controller

    @property
    def brokers(self) -> str:
        """Kafka's bootstrap server as `host:port`."""
        return self.address

    def start(self) -> None:
        """Starts the broker, with storage made once, and waits until it answers."""
        properties, java = self._folder / "server.properties", [*_JAVA, "-cp", class_path("kafka")]
        if not properties.exists():
            port, controller = self._ports
            facts = {"host": LOOPBACK, "port": port, "controller": controller, "data": self._folder / "data"}
            properties.write_text(_PROPERTIES.read_text().format(**facts))
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
