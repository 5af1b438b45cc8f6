"""Checked specification, as values for other packages, and the text of its identity."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from fractions import Fraction
from functools import cached_property
from typing import Any

import msgspec

from dpops.accountant import Limit
from dpops.allocation import Allocation
from dpops.claims import ZCDP, ApproxDP, PureDP
from dpops.forecast import Prior
from dpops.levels.defaults import Fleet
from dpops.mechanism import DECIDES
from dpops.statistics import COUNT, RequestedStatistic
from pipelines.specification.levels import LevelsRelease, SpanTotal
from pipelines.specification.parts import PartRequest, PlacesRequest
from pipelines.specification.tables import PublisherTable
from transforms.count.tally import ContributionBound
from transforms.layouts import Column, Layout
from transforms.layouts.base import FIELDS, with_heading
from transforms.layouts.mapped.csv import CsvTable
from transforms.layouts.mapped.json import JsonRecords
from transforms.layouts.open_file import ByFile
from transforms.observe.derived_speed import HeadingLimits, SpeedLimits
from transforms.observe.parse import Rules
from transforms.observe.vehicle_ids import VehicleForm
from transforms.places.ground import Ground, Hexagons, Keys, texts_of
from transforms.recorded.units import VECTOR
from transforms.releases import KINDS
from transforms.releases.periods.products import Product
from transforms.time.calendar import WEEKDAYS, Locator, Timetable, Unit
from transforms.time.trips import Trips
from transforms.value import SPEED, Value

DECISIVE = ("name", "unit", "timezone", "adjacency", "since", "until")  # all of an account but its limit


@dataclass(frozen=True, kw_only=True)
class AccountTerms:
    """Shared budget of releases: protected unit, period and limit."""

    name: str
    unit: Unit
    timezone: str
    adjacency: str
    limit: Limit
    since: date | None  # with unit vehicle-ever: the first day
    until: date | None  # likewise: the day after the last


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
    derived: SpeedLimits | None
    allowed_lateness_s: int
    headed: bool
    turning: HeadingLimits | None
    vehicle_form: VehicleForm
    keyed: tuple[str, ...] | None
    no_value: tuple[float, ...]
    chosen: Mapping[str, Column]

    @property
    def needs_whole_periods(self) -> str:
        """Key of the option that derives values from consecutive rows, or empty."""
        keys = {"input.derived_speed": self.derived, "input.derived_heading": self.turning}
        return next((key for key, limits in keys.items() if limits is not None), "")

    @property
    def names(self) -> tuple[str, ...]:
        """Column of each field, or the field's name if it has none or several."""
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
    cap: ContributionBound | None
    release_shards: int


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
    levels: LevelsRelease | None
    publisher: PublisherTable | None
    trips: Trips | None

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
        return "levels" if self.levels.counted is None else "counts"  # counts are released in place of the mean

    @property
    def is_learned(self) -> bool:
        """Whether rows combine all entries of the ledger."""
        return KINDS[self.kind].learned

    @property
    def by_levels(self) -> LevelsRelease:
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
    def parts(self) -> tuple[PartRequest, ...]:
        """Parts of a period beside means."""
        return () if self.levels is None else self.levels.parts

    @property
    def places(self) -> PlacesRequest | None:
        """Places smaller than cells; None without them."""
        return None if self.levels is None else self.levels.places

    @property
    def fleet(self) -> Fleet | None:
        """Public facts of the fleet; None where unused."""
        return None if self.levels is None else self.levels.fleet

    @property
    def span(self) -> SpanTotal | None:
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

    def served_cells(self, slot_s: int) -> frozenset[str] | None:
        """Lists cells with a trip in a slot; None without a list of trips."""
        start, end = (self.timetable.text(edge_s) for edge_s in (slot_s, slot_s + self.timetable.slot_s))
        return None if self.trips is None else self.trips.cells_in(start, end)

    @property
    def trips_sentence(self) -> str:
        """Words how many HATs have rows; empty without a list of trips."""
        if self.trips is None:
            return ""
        timetable, region = self.timetable, self.cells.region
        cells = texts_of(region) if isinstance(region, tuple) else self.trips.cells
        total = len(cells) * len(timetable.weekdays) * len(timetable.service_minutes)
        number = self.trips.count_hats(cells, timetable)
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
        """Lists starts of slots in a slot's period; empty if no plan needs them."""
        if not self.privacy.allocation.needs_period:
            return ()
        days = self.timetable.period_days(self.timetable.day_of(start_s), self.account.since, self.account.until)
        return tuple(slot_s for day in days for slot_s in self.timetable.day_slots(day))


