"""Renders a drafted specification: TOML with explaining comments."""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from hatstream.api import InputError, load, own_layouts, worth_by_day
from hatstream_city.draft.candidates import OPEN, Column
from hatstream_city.draft.feed import (
    MOST_TOO_FAST,
    RESOLUTION,
    DraftedFeed,
    about_missing,
    about_repeated,
    as_text,
    feed_of,
)
from hatstream_city.draft.files import BEWARE, FILE
from hatstream_city.draft.sample import HEADED, HEADING
from hatstream_city.draft.values import follows_hours, same_clock
from hatstream_city.timetable.town import Town, read_town

SPAN_VEHICLES = 150
"""A limit for 28 days is drafted for fleets of at least so many vehicles."""
USUAL_PROFILE = {"hats": 70, "cells": 12, "parents": 6, "grandparents": 3, "hours": 14, "parts": 4, "reports": 20}
"""What a vehicle touches on a day where no timetable says it; but for the reports, what `levels` takes by itself."""


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("hatstream_city.draft"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters["toml"] = as_text


@dataclass(frozen=True)
class Draft:
    """Drafted specification with its findings, warnings and further files.

    files: contents by name: region, places' names, lines for maps, segments with their vehicles a day. is_open: a
    person has to name a column first.
    """

    toml: str
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    is_open: bool = False


def draft(
    path: Path | None,
    *,
    adds_and_removes: bool,
    timetable: Path | None = None,
    stem: str = "",
    streets: bool = False,
    header_time: bool = False,
    at_sea: bool = False,
    value: str = "speed",
) -> Draft:
    """Drafts a specification from a sample, timetable, or both.

    adds_and_removes: secret counts with one small total; else public counts with an epsilon for each HAT. stem: prefix
    of further files' names. streets: segments of the timetable's lines are places; needs secret counts. header_time:
    the feed's time where reports have none. at_sea: positions at sea are valid. value: "delay" needs a timetable alone.
    Raises InputError where vehicles, times or positions are missing.
    """
    feed = None if path is None else feed_of(path, header_time=header_time, at_sea=at_sea)
    heading = feed.heading if streets and feed else None
    directed = heading is not None if streets else None
    town = None if timetable is None else read_town(timetable, RESOLUTION, directed=directed)
    if feed is not None and town is not None and len(set(feed.cells) - town.cells) > len(feed.cells) / 2:
        raise InputError(
            f"{path}: most of the places in it are not where the timetable is: latitude and longitude may be each "
            "other's, or a sign may be missing; or it is the timetable of another place"
        )
    if feed is not None and "speed" not in feed.columns.names and not adds_and_removes:
        raise InputError(
            f"{path}: no column of speeds. Speeds that are made from positions are for --adjacency add-remove: under "
            "counts-public positions are public, and with them the speeds"
        )
    origins = [file.name for file in (timetable, path) if file is not None]
    name = re.sub(r"[^a-z0-9]+", "-", (stem or origins[-1].split(".")[0]).lower()).strip("-") or "feed"
    keyed = value == "delay"
    wishes = {"name": name, "origins": origins, "stem": stem or name, "secret": adds_and_removes}
    toml = _toml(feed, town, {**wishes, "streets": streets, "keyed": keyed})
    files = {} if town is None else town.lists(stem or name) if keyed else town.files(stem or name)
    ways = "; both directions of a street are one, for want of headings"
    if heading is not None:
        ways = f", each of one direction, by {heading}"
    findings = (
        *(_said_of_town(town) if town else ()),
        *([", ".join(f"{len(names):,} of {column}" for column, names in town.keys.items())] if town and keyed else []),
        *(_said_of_feed(feed) if feed else ()),
        *([f"{town.segments:,} segments from stop to stop{ways}"] if town and streets else []),
    )
    warnings = _warnings(feed, town, adds_and_removes)
    return Draft(toml, findings, warnings, files, feed is not None and is_open(feed))


def _toml(feed: DraftedFeed | None, town: Town | None, wishes: Mapping[str, Any]) -> str:
    """Fills in a specification's template; wishes: texts and choices."""
    secret, streets, keyed = (wishes[name] for name in ("secret", "streets", "keyed"))
    zones = (town.zone,) if town else feed.zones if feed else ()
    others = f", or {' or '.join(zones[1:])}" if len(zones) > 1 else ""
    zone = zones[0] if zones else "Etc/UTC"
    vehicles = town.service.vehicles if town else _roughly(feed.vehicles) if feed else 0
    profiles = {} if town is None else {name: _inline(profile) for name, profile in town.service.by_key.items()}
    fill = partial(
        _TEMPLATES.get_template("specification.toml").render,
        **wishes,
        feed=feed,
        town=town,
        zone=zone,
        follows_hours=follows_hours(zone),
        zone_is="of the timetable's agency" if town else f"the zone where the sample lies{others}: check",
        resolution=RESOLUTION,
        span_vehicles=SPAN_VEHICLES,
        vehicles=vehicles,
        profile=profiles["route_id"] if keyed else _inline(town.service.profile if town else USUAL_PROFILE),
        profiles=profiles,
        **({} if feed is None else _columns(feed, headed=streets)),
    )
    if not secret or vehicles >= SPAN_VEHICLES:
        return fill(has_month=secret)
    choices = [fill(has_month=has_month, price="") for has_month in (False, True)]
    is_unplanned = streets or keyed or (feed is not None and is_open(feed)) or not (town or (feed and feed.cells))
    return fill(has_month=False, price="" if is_unplanned else _price(choices, town.cells if town else None))


def _price(choices: Sequence[str], region: Collection[str] | None) -> str:
    """Words what a monthly limit costs."""
    documents = [tomllib.loads(choice) for choice in choices]
    for document in documents if region else ():
        document["cells"]["region"] = sorted(region or ())
        del document["slot"]["trips"]
    days, limited = (worth_by_day(load(document)) for document in documents)
    return ", ".join(
        f"{100 * reports:.0f} -> {100 * limited[day][0]:.0f} and {error:.1f} -> {limited[day][1]:.1f} on day {day}"
        for day, (reports, error) in days.items()
    )


def _columns(feed: DraftedFeed, *, headed: bool) -> dict[str, Any]:
    """Collects findings and warnings on a feed's columns."""
    drafted, heading = feed.columns, feed.heading if headed else None
    columns: dict[str, Column] = dict(drafted.names) if heading is None else {**drafted.names, HEADING: heading}
    if is_open(feed) and "vehicle" in drafted.guessed:
        columns["vehicle"] = OPEN
    return {
        "columns": _inline({field: as_text(columns[field]) for field in HEADED if field in columns}),
        "guessed": drafted.guessed,
        "is_open": is_open(feed),
        "may_be": drafted.names["vehicle"] if "vehicle" in drafted.guessed and is_open(feed) else None,
        "options": {name: as_text(value) for name, value in drafted.options.items()},
        "no_value": ", ".join(f"{number:g}" for number in feed.no_value),
        "formats": drafted.time_formats,
        "has_speed": "speed" in drafted.names,
        "is_by_file": drafted.names["vehicle"] == FILE,
        "is_fixed": feed.sample.layout in own_layouts(),
    }


def is_open(feed: DraftedFeed) -> bool:
    """Checks whether a person has to name a column."""
    return bool(feed.columns.missing) or (feed.sample.layout not in own_layouts() and "vehicle" in feed.columns.guessed)


def _inline(table: Mapping[str, Any]) -> str:
    """Formats an inline TOML table's entries."""
    return ", ".join(f"{name} = {value}" for name, value in table.items() if value)


def _roughly(number: int) -> int:
    """Rounds a number up to one digit."""
    power = 10 ** (len(str(number)) - 1)
    return int(-(-number // power) * power)


# --- words --------------------------------------------------------------------------------------------------------


def _said_of_town(town: Town) -> tuple[str, ...]:
    service = town.service
    days = "every day" if len(service.weekdays) == 7 else ", ".join(service.weekdays)
    hours = ", ".join("{:02d}:00 to {:02d}:00".format(*stretch) for stretch in service.hours)
    return (
        f"timetable {town.origin}: {service.first} to {service.last}, {days}, {hours} {town.zone}",
        f"{service.vehicles:,} vehicles under way at once, {service.blocks:,} duties on {service.day}",
        f"{len(town.cells):,} cells of resolution {town.resolution} with lines or stops, {town.served_hours:,} "
        "hours of them in a week have a trip",
    )


def _said_of_feed(feed: DraftedFeed) -> tuple[str, ...]:
    unit = feed.columns.time_unit
    names = ", ".join(f"{field} = {_listed(name)}" for field, name in feed.columns.names.items())
    written = feed.columns.time_formats[0] if feed.columns.time_formats else unit
    clock = f"as {written}{', without an offset' if feed.zone_needed else ''}"
    rows = len(next(iter(feed.sample.columns.values())))
    lines = [
        f"layout {feed.sample.layout}; {rows:,} rows looked at"
        + ("" if feed.columns.missing else f", {feed.usable:.0%} with vehicle, time and position"),
        f"columns: {names}",
        f"times {clock}; time zone {' or '.join(feed.zones) or 'unknown'}",
        f"{len(feed.cells):,} cells of resolution {RESOLUTION}; {feed.vehicles:,} vehicles on the fullest day",
    ]
    if feed.columns.options:
        lines.append(f"not as the layout has it: {', '.join(feed.columns.options)}")
    derived = "no column of speeds: they will be derived from consecutive positions (input.derived_speed)"
    return (*lines, f"speeds in {feed.unit}, {feed.unit_why}" if "speed" in feed.columns.names else derived)


def _listed(column: Column) -> str:
    return column if isinstance(column, str) else " and ".join(column)


def _about_vehicles(feed: DraftedFeed) -> list[str]:
    """Warns of doubtful vehicle ids, which privacy rests on."""
    name, warnings = _listed(feed.columns.names["vehicle"]), []
    if "vehicle" in feed.columns.guessed and is_open(feed):
        warnings.append(
            f"No column is called a vehicle's. By its values it may be {name}: if it stays the same for a vehicle, and "
            f"no other has it, write it in input.columns in place of {OPEN!r}; until then no command takes the draft."
        )
    if feed.columns.is_doubtful:
        warnings.append(
            f"Column {name} looks like no vehicle: its rows are far from each other, or one a day. What is protected "
            "is what one id does: name the column that stays the same for a vehicle, or several that do together."
        )
    elif feed.columns.comes_once:
        warnings.append(
            f"No id of column {name} comes twice: whether it stays the same for a vehicle cannot be seen. What is "
            "protected is what one id does: draft from several snapshots, or check it."
        )
    return warnings


def _warnings(feed: DraftedFeed | None, town: Town | None, secret: bool) -> tuple[str, ...]:
    warnings = [] if town is None else list(town.left_out)
    if feed is None:
        return (*warnings, "No sample was given: [input] is a guess.")
    if feed.columns.missing:
        looked_for = about_missing(feed.sample, feed.columns.missing)
        warnings.append(
            f"{looked_for[:1].upper()}{looked_for[1:]}. Until {OPEN!r} is replaced no command takes the draft."
        )
    warnings += [] if town is None else _disagreements(feed, town)
    if secret and town is None:
        warnings.append(
            "The region and the fleet were made from the sample. Under add-remove they must be public facts, not made "
            "from reports that are to be protected: replace them, unless the sample is older than the account."
        )
        if feed.is_cut:
            warnings.append("Not all rows of the sample were looked at: what comes later is in neither.")
    if feed.with_speed < 0.9 and "speed" in feed.columns.names:
        hint = f"; or derive all speeds from positions: {feed.derived}" if secret else ""
        warnings.append(f"Only {feed.with_speed:.0%} of the rows carry a speed; the others are refused{hint}.")
    if feed.too_fast is not None and not 1 / MOST_TOO_FAST < feed.too_fast < MOST_TOO_FAST:
        warnings.append(f"Speeds are {feed.too_fast:.2g} times what the ways between positions take: check their unit.")
    if feed.columns.time_formats[1:]:
        both = " or ".join(feed.columns.time_formats)
        warnings.append(f"Day and month cannot be told apart in this sample: times may be {both}. Give a later sample.")
    if feed.columns.guessed:
        warnings.append(f"Found by values alone, not by name: {', '.join(feed.columns.guessed)}.")
    if feed.columns.names["vehicle"] == FILE:
        warnings.append(BEWARE)
    warnings += [f"{sentence}." for sentence in feed.ids.advice]
    warnings += [about_repeated(feed.sample)] if feed.sample.repeated else []
    warnings += _about_vehicles(feed)
    if feed.no_value:
        numbers = " and ".join(f"{number:g}" for number in feed.no_value)
        warnings.append(f"Speeds of {numbers} are taken for unknown (input.no_value): check it, it is public.")
    warnings += feed.strange if "speed" in feed.columns.names else []
    others = [name for name in feed.sample.columns if name not in (*feed.columns.parts, feed.heading)]
    if "speed" not in feed.columns.names and others and feed.sample.layout not in own_layouts():
        warnings.append(f"If one of these columns holds speeds, name it in input.columns: {', '.join(others[:20])}.")
    return tuple(warnings)


def _disagreements(feed: DraftedFeed, town: Town) -> list[str]:
    """Lists disagreements of the sample with the timetable."""
    warnings = []
    outside = len(set(feed.cells) - town.cells)
    if outside:
        warnings.append(
            f"{outside:,} of the sample's {len(feed.cells):,} cells are not in the timetable's region: reports there "
            "are refused. Depots and detours are no loss; a line that is missing is."
        )
    if feed.zones and not any(same_clock(town.zone, zone) for zone in feed.zones):
        warnings.append(f"The sample lies in {' or '.join(feed.zones)}, and the timetable says {town.zone}.")
    return warnings
