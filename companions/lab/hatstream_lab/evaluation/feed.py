"""Telemetry to compare with: files, the days of them that are asked for, and their parsed reports by slot."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from hatstream.api import InputError, Specification, load
from hatstream_lab.types import Report
from pipelines.input_files import paths_of
from pipelines.ranges import range_of
from transforms import wire
from transforms.count.derived import derived_events
from transforms.observe.events import events_of
from transforms.observe.parse import FROM_US, TO_US, Rules
from transforms.places.ground import Ground
from transforms.time.calendar import Calendar


@dataclass(frozen=True)
class Feed:
    """Files and how to read them. dates: first and last day or time, as a release takes them; None for all."""

    spec: Specification
    paths: Sequence[str]
    dates: tuple[str, str] | None = None

    @classmethod
    def of(cls, pattern: str, spec_path: Path, dates: tuple[str, str] | None) -> "Feed":
        """Raises as a release does for a bad specification, a pattern without files, and times off the slots."""
        return cls(load(spec_path), paths_of(pattern), dates)

    def events(self, report: Report, ground: Ground | None = None) -> tuple[Calendar, dict[int, list[bytes]]]:
        """Reads and parses the files as a release does: packed events by slot. ground: the cells' where left out."""
        spec, ground = self.spec, ground or self.spec.cells.ground
        when = self._calendar()
        rules = spec.rules(when, os.urandom(32))
        parts: dict[int, list[bytes]] = {}
        for done, path in enumerate(self.paths):
            for batch in spec.input.layout.read(path):
                for slot_s, packed in events_of(batch.table, rules, ground):
                    parts.setdefault(slot_s, []).append(packed)
            report("files read", done + 1, len(self.paths))
        if rules.need_whole_periods:
            parts = _derived(parts, when, rules, ground)
        if not parts:
            raise InputError("no row of the input became an observation")
        return when, parts

    def _calendar(self) -> Calendar:
        """Lays out the dates asked for, or all local days from the first to the last plausible time in the files."""
        table = self.spec.timetable
        if self.dates is not None:
            return range_of(table, *self.dates)
        first, last = ((datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)) for us in self._span_us())
        zone = ZoneInfo(table.zone)
        return range_of(table, *(time.astimezone(zone).date().isoformat() for time in (first, last)))

    def _span_us(self) -> tuple[int, int]:
        least, most = TO_US, FROM_US
        units = self.spec.input.layout.units
        for path in self.paths:
            for batch in self.spec.input.layout.read(path):
                time = units.instants(batch.table.column("time"))
                us = time.us[time.valid & (time.us >= FROM_US) & (time.us < TO_US)]
                if us.size:
                    least, most = min(least, int(us.min())), max(most, int(us.max()))
        if least > most:
            raise InputError("no row of the input has a plausible time")
        return least, most


def _derived(
    parts: Mapping[int, Sequence[bytes]], when: Calendar, rules: Rules, ground: Ground
) -> dict[int, list[bytes]]:
    """Gives events the speeds and headings that a vehicle's whole periods tell, as a release does."""
    periods: dict[str, dict[int, wire.Events]] = {}
    for slot in when.slots:
        if slot.start_s in parts:
            periods.setdefault(slot.period, {})[slot.start_s] = wire.unpack_events(parts[slot.start_s])
    told = (derived_events(slots, rules, ground).ordered.by_slot() for slots in periods.values())
    return {slot_s: [wire.pack_events(events)] for by_slot in told for slot_s, events in by_slot.items()}
