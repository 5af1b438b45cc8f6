"""Codec of stages' and live slots' plans in ledgers.

A stage is laid on HATs: of cells, of classes of cells, or of places; it measures around their centres. `rests_on`: the
number of the newest entry that these were learned from, 0 for none. Packed: compressed, as base64.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import msgspec
import numpy as np

from dpops.levels.parts import hats_of_classes
from dpops.levels.stages import Differences, PublicHats, Stage, StageHats
from transforms.places.ground import Places, hats_of, hats_of_places
from transforms.public import EntryNumber
from transforms.recorded.units import LiveUnit, StageEntry, StageUnit

PartName = Literal["means", "classes", "places"]
PARTS: tuple[PartName, ...] = ("classes", "places")  # parts beside means, whose plans have a field of that name


class _KeptDifferences(msgspec.Struct, frozen=True):
    """Stored form of `Differences`, in CENTRE_STEP_KMH."""

    steps: str = msgspec.field(name="differences")  # packed int16
    lowest: int  # bounds of centres
    highest: int
    slot_weights: tuple[int, ...]  # forecast weight of the city in each slot


class _Kept(msgspec.Struct, frozen=True):
    """Stored plan of a stage or live slot."""

    hours: list[int]  # local start hours of slots
    step_kmh: str
    rests_on: EntryNumber
    centres: str  # (cells, slots) in 0.01 km/h, packed
    places: _KeptDifferences | None = None  # where HATs are of places


def as_stored(stage: Stage) -> dict[str, Any]:
    """Encodes a stage laid on HATs for JSON, with fractions as text."""
    laid, differences = stage.laid, stage.laid.differences  # laid: the HATs that it measures
    optional = {  # left out where empty, as in older plans
        "accounting": "" if stage.accounting == "zcdp" else stage.accounting,
        "counts_vehicles": stage.counts_vehicles,
        "least_norm": stage.least_norm,
        "classes": list(stage.classes),
        "places": None
        if differences is None
        else {
            "differences": _packed(differences.steps.astype("<i2").tobytes()),  # as bounds of centres: in 0.01 km/h
            "lowest": differences.lowest,
            "highest": differences.highest,
            "slot_weights": list(differences.slot_weights),
        },
    }
    return {name: value for name, value in optional.items() if value} | {
        "kind": stage.kind,
        "stage": stage.number,
        "stages": stage.stages,
        **{name: str(getattr(stage, name)) for name in ("share", "spread", "bound_kmh", "alpha", "exponent")},
        "step_kmh": str(laid.step_kmh),
        "counts_public": stage.counts_public,
        "levels": [[part.level, str(part.speeds), str(part.weights)] for part in stage.parts],  # parts of budgets
        "hours": list(laid.hats.hours),
        "rests_on": laid.rests_on,
        "centres": _packed(laid.of_cells.astype("<u2").tobytes()),  # centres of cells' HATs, in 0.01 km/h
    }


def of_period(entries: Sequence[StageEntry], period: str) -> list[StageEntry]:
    """Lists a period's recorded stages, in order."""
    return sorted((entry for entry in entries if entry.unit.period == period), key=lambda entry: entry.unit.stage)


def is_complete(entries: Sequence[StageEntry], period: str) -> bool:
    """Checks that all stages of a period are recorded."""
    recorded = of_period(entries, period)
    return bool(recorded) and len(recorded) == bare_stage(recorded[0].unit).stages


def part_of(unit: StageUnit | LiveUnit) -> PartName:
    """Names the part of a period that a stage or live slot is about."""
    return next((name for name in PARTS if name in unit.plan), "means")


def bare_stage(unit: StageUnit | LiveUnit) -> Stage:
    """Decodes a stage without its HATs. Raises msgspec.ValidationError."""
    stored_names = {"number": "stage", "stages": "stages", "parts": "levels"}  # by the fields of Stage
    plan = unit.plan | {name: unit.plan.get(stored) for name, stored in stored_names.items()}
    plan.pop("around", None)  # the HATs that Stage is laid on: `stage_of` alone computes them, no stored plan may
    return msgspec.convert(plan, Stage, dec_hook=_rational)


def stage_of(unit: StageUnit | LiveUnit, region: Sequence[int], places: Places | None = None) -> Stage:
    """Decodes a recorded stage. Raises ValidationError or ValueError."""
    stored, stage = msgspec.convert(unit.plan, _Kept), bare_stage(unit)
    hats = hats_under(stage, region, stored.hours, places)
    cells, differences, of_places = hats.cells, None, stored.places
    if of_places is not None and places is not None:
        steps = np.frombuffer(_unpacked(of_places.steps), "<i2").astype(np.int64)
        differences = Differences(**msgspec.structs.asdict(of_places) | {"cell": places.cell, "steps": steps})
        cells = len(region)  # places have the centres of their cells
    centres = np.frombuffer(_unpacked(stored.centres), "<u2").reshape((cells, hats.slots)).astype(np.int64)
    laid = StageHats(hats, centres, Fraction(stored.step_kmh), stored.rests_on, differences)
    return replace(stage, around=laid)


def hats_under(stage: Stage, region: Sequence[int], hours: Sequence[int], places: Places | None) -> PublicHats:
    """Lists a stage's HATs by slot: of cells, their classes, or places (ValueError without)."""
    if stage.is_of_places:
        if places is None:
            raise ValueError("a stage of places needs the places")
        return hats_of_places(places, hours)
    hats = hats_of(region, hours)
    return hats_of_classes(hats, len(stage.classes) + 1) if stage.classes else hats  # one more than inner edges


def rests_on(unit: StageUnit | LiveUnit) -> EntryNumber:
    """Reads the newest entry's number behind a stage's centres."""
    return msgspec.convert(unit.plan, _Kept).rests_on


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _rational(kind: type, text: Any) -> Any:
    """Parses a fraction from its text. Raises TypeError."""
    if kind is not Fraction or not isinstance(text, str):
        raise TypeError("numbers of a plan are text")  # which msgspec makes a ValidationError
    return Fraction(text)