def decisive_text(spec: Specification) -> str:
    """Returns canonical JSON of all that decides a release.

    Excludes names, the account's limit, lateness, coarser products. [speed] has "prior": null always, as the first
    versions did: a prior counts as an option of mechanisms. Keys of later versions are written only where not default.
    """
    table, value, keys, cells, levels = spec.timetable, spec.value, spec.keys, spec.cells, spec.levels
    days = {} if table.weekdays == WEEKDAYS else {"weekdays": list(table.weekdays)}
    plain: dict[str, Any] = {
        "account": msgspec.to_builtins({name: getattr(spec.account, name) for name in DECISIVE}),
        "slot": {"minutes": table.slot_minutes, "service": table.service_text, **days},
        "privacy": _privacy(spec),
        "input": _input(spec),
    }
    if keys is not None:
        plain["places"] = {"keys": keys.names, "above": keys.groups}  # groups are to keys as parents are to cells
    else:
        plain["cells"] = {
            "resolution": cells.resolution,
            "region": "occupied" if cells.region is None else [f"{cell:x}" for cell in cells.region],
            "bbox": None if cells.exact_bbox is None else [str(edge) for edge in cells.exact_bbox],
        }
    if value.name == SPEED:
        plain["speed"] = {"upper_kmh": str(value.grid.upper), "grid_kmh": str(value.grid.step), "prior": None}
    else:
        bounds = {"lower": str(value.lower), "upper": str(value.lower + value.grid.upper)}
        plain["value"] = {"name": value.name, "unit": value.unit, **bounds}
    if levels is None:
        plain["statistic"] = [
            {
                "name": stat.name,
                "mechanism": stat.mechanism.name,
                "share": str(stat.share),
                "options": {
                    # `statistic` repeats `name`: left out, but where DECIDES keeps it in ids that always had both
                    option.name: getattr(stat.mechanism, option.name)
                    for option in fields(stat.mechanism)  # type: ignore[arg-type]
                    if option.name != "statistic" or option.metadata.get(DECIDES)
                },
            }
            for stat in spec.statistics
        ]
    else:
        name = "mean" if levels.counted is None else COUNT.name
        plain["statistic"] = [{"name": name, "mechanism": VECTOR, "options": levels.text()}]
        for part in levels.parts:
            part.describe(plain)  # adds its tables to `plain`
        if levels.fleet_is_declared:
            fleet = msgspec.to_builtins(levels.fleet)
            fleet["profile"] = {name: number for name, number in fleet["profile"].items() if number is not None}
            plain["fleet"] = fleet
    return msgspec.json.encode(plain, order="deterministic").decode()


def _privacy(spec: Specification) -> dict[str, Any]:
    """Writes [privacy] for the hash `spec_id`; later versions' keys only where used."""
    allocation, cap, levels = spec.privacy.allocation, spec.privacy.cap, spec.levels
    plain: dict[str, Any] = {
        "epsilon": str(allocation.epsilon),
        "per": allocation.per,
        "composition": "clip-user" if allocation.suppress else "none" if cap is None else "cap",
        "scope": allocation.scope,
        "release_shards": spec.privacy.release_shards,
        "max_cells": None if cap is None else cap.max_cells,
        "max_samples": None if cap is None else cap.max_samples,
    }
    if levels is not None and levels.delta is not None:
        plain["delta"] = str(levels.delta)
    if spec.span is not None:
        plain["span_days"] = spec.span.days
        if spec.span.shares:
            plain["day_weights"] = dict(zip(WEEKDAYS, map(str, spec.span.shares), strict=True))
        if spec.span.first is not None:
            since, days, times = spec.span.first
            plain["first_days"] = {"since": since.isoformat(), "days": days, "weight": str(times)}
    return plain


def _input(spec: Specification) -> dict[str, Any]:
    """Writes [input] for the hash `spec_id`, without later versions' keys at their defaults."""
    feed, layout, units = spec.input, spec.input.layout, spec.input.layout.units
    plain: dict[str, Any] = {"layout": feed.name, "columns": feed.columns, "time_unit": units.time_unit}
    plain |= {"speed_unit": str(units.value_per_unit), **feed.chosen}  # chosen: columns named for a built-in layout
    defaults: dict[str, tuple[Any, Any]] = {  # what is written, beside what is left out
        "records": (layout.records if isinstance(layout, JsonRecords) else None, None),
        "time_zone": (units.zone, None),
        "time_format": (None if units.time_format is None else units.time_format.text, None),
        "decimal": (units.decimal, "."),
        "no_value": (list(map(str, feed.no_value)), []),
        "vehicle_form": (feed.vehicle_form, "text"),
    }
    plain |= {name: value for name, (value, default) in defaults.items() if value != default}
    if feed.derived is not None:
        plain["derived_speed"] = {"max_gap_s": feed.derived.max_gap_s, "max_kmh": str(feed.derived.max_kmh)}
    if feed.turning is not None:
        plain["derived_heading"] = {"max_gap_s": feed.turning.max_gap_s, "min_m": feed.turning.min_m}
    if isinstance(layout, CsvTable) and (layout.delimiter, layout.header) != (",", True):
        plain |= {"delimiter": layout.delimiter, "header": layout.header}
    return plain
