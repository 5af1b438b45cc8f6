"""The codec of a stage's public plan: how the ledger keeps it for a stage of a period, or for a live slot."""

import base64
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from dpops.levels import Stage
from dpops.types import Int64s
from transforms.places.hierarchy import hats_of
from transforms.public import EntryNumber
from transforms.recorded.units import LiveUnit, StageUnit


class _Kept(msgspec.Struct, frozen=True):
    """What a plan says of the HATs it is laid on. hours: the local hour in which each slot begins, or the live slot.

    centres: of (cells, slots) in 0.01 km/h, packed. rests_on: 0 for no entry.
    """

    hours: list[int]
    step_kmh: str
    rests_on: EntryNumber
    centres: str


def as_stored(stage: Stage) -> dict[str, Any]:
    """Encodes a stage that is laid on HATs. Numbers are rational text."""
    around = stage.laid
    counting = {"counts_vehicles": True} if stage.counts_vehicles else {}  # plans of before say nothing of it
    return counting | {
        "kind": stage.kind,
        "stage": stage.number,
        "stages": stage.stages,
        "share": str(stage.share),
        "spread": str(stage.spread),
        "bound_kmh": str(stage.bound_kmh),
        "alpha": str(stage.alpha),
        "exponent": str(stage.exponent),
        "step_kmh": str(around.step_kmh),
        "counts_public": stage.counts_public,
        "levels": [[part.level, str(part.speeds), str(part.weights)] for part in stage.parts],
        "hours": list(around.hats.hours),
        "rests_on": around.rests_on,
        "centres": pack_centres(around.centres),
    }


def numbers_of(unit: StageUnit | LiveUnit) -> Stage:
    """Decodes a recorded stage without the HATs that it is laid on. Raises msgspec.ValidationError."""
    renamed = {"number": "stage", "stages": "stages", "parts": "levels"}
    kept = unit.plan | {name: unit.plan.get(stored) for name, stored in renamed.items()}
    kept.pop("around", None)
    return msgspec.convert(kept, Stage, dec_hook=_rational)


def stage_of(unit: StageUnit | LiveUnit, region: Sequence[int]) -> Stage:
    """Decodes a recorded stage, laid on a region's cells. Raises msgspec.ValidationError."""
    kept = msgspec.convert(unit.plan, _Kept)
    hats = hats_of(region, kept.hours)
    centres = unpack_centres(kept.centres, (hats.cells, hats.slots))
    return numbers_of(unit).on(hats, centres, Fraction(kept.step_kmh), kept.rests_on)


def rests_on(unit: StageUnit | LiveUnit) -> EntryNumber:
    """The sequence number of the newest entry that the centres were made from, 0 for none."""
    return msgspec.convert(unit.plan, _Kept).rests_on


def pack_centres(centres: Int64s) -> str:
    return base64.b64encode(zlib.compress(centres.astype("<u2").tobytes(), 9)).decode()


def unpack_centres(packed: str, shape: tuple[int, int]) -> Int64s:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<u2").reshape(shape).astype(np.int64)


def _rational(kind: type, text: Any) -> Any:
    """Fractions are kept as text."""
    if kind is not Fraction or not isinstance(text, str):
        raise TypeError("numbers of a plan are text")  # which msgspec makes a ValidationError
    return Fraction(text)
