"""Where collected messages are kept: a file each in a folder, or a message each of a Kafka topic."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipelines.errors import InputError
from transforms.atomic_files import locked, replacing
from transforms.sources.kafka_partition import KafkaSourceError, starts
from transforms.sources.topic import Topic

DELIVERY_S = 60.0


class Keep(Protocol):
    def __call__(self, message: bytes) -> None:
        """Keeps a message whole, or raises InputError or OSError."""


@contextmanager
def in_folder(folder: Path) -> Iterator[Keep]:
    """A file each, named by the UTC time of its arrival, so that names sort by time."""
    folder.mkdir(parents=True, exist_ok=True)

    def keep(message: bytes) -> None:
        name = f"vehicle-positions-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.pb"
        with locked(folder), replacing(folder / name) as file:
            file.write(message)

    yield keep


@contextmanager
def in_topic(topic: Topic) -> Iterator[Keep]:
    """A message each, confirmed before the next question is asked."""
    try:
        starts(topic)
    except KafkaSourceError as error:
        raise InputError(str(error)) from None
    producer = Producer(
        {
            "bootstrap.servers": topic.brokers,
            "enable.idempotence": True,
            "message.max.bytes": 64 << 20,
            "delivery.timeout.ms": round(DELIVERY_S * 1_000),
            "log_level": 2,  # of syslog's levels: the client's own lines would repeat while a broker is away
        }
    )

    def keep(message: bytes) -> None:
        failed: list[KafkaError] = []

        def answered(error: KafkaError | None, _: Message) -> None:
            failed.extend([error] if error else [])

        try:
            producer.produce(topic.name, message, on_delivery=answered)
            left = producer.flush(DELIVERY_S + 5)
        except KafkaException as error:
            raise InputError(f"topic {topic.name} does not take the message: {error.args[0].str()}") from None
        if failed or left:
            raise InputError(f"topic {topic.name}: no broker confirmed the message")

    yield keep
