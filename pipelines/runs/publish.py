"""Where a scheduled job's estimates go: files of a folder, and messages of a topic."""

from collections.abc import Iterable

from pipelines.job import Outputs
from transforms.records import SlotEstimates
from transforms.sinks.files import publish_recorded


def publish(estimates: Iterable[SlotEstimates], outputs: Outputs) -> None:
    """Publishes each slot when it is there; all messages are confirmed at the end. Raises StepError."""
    if outputs.topic is None:
        for slot in estimates:
            _write(slot, outputs)
        return
    from transforms.sinks.kafka import Sender

    sender = Sender(outputs.topic, outputs.shape)
    for slot in estimates:
        _write(slot, outputs)
        sender.put(slot)
    sender.wait()


def _write(slot: SlotEstimates, outputs: Outputs) -> None:
    publish_recorded(slot, outputs.folder, outputs.formats, outputs.shape)
