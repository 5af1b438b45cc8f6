"""Counts of reports by vehicle, slot and cell from one's own feed: a period of it, as a release would read it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from pipelines.errors import InputError
from pipelines.input_files import paths_of
from pipelines.plan.counts import SampleCounts, tallied
from pipelines.progress import Report
from pipelines.specification import Specification
from transforms import wire
from transforms.count.tally import tally
from transforms.errors import reason_of
from transforms.layouts import UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.observe import hexagons
from transforms.observe.events import locate
from transforms.observe.parse import FROM_US, TO_US, Rules, parse
from transforms.places.ground import Hexagons
from transforms.records import Observations
from transforms.time.calendar import CalendarError, Locator, StreamCalendar, calendar


@dataclass(frozen=True)
class FeedPeriod:
    """The observations of one period of a feed, the one with the most, ready to be counted by any specification.

    refused: rows of the whole feed by reason. periods: how many the feed has.
    """

    period: str
    first_day: date
    days: int
    periods: int
    observations: Observations
    refused: dict[str, int]

    def counts(self, spec: Specification) -> SampleCounts:
        """Counts in the cells and slots of a specification; the region and the box are those it was read with."""
        table = spec.timetable
        start = table.midnight(self.first_day)
        try:
            when = calendar(table, start, table.midnight(self.first_day + timedelta(days=self.days)))
        except CalendarError as error:
            raise InputError(str(error)) from None
        where = when.locate(self.observations.event_us)
        inside = where.in_service
        observations = self.observations._replace(slot_start_us=where.slot_start_us).take(inside)
        located = locate(observations, Hexagons(spec.cells.resolution, None))
        parts = [
            tally(wire.unpack_events([part.data]), part.slot_s, None, ()).tally
            for part in wire.split(located.observations, located.cell, 1)
        ]
        if not parts:
            raise InputError("no row of the input lies in slot.service: check it, and account.timezone")
        whole, zone = wire.joined(parts), ZoneInfo(table.zone)
        days = {datetime.fromtimestamp(slot_s, zone).date() for slot_s in np.unique(whole.slot_s).tolist()}
        return tallied(whole, f"{self.period}, the fullest of {self.periods:,} periods of the input", len(days))


def fullest_period(spec: Specification, pattern: str, progress: Report) -> FeedPeriod:
    """Reads a feed and keeps the period with the most observations. Raises InputError, which shows no content."""
    edge_s = int(spec.timetable.midnight(date(2000, 1, 2)).timestamp())
    when = StreamCalendar(spec.timetable, edge_s, FROM_US // 1_000_000, TO_US // 1_000_000)
    rules = spec.rules(when, b"counted, and then forgotten")
    kept: dict[str, list[Observations]] = {}
    refused = Counter[str]()
    for observations, reasons in _parsed(spec, paths_of(pattern), rules):
        refused.update(reasons)
        for period, part in _by_period(observations, when):
            kept.setdefault(period, []).append(part)
        progress("observations read", sum(part.event_us.size for parts in kept.values() for part in parts), None)
    if not kept:
        told = "; ".join(f"{rows:,} refused: {reason}" for reason, rows in refused.most_common(3))
        raise InputError(f"no row of the input is usable{': ' + told if told else ''}")
    period = max(kept, key=lambda name: sum(part.event_us.size for part in kept[name]))
    whole = Observations(*map(np.concatenate, zip(*kept[period], strict=True)))
    first, days = _span(spec, int(whole.event_us[0]))
    return FeedPeriod(period, first, days, len(kept), whole, dict(refused))


def _parsed(spec: Specification, paths: Sequence[str], rules: Rules) -> Iterator[tuple[Observations, dict[str, int]]]:
    for path in paths:
        try:
            for batch in read_apart(spec.input.layout, path):
                observations, refused = parse(batch.table, rules)
                located = locate(observations, spec.cells.ground)
                outside = {hexagons.OUTSIDE_REGION: located.outside}
                yield located.observations, Counter(refused) + Counter(batch.refused) + Counter(outside)
        except UnreadableFile as error:
            raise InputError(str(error)) from None
        except OSError as error:
            raise InputError(f"{path}: {reason_of(error)}") from None


def _by_period(observations: Observations, when: Locator) -> Iterator[tuple[str, Observations]]:
    where = when.locate(observations.event_us)
    for index in np.unique(where.period).tolist() if observations.event_us.size else ():
        yield where.periods[index], observations.take(where.period == index)


def _span(spec: Specification, event_us: int) -> tuple[date, int]:
    """Finds first day and number of days of the period that an event is in."""
    day = datetime.fromtimestamp(event_us / 1e6, ZoneInfo(spec.timetable.zone)).date()
    try:
        days = spec.timetable.period_days(day, spec.account.since, spec.account.until)
    except CalendarError:
        return day, 1
    return days[0], len(days)
