"""Checked specification, as values for the other packages."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from dpops.accountant import Limit
from dpops.allocation import Allocation
from dpops.claims import ZCDP, ApproxDP, PureDP
from dpops.forecast import Prior
from dpops.levels.defaults import Fleet
from dpops.statistics import RequestedStatistic
from pipelines.specification.identity import decisive_text
from pipelines.specification.tables import PublisherTable
from transforms.count.tally import ContributionBound
from transforms.layouts import Column, Layout
from transforms.layouts.base import FIELDS, with_heading
from transforms.layouts.open_file import ByFile
from transforms.observe.derived_speed import HeadingLimits, SpeedLimits
from transforms.observe.parse import Rules
from transforms.observe.vehicle_ids import VehicleForm
from transforms.places.ground import Ground, Hexagons, Keys
from transforms.places.hierarchy import texts_of
from transforms.releases import KINDS
from transforms.releases.periods.products import Product
from transforms.time.calendar import Locator, Timetable, Unit
from transforms.time.trips import Trips
from transforms.value import SPEED, Value

if TYPE_CHECKING:
    from pipelines.specification.levels import LevelsRelease, SpanTotal
    from pipelines.specification.parts import PartRequest, PlacesRequest


@dataclass(frozen=True, kw_only=True)
class AccountTerms:
    """Shared budget of releases: protected unit, period and limit.

    since, until: with unit vehicle-ever, the first day and the day after the last.
    """

    name: str
    unit: Unit
    timezone: str
    adjacency: str
    limit: Limit
    since: date | None = None
    until: date | None = None


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Cells of HATs. region: sorted cells, keys, or None for `occupied`.

    exact_bbox: west, south, east, north. source of the region: "timetable", "sample" of reports, or None if
    unspecified.
    """

    resolution: int
    region: tuple[int, ...] | Keys | None
    exact_bbox: tuple[Fraction, Fraction, Fraction, Fraction] | None
    source: str | None = None

    @property
    def ground(self) -> Ground:
        """The region's cells or keys."""
        return self.region if isinstance(self.region, Keys) else Hexagons(self.resolution, self.region)

    @property
    def bbox(self) -> tuple[float, float, float, float] | None:
        """Bounding box in degrees: west, south, east, north."""
        if (box := self.exact_bbox) is None:
            return None
        return float(box[0]), float(box[1]), float(box[2]), float(box[3])


@dataclass(frozen=True)
class Input:
    """Input feed.

    name, columns: layout as written. derived, turning: limits of speeds and headings derived from positions. headed:
    whether rows have headings. vehicle_form: equivalence of id spellings. keyed: fields of a row's key. no_value: codes
    of unknown speeds. chosen: columns of a built-in layout.
    """

    name: str
    columns: Mapping[str, Column] | None
    layout: Layout
    derived: SpeedLimits | None = None
    allowed_lateness_s: int = 0
    headed: bool = False
    turning: HeadingLimits | None = None
    vehicle_form: VehicleForm = "text"
    keyed: tuple[str, ...] | None = None
    no_value: tuple[float, ...] = ()
    chosen: Mapping[str, Column] = field(default_factory=dict)

    @property
    def needs_whole_periods(self) -> str:
        """Key of values derived from consecutive rows, or empty."""
        keys = {"input.derived_speed": self.derived, "input.derived_heading": self.turning}
        return next((key for key, limits in keys.items() if limits is not None), "")

    @property
    def names(self) -> tuple[str, ...]:
        """Column of each field; its name for several columns."""
        columns = {name: column for name, column in (self.columns or {}).items() if isinstance(column, str)}
        return tuple(columns.get(name, name) for name in self.fields)

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns of a row, a speed among them."""
        return self.keyed or (with_heading(FIELDS) if self.headed else FIELDS)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Division of the budget. release_shards: number of parts of a slot's cells, drawn separately."""

    allocation: Allocation
    cap: ContributionBound | None = None
    release_shards: int = 1


