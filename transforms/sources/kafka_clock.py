"""Whose clock stamps a topic's messages. Where counts are secret it must be the broker's.

A producer's time may be long past when its message is appended: then the watermark, which everybody's messages have
moved meanwhile, decides what becomes of the message's reports.
"""

import logging
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from transforms.sources.kafka_partition import START_S, KafkaSourceError
from transforms.sources.topic import Topic

LOG = logging.getLogger("hatstream.kafka")

SETTING: Final = "message.timestamp.type"
BROKERS: Final = "LogAppendTime"
PRODUCER_TIME: Final = "producer-time"
"""The reason of a dead letter: a message, whatever is in it, that its producer stamped."""
_NOT_TOLD = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def check_clock(topic: Topic) -> None:
    """Raises KafkaSourceError unless the topic's messages are stamped by the broker that appends them.

    Where the broker does not tell, each message's own type decides alone.
    """
    setting = _setting(topic)
    if setting not in (None, BROKERS):
        raise KafkaSourceError(
            f"{topic} has {SETTING}={setting}: messages carry their producers' times, and where counts are secret the "
            "reports of others would decide whether one that was held up counts. Set "
            f"{SETTING}={BROKERS} on the topic; messages that it holds already will be refused as read/{PRODUCER_TIME}"
        )


def _setting(topic: Topic) -> str | None:
    """Asks for SETTING; None where it is not told. Raises KafkaSourceError if no broker answers, or knows the topic."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic.name)
    settings: dict[str, Any] = {"log_level": 2, **topic.settings, "bootstrap.servers": topic.brokers}
    admin = AdminClient(settings)  # one that is let go drops what it was asked for
    try:
        told = admin.describe_configs([asked], request_timeout=START_S)[asked].result()
    except KafkaException as error:
        if error.args[0].code() not in _NOT_TOLD:
            raise KafkaSourceError(f"{topic}: {error.args[0].name()}") from None
        LOG.warning("%s: the broker does not tell its %s; each message's own type decides", topic, SETTING)
        return None
    return told[SETTING].value
