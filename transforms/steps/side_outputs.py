"""What Beam steps hand over beside their main output: dead letters, and what vehicles spend."""

from collections.abc import Iterator, Mapping
from typing import Generic, Literal, TypeVar

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, TaggedOutput
from apache_beam.typehints.decorators import IOTypeHints, get_type_hints

from transforms.records import REFUSED, KeyedDemand, Refused

Refusal = TaggedOutput[Literal["refused"], Refused]

Demanded = TaggedOutput[Literal["demand"], KeyedDemand]

Given = TypeVar("Given")


class Parting(beam.PTransform[Given, DoOutputsTuple], Generic[Given]):
    """A PTransform with several outputs, which Beam's type of a PTransform's output cannot say: it warns of each."""

    def default_type_hints(self) -> IOTypeHints:
        hints = IOTypeHints.from_callable(self.expand) or IOTypeHints.empty()
        given = hints._replace(output_types=None).strip_pcoll()
        return get_type_hints(self.__class__).with_defaults(given)


def dead_letters(stage: str, reasons: Mapping[str, int]) -> Iterator[Refusal]:
    """Yields a dead letter for each reason that refused rows of a batch at this stage."""
    for reason, rows in reasons.items():
        if rows:
            yield TaggedOutput(REFUSED, Refused(stage, reason, rows))