@dataclass(frozen=True, kw_only=True)
class Specification:
    """Checked specification. levels: release by `levels`, if requested; statistics of HATs are empty then."""

    name: str
    account: AccountTerms
    timetable: Timetable
    cells: Cells
    value: Value
    prior: Prior | None
    privacy: Privacy
    statistics: tuple[RequestedStatistic, ...]
    input: Input
    levels: "LevelsRelease | None" = None
    publisher: PublisherTable | None = None
    trips: Trips | None = None

    @cached_property
    def text(self) -> str:
        """Text that the spec_id is the hash of."""
        return decisive_text(self)

    @property
    def spec_id(self) -> str:
        """Hash of what decides a release: 16 hex digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def kind(self) -> str:
        """Kind of release, by its name in `transforms.releases`."""
        if self.levels is None:
            return "hats"
        return "levels" if self.levels.counted is None else "counts"  # these replace the mean

    @property
    def is_learned(self) -> bool:
        """Whether rows combine all entries of the ledger."""
        return KINDS[self.kind].learned

    @property
    def by_levels(self) -> "LevelsRelease":
        """The mean by `levels`. Raises ValueError for other kinds."""
        if self.levels is None:
            raise ValueError(f"specification {self.name!r} releases no mean by 'levels'")
        return self.levels

    @property
    def least(self) -> tuple[PureDP | ZCDP, ApproxDP]:
        """Least claim that a release takes from a period, and its epsilon and delta."""
        if self.levels is None:
            epsilon = self.privacy.allocation.epsilon
            return PureDP(epsilon), ApproxDP(epsilon, Fraction(0))
        return self.levels.claim, ApproxDP(self.levels.epsilon, self.levels.delta or Fraction(0))

    @property
    def products(self) -> tuple[Product, ...]:
        """Products published of a period besides its HATs."""
        return () if self.levels is None else self.levels.products

    @property
    def ground(self) -> Ground:
        """Counting keys of positions: cells, possibly cut by places."""
        return self.cells.ground if self.places is None else self.places.pieces

    @property
    def parts(self) -> "tuple[PartRequest, ...]":
        """Parts of a period beside means."""
        return () if self.levels is None else self.levels.parts

    @property
    def places(self) -> "PlacesRequest | None":
        """Places smaller than cells; None without them."""
        return None if self.levels is None else self.levels.places

    @property
    def fleet(self) -> Fleet | None:
        """Public facts of the fleet; None where unused."""
        return None if self.levels is None else self.levels.fleet

    @property
    def span(self) -> "SpanTotal | None":
        """Span of days that shares one total, if any."""
        return None if self.levels is None else self.levels.span

    @property
    def has_live(self) -> bool:
        """Whether slots are released live, ahead of their period."""
        return self.levels is not None and self.levels.live is not None

    @property
    def period_lateness_s(self) -> int | None:
        """Delay of a whole period's release in a stream."""
        return None if self.levels is None else self.levels.day_lateness_s

    def entry_slot(self, slot_s: int) -> int:
        """Finds the slot of this one's ledger entry."""
        return slot_s if self.levels is None else self.slots_of_period(slot_s)[0]

    def served_cells(self, slot_s: int) -> frozenset[str] | None:
        """Lists cells with a trip in a slot; None without a list of trips."""
        start, end = (self.timetable.text(edge_s) for edge_s in (slot_s, slot_s + self.timetable.slot_s))
        return None if self.trips is None else self.trips.cells_in(start, end)

    @property
    def trips_sentence(self) -> str:
        """Words how many HATs have rows; empty without a list of trips."""
        if self.trips is None:
            return ""
        table, region = self.timetable, self.cells.region
        cells = texts_of(region) if isinstance(region, tuple) else self.trips.cells
        total = len(cells) * len(table.weekdays) * len(table.service_minutes)
        number = self.trips.number(cells, table)
        return f"Rows only where slot.trips has a trip: {number:,} of a week's {total:,} HATs."

    @property
    def counts_are_public(self) -> bool:
        """Whether the existence of reports may be published."""
        return self.account.adjacency == "counts-public"

    @property
    def region_tells(self) -> bool:
        """Whether the region, made from reports, reveals hidden facts."""
        return self.cells.source == "sample" and not self.counts_are_public

    @property
    def files_tell(self) -> bool:
        """Whether file names, one a vehicle, reveal hidden facts."""
        return isinstance(self.input.layout, ByFile) and not self.counts_are_public

    def rules(self, calendar: Locator, vehicle_key: bytes) -> Rules:
        """Returns the rules that turn input rows into observations. vehicle_key: hashes vehicles."""
        source = self.input
        return Rules(
            grid=self.value.grid,
            units=source.layout.units,
            bbox=self.cells.bbox,
            calendar=calendar,
            vehicle_key=vehicle_key,
            derived=source.derived,
            turning=source.turning,
            vehicle_form=source.vehicle_form,
            lower=self.value.lower,
            keys=self.keys,
            no_value=source.no_value,
            is_speed=self.value.name == SPEED,
        )

    @property
    def keys(self) -> Keys | None:
        """The public keys that replace cells."""
        return self.cells.region if isinstance(self.cells.region, Keys) else None

    def slots_of_period(self, start_s: int) -> tuple[int, ...]:
        """Lists a period's slots; empty if nothing needs them."""
        if not self.privacy.allocation.needs_period:
            return ()
        days = self.timetable.period_days(self.timetable.day_of(start_s), self.account.since, self.account.until)
        return tuple(slot_s for day in days for slot_s in self.timetable.day_slots(day))
