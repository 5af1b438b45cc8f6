"""IUDX bus feeds: one JSON array, or JSON lines."""

from transforms.layouts.base import LINES, WHOLE_ARRAY, OwnLayout, Units
from transforms.layouts.mapped.json import JsonRecords
from transforms.value import PER_UNIT

COLUMNS = ("license_plate", "observationDateTime", "location.coordinates.1", "location.coordinates.0", "speed")

LAYOUT = OwnLayout(
    JsonRecords(Units("iso", PER_UNIT["km/h"]), COLUMNS),
    form="json",
    columns=COLUMNS,
    known_by=set(COLUMNS),
    records=(LINES, WHOLE_ARRAY),
)
