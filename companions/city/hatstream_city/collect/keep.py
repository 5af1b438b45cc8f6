"""Stores collected messages, in a folder or Kafka topic."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatstream.api import InputError, write_whole

Keep = Callable[[bytes], None]
"""Keeps a new message whole, or raises InputError or OSError."""


@contextmanager
def in_folder(folder: Path) -> Iterator[Keep]:
    """Stores each message as a file named by its UTC arrival time."""
    folder.mkdir(parents=True, exist_ok=True)

    def keep(message: bytes) -> None:
        write_whole(folder / f"vehicle-positions-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.pb", message)

    yield keep


START_S, DELIVERY_S = 20.0, 60.0
"""Most seconds for a broker's first answer, and until a message is confirmed."""


@contextmanager
def in_topic(topic: Any) -> Iterator[Keep]:
    """Sends each message to a topic and awaits confirmation."""
    from confluent_kafka import KafkaException, Producer  # an extra

    producer = Producer(
        {
            "bootstrap.servers": topic.brokers,
            "enable.idempotence": True,
            "message.max.bytes": 64 << 20,
            "delivery.timeout.ms": round(DELIVERY_S * 1_000),
            "log_level": 2,  # of syslog's levels: the client's own lines would repeat while a broker is away
        }
    )
    try:
        is_there = topic.name in producer.list_topics(timeout=START_S).topics
    except KafkaException as error:
        raise InputError(f"{topic}: no answer from a broker ({error.args[0].str()})") from None
    if not is_there:
        raise InputError(f"{topic} does not exist")

    def keep(message: bytes) -> None:
        failed: list[Any] = []

        def answered(error: Any, _: Any) -> None:
            failed.extend([error] if error else [])

        try:
            producer.produce(topic.name, message, on_delivery=answered)
            unsent = producer.flush(DELIVERY_S + 5)
        except KafkaException as error:
            raise InputError(f"topic {topic.name} does not take the message: {error.args[0].str()}") from None
        if failed or unsent:
            raise InputError(f"topic {topic.name}: no broker confirmed the message")

    yield keep
