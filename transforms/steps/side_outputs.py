"""What Beam steps hand over beside their main output: dead letters, and what vehicles spend."""

from collections.abc import Iterator, Mapping
from typing import Literal

from apache_beam.pvalue import TaggedOutput

from transforms.records import REFUSED, ExposureBytes, Refused

Refusal = TaggedOutput[Literal["refused"], Refused]

Exposed = TaggedOutput[Literal["exposure"], tuple[int, ExposureBytes]]


def dead_letters(stage: str, reasons: Mapping[str, int]) -> Iterator[Refusal]:
    """One for each reason that refused rows of a batch at this stage."""
    for reason, rows in reasons.items():
        if rows:
            yield TaggedOutput(REFUSED, Refused(stage, reason, rows))
