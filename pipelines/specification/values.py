"""A checked specification, as the few values that the rest of the project is handed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from zoneinfo import ZoneInfo

from dpops.allocation import Allocation
from dpops.forecast import Prior
from dpops.statistics import RequestedStatistic
from dpops.types import Grid
from pipelines.specification.document import AccountTable
from pipelines.specification.identity import decisive_text, spec_id_of
from pipelines.specification.levels import FleetTable, LevelsRelease, LiveTable
from transforms.count.tally import ContributionBound
from transforms.layouts import Layout
from transforms.observe.derived_speed import SpeedLimits
from transforms.time.calendar import Timetable


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Where HATs are. region: sorted cells, or None for `occupied`. exact_bbox: west, south, east, north in degrees."""

    resolution: int
    region: tuple[int, ...] | None
    exact_bbox: tuple[Fraction, Fraction, Fraction, Fraction] | None

    @property
    def bbox(self) -> tuple[float, float, float, float] | None:
        if self.exact_bbox is None:
            return None
        west, south, east, north = (float(edge) for edge in self.exact_bbox)
        return west, south, east, north


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """The public grid of speeds in km/h, and what is publicly believed of them."""

    grid: Grid
    prior: Prior | None


@dataclass(frozen=True)
class Input:
    """name, columns: of the layout, as written. derived: limits of speeds that are made from positions."""

    name: str
    columns: Mapping[str, str] | None
    layout: Layout
    derived: SpeedLimits | None = None


@dataclass(frozen=True, kw_only=True)
class Specification:
    """A checked specification.

    levels: a mean by `levels`, which then is the only statistic and not among `statistics`. fleet: what is known of it,
    where it is written. live: of a stream that releases `levels`.
    """

    name: str
    account: AccountTable
    timetable: Timetable
    allowed_lateness_s: int
    cells: Cells
    speeds: Speeds
    allocation: Allocation
    cap: ContributionBound | None
    release_shards: int
    statistics: tuple[RequestedStatistic, ...]
    levels: LevelsRelease | None
    fleet: FleetTable | None
    input: Input
    live: LiveTable | None = None

    @cached_property
    def text(self) -> str:
        """What the spec_id is the hash of."""
        return decisive_text(self)

    @property
    def spec_id(self) -> str:
        """16 hex digits: the hash of everything that decides a release."""
        return spec_id_of(self.text)

    @property
    def counts_are_public(self) -> bool:
        """Whether it may be told, and may decide what is recorded, that there are reports of a time at all."""
        return self.account.adjacency == "counts-public"

    def slots_of_period(self, start_s: int) -> tuple[int, ...]:
        """All slots of the period that one is in; none where nothing depends on them."""
        if not self.allocation.needs_period:
            return ()
        day = datetime.fromtimestamp(start_s, ZoneInfo(self.timetable.zone)).date()
        days = self.timetable.period_days(day, self.account.since, self.account.until)
        return tuple(at for day in days for at in self.timetable.day_slots(day))
