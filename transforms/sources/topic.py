"""Location of a Kafka topic, without importing Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

READ_SETTINGS: Final[Mapping[str, Any]] = {  # settings of a reader that reading each message once depends on
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Kafka topic: brokers as `host:port,...`, librdkafka's secret settings."""

    brokers: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for setting in self.settings:
            if setting in READ_SETTINGS or setting == "bootstrap.servers":
                raise ValueError(f"settings: {setting} must not be set: reading exactly depends on it")

    def __str__(self) -> str:
        return f"topic {self.name!r} at {self.brokers}"
