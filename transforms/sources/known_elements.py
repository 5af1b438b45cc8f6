"""Elements that are known when a job is built."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection


@dataclass
class KnownElements(beam.PTransform[PBegin, PCollection[Any]]):
    """Hands over these elements. Beam's own `Create` has a step whose name is a line number of Beam's source: a
    savepoint, which finds its steps by name, would not outlive a new Beam."""

    elements: Sequence[Any]

    def expand(self, begin: PBegin) -> PCollection[Any]:
        return begin | "impulse" >> beam.Impulse() | "each" >> beam.FlatMap(self._each)

    def _each(self, _: bytes) -> Sequence[Any]:
        return self.elements
