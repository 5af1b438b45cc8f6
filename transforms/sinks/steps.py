"""PTransforms that publish rows: files, Kafka, Beam rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from transforms.records import SlotEstimates
from transforms.sinks.rows import PLAIN, Shape, publish_recorded, rows_of
from transforms.sources.topic import Topic


@dataclass
class PublishFiles(beam.PTransform[PCollection[SlotEstimates], PCollection[None]]):
    """Writes slots' estimates to files of each format."""

    folder: Path
    formats: tuple[str, ...]
    shape: Shape = PLAIN

    def expand(self, slots: PCollection[SlotEstimates]) -> PCollection[None]:
        writing = beam.FlatMap(publish_recorded, self.folder, self.formats, self.shape)
        return slots | "write files" >> writing.with_output_types(type(None))  # or Beam reads bytecode to find out


@dataclass
class PublishToKafka(beam.PTransform[PCollection[SlotEstimates], PCollection[None]]):
    """Publishes rows as confirmed messages. Raises ValueError."""

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


@dataclass
class ToRows(beam.PTransform[PCollection[SlotEstimates], PCollection[Any]]):
    """Converts estimates to rows, timed just before slots' ends."""

    shape: Shape
    schema: pa.Schema | None  # rows are NamedTuples with these columns; None: dicts
    may_be_late: bool  # a row's time may be before its element's; else it gets that, lest an engine drop it as late
    columns: Mapping[str, str] = field(default_factory=dict)  # result column of each of the schema's with another name

    def expand(self, slots: PCollection[SlotEstimates]) -> PCollection[Any]:
        kind: Any = dict[str, Any]
        if self.schema is not None:
            types = {pa.string(): str, pa.float64(): float, pa.int64(): int, pa.list_(pa.float64()): Sequence[float]}
            fields = []
            for column in self.schema:
                of_value: Any = Timestamp if pa.types.is_timestamp(column.type) else types[column.type]
                fields.append((column.name, of_value | None if column.nullable else of_value))
            kind = RowTypeConstraint.from_fields(fields)
        return slots | "as rows" >> beam.FlatMap(self._rows, kind).with_output_types(kind)

    def _rows(self, slot: SlotEstimates, kind: Any, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Yields a slot's rows, of type `kind`, with timestamps of their slot's end."""
        for row in rows_of(slot, self.shape):
            end = Timestamp.from_rfc3339(row["slot_end"]).predecessor()  # the last instant inside of the slot's window
            typed: Any = row
            if self.schema is not None:
                values = (row.get(self.columns.get(name, name)) for name in self.schema.names)
                fields = (
                    Timestamp.from_utc_datetime(value.astimezone(UTC)) if isinstance(value, datetime) else value
                    for value in values
                )
                typed = kind.user_type(*fields)  # Beam's NamedTuple of the schema
            yield TimestampedValue(typed, end if self.may_be_late else max(end, time))
