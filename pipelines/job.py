"""What a release's road is built from: the small values that its steps define."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transforms.layouts import Layout
from transforms.ledger.recording import LedgerAccount
from transforms.observe.parse import Rules
from transforms.places.ground import Ground
from transforms.recorded.units import Transaction
from transforms.releases import SlotFacts
from transforms.releases.base import ReleaseKind
from transforms.sinks.rows import PLAIN, Shape
from transforms.sources.topic import Topic

VEHICLE_SHARDS = 2


@dataclass(frozen=True)
class Outputs:
    """Where released rows go: files of each format in a folder, and messages of a topic, where there is one.

    shape: what rows and files have on request.
    """

    folder: Path
    formats: tuple[str, ...] = ()
    topic: Topic | None = None
    shape: Shape = PLAIN


NOWHERE = Outputs(Path())
"""Of a road whose rows are not published by it."""


@dataclass(frozen=True)
class Job:
    """Everything that the road needs to know, as the small values that its steps define.

    vehicle_shards: into how many parts a stream cuts the vehicles of a pane and slot; they are worked on side by side,
    and change no result. skips_unreadable: whether a file that cannot be decoded is a dead letter, and ends nothing.
    """

    layout: Layout
    slot_s: int
    rules: Rules
    ground: Ground
    release: ReleaseKind
    transaction: Transaction
    account: LedgerAccount
    outputs: Outputs
    vehicle_shards: int = VEHICLE_SHARDS
    skips_unreadable: bool = False

    @property
    def slots(self) -> Mapping[int, SlotFacts]:
        return self.release.slots

    @property
    def periods(self) -> tuple[str, ...]:
        """Periods of a closed range."""
        return tuple(dict.fromkeys(facts.period for facts in self.slots.values()))
