"""A checked specification, as the few values that the rest of the project is handed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from dpops.accountant import Limit
from dpops.allocation import Allocation
from dpops.claims import ZCDP, ApproxDP, PureDP
from dpops.forecast import Prior
from dpops.levels.defaults import Fleet
from dpops.statistics import RequestedStatistic
from pipelines.specification.identity import decisive_text, spec_id_of
from pipelines.specification.places import ClassesAsked, PlacesAsked, PublisherTable
from pipelines.specification.span_total import SpanTotal
from transforms.count.tally import ContributionBound
from transforms.layouts import Column, Layout
from transforms.layouts.base import FIELDS, with_heading
from transforms.layouts.open_file import ByFile
from transforms.observe.derived_speed import HeadingLimits, SpeedLimits
from transforms.observe.parse import Rules
from transforms.observe.vehicle_ids import VehicleForm
from transforms.places.ground import Ground, Hexagons, Keys
from transforms.releases.periods.products import Product
from transforms.releases.registry import KINDS
from transforms.time.calendar import Locator, Timetable, Unit
from transforms.value import Value

if TYPE_CHECKING:
    from pipelines.specification.levels import LevelsRelease


@dataclass(frozen=True, kw_only=True)
class AccountTerms:
    """The budget that releases share: whom it protects, in which stretch of time, and how much may be spent.

    since, until: of unit vehicle-ever, the first day and the day after the last.
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
    """Where HATs are. region: sorted cells, keys, or None for `occupied`. exact_bbox: west, south, east, north.

    source: of the region: "timetable", "sample" of reports, or None where the specification does not say.
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
        if self.exact_bbox is None:
            return None
        west, south, east, north = map(float, self.exact_bbox)
        return west, south, east, north


@dataclass(frozen=True)
class Input:
    """The feed. name, columns: of the layout, as written. derived, turning: limits of speeds and headings that are made
    of positions. headed: whether rows say which way a vehicle goes. vehicle_form: which spellings of an id are one.
    keyed: fields of rows that name a key. no_value: speeds that stand for unknown. chosen: columns of a layout with its
    own.
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
        """What is derived from a vehicle's consecutive rows, by its key; or empty."""
        keys = {"input.derived_speed": self.derived, "input.derived_heading": self.turning}
        return next((key for key, limits in keys.items() if limits is not None), "")

    @property
    def names(self) -> tuple[str, ...]:
        """The column of each field; where several hold one, the field's own name."""
        columns = ((name, (self.columns or {}).get(name, name)) for name in self.fields)
        return tuple(column if isinstance(column, str) else name for name, column in columns)

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns of a row, a speed among them."""
        return self.keyed or (with_heading(FIELDS) if self.headed else FIELDS)


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """How the budget is divided: over slots and HATs, each vehicle's contribution bounded by `cap`; or over `levels`.

    release_shards: into how many parts the cells of a slot are cut, each drawn by itself.
    """

    allocation: Allocation
    cap: ContributionBound | None = None
    release_shards: int = 1
    levels: "LevelsRelease | None" = None


@dataclass(frozen=True)
class ChosenKind:
    """The kind of release that a table of its own asks for. options: what that table says."""

    name: str
    options: Any


@dataclass(frozen=True, kw_only=True)
class Specification:
    """A checked specification. prior: what is publicly believed of the value.

    statistics: of HATs; none where a mean by `levels` is the only one. chosen: the kind of release that it names by a
    table; None where its statistics say which.
    """

    name: str
    account: AccountTerms
    timetable: Timetable
    cells: Cells
    value: Value
    prior: Prior | None
    privacy: Privacy
    statistics: tuple[RequestedStatistic, ...]
    input: Input
    chosen: ChosenKind | None = None
    publisher: PublisherTable | None = None

    @cached_property
    def text(self) -> str:
        """What the spec_id is the hash of."""
        return decisive_text(self)

    @property
    def spec_id(self) -> str:
        """16 hex digits: the hash of everything that decides a release."""
        return spec_id_of(self.text)

    @property
    def kind(self) -> str:
        """The name of what is released, in `transforms.releases.registry`."""
        if self.chosen is not None:
            return self.chosen.name
        if self.levels is None:
            return "hats"
        return "levels" if self.levels.counted is None else "counts"

    @property
    def kind_options(self) -> Any:
        """What is asked of its kind of release alone; None where nothing is."""
        return self.levels if self.chosen is None else self.chosen.options

    @property
    def is_learned(self) -> bool:
        """Whether rows say what all entries of the ledger teach; else each has its own noisy value."""
        return KINDS[self.kind].learned

    @property
    def levels(self) -> "LevelsRelease | None":
        """The mean by `levels`, if it is asked for."""
        return self.privacy.levels

    @property
    def by_levels(self) -> "LevelsRelease":
        """The mean by `levels` of a specification of that kind. Raises ValueError for another."""
        if self.levels is None:
            raise ValueError(f"specification {self.name!r} releases no mean by 'levels'")
        return self.levels

    @property
    def least(self) -> tuple[PureDP | ZCDP, ApproxDP]:
        """The least that one period is debited where anything is released, and the epsilon and delta that it is of."""
        if self.levels is None:
            epsilon = self.privacy.allocation.epsilon
            return PureDP(epsilon), ApproxDP(epsilon, Fraction(0))
        return self.levels.claim, ApproxDP(self.levels.epsilon, self.levels.delta or Fraction(0))

    @property
    def products(self) -> tuple[Product, ...]:
        """What is published of a period besides its HATs."""
        return () if self.levels is None else self.levels.products

    @property
    def classes(self) -> ClassesAsked | None:
        """The speed classes that a part of the total is spent on, if any."""
        return None if self.levels is None else self.levels.classes

    @property
    def ground(self) -> Ground:
        """What positions are counted under where they are released: the region's cells, or these cut by places."""
        return self.cells.ground if self.places is None else self.places.pieces

    @property
    def places(self) -> PlacesAsked | None:
        """Places smaller than cells, where a release looks at them."""
        return None if self.levels is None else self.levels.places

    @property
    def fleet(self) -> Fleet | None:
        """What is known of the fleet, where a release needs it."""
        return None if self.levels is None else self.levels.fleet

    @property
    def span(self) -> SpanTotal | None:
        """The days that one total is given for, where a release has such a total."""
        return None if self.levels is None else self.levels.span

    @property
    def has_live(self) -> bool:
        """Whether slots are released live, before their period as a whole."""
        return self.levels is not None and self.levels.live is not None

    @property
    def period_lateness_s(self) -> int | None:
        """So long after its end a stream releases a period as a whole; None where none does."""
        return None if self.levels is None else self.levels.day_lateness_s

    def entry_slot(self, slot_s: int) -> int:
        """Finds the slot whose entry in the ledger stands for this one: the first of a period that is one vector."""
        return slot_s if self.levels is None else self.slots_of_period(slot_s)[0]

    @property
    def counts_are_public(self) -> bool:
        """Whether it may be told, and may decide what is recorded, that there are reports of a time at all."""
        return self.account.adjacency == "counts-public"

    @property
    def region_tells(self) -> bool:
        """Whether the region, which is public, says what is to be hidden: it was made from reports."""
        return self.cells.source == "sample" and not self.counts_are_public

    @property
    def files_tell(self) -> bool:
        """Whether the names of files, which are public, say what is to be hidden: each file is of one vehicle."""
        return isinstance(self.input.layout, ByFile) and not self.counts_are_public

    def rules(self, calendar: Locator, vehicle_key: bytes) -> Rules:
        """Says which rows of its input become observations, with vehicles hashed by this key."""
        source, box = self.input, self.cells.bbox
        return Rules(
            grid=self.value.grid,
            units=source.layout.units,
            bbox=box,
            calendar=calendar,
            vehicle_key=vehicle_key,
            derived=source.derived,
            turning=source.turning,
            vehicle_form=source.vehicle_form,
            lower=self.value.lower,
            keys=self.keys,
            no_value=source.no_value,
        )

    @property
    def keys(self) -> Keys | None:
        """The public keys that stand in the place of cells."""
        return self.cells.region if isinstance(self.cells.region, Keys) else None

    def slots_of_period(self, start_s: int) -> tuple[int, ...]:
        """Lists all slots of the period that one is in; none where nothing depends on them."""
        if not self.privacy.allocation.needs_period:
            return ()
        day = datetime.fromtimestamp(start_s, ZoneInfo(self.timetable.zone)).date()
        days = self.timetable.period_days(day, self.account.since, self.account.until)
        return tuple(slot_s for day in days for slot_s in self.timetable.day_slots(day))
