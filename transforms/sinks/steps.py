"""The PTransform that writes files of released rows."""

from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.pvalue import PCollection

from transforms.errors import StepError, reason_of, recorded_but
from transforms.records import SlotEstimates
from transforms.sinks.files import publish_slot
from transforms.sinks.published import OtherValues
from transforms.sinks.rows import PLAIN, Shape


@dataclass
class PublishFiles(beam.PTransform[PCollection[SlotEstimates], PCollection[None]]):
    """The estimates of a slot -> one file of each format in a folder."""

    folder: Path
    formats: tuple[str, ...]
    shape: Shape = PLAIN

    def expand(self, slots: PCollection[SlotEstimates]) -> PCollection[None]:
        writing = beam.ParDo(_PublishFiles(self.folder, self.formats, self.shape))
        return slots | "write files" >> writing.with_output_types(type(None))  # or Beam reads bytecode to find out


class _PublishFiles(beam.DoFn):
    def __init__(self, folder: Path, formats: tuple[str, ...], shape: Shape) -> None:
        self._folder, self._formats, self._shape = folder, formats, shape

    def process(self, slot: SlotEstimates) -> None:
        try:
            publish_slot(slot, self._folder, self._formats, self._shape)
        except OtherValues as error:
            raise StepError(str(error)) from None
        except OSError as error:
            raise recorded_but(f"{error.filename or self._folder}: {reason_of(error)}") from None
