"""The PTransforms that hand released rows on: to files, and to a Kafka topic."""

from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.pvalue import PCollection

from transforms.records import SlotEstimates
from transforms.sinks.files import publish_recorded
from transforms.sinks.rows import PLAIN, Shape
from transforms.sources.topic import Topic


@dataclass
class PublishFiles(beam.PTransform[PCollection[SlotEstimates], PCollection[None]]):
    """The estimates of a slot -> one file of each format in a folder."""

    folder: Path
    formats: tuple[str, ...]
    shape: Shape = PLAIN

    def expand(self, slots: PCollection[SlotEstimates]) -> PCollection[None]:
        writing = beam.FlatMap(publish_recorded, self.folder, self.formats, self.shape)
        return slots | "write files" >> writing.with_output_types(type(None))  # or Beam reads bytecode to find out


@dataclass
class PublishToKafka(beam.PTransform[PCollection[SlotEstimates], PCollection[None]]):
    """The estimates of a slot -> one message per row; all are confirmed before the bundle ends.

    Raises ValueError for settings of the topic that sending safely depends on.
    """

    topic: Topic
    shape: Shape = PLAIN

    def __post_init__(self) -> None:
        from transforms.sinks.kafka import check_settings  # and Kafka's client with it

        check_settings(self.topic)

    def expand(self, slots: PCollection[SlotEstimates]) -> PCollection[None]:
        return slots | "send" >> beam.ParDo(_Send(self.topic, self.shape)).with_output_types(type(None))


class _Send(beam.DoFn):
    def __init__(self, topic: Topic, shape: Shape) -> None:
        self._topic, self._shape = topic, shape

    def setup(self) -> None:
        from transforms.sinks.kafka import Sender

        self._sender = Sender(self._topic, self._shape)

    def process(self, slot: SlotEstimates) -> None:
        self._sender.put(slot)

    def finish_bundle(self) -> None:
        self._sender.wait()
