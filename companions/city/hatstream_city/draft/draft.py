"""Renders a drafted specification: TOML with explaining comments."""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jinja2

from hatstream.api import InputError, load, worth_by_day
from hatstream_city.draft.columns import names_in
from hatstream_city.draft.feed import MOST_TOO_FAST, DraftedFeed, about_missing, about_repeated, as_text, feed_of
from hatstream_city.draft.files import FILE, RESOLUTION
from hatstream_city.draft.motion import OPEN
from hatstream_city.draft.notation import follows_hours, same_clock
from hatstream_city.draft.sample import HEADED, HEADING
from hatstream_city.timetable.town import Town, read_town

SPAN_VEHICLES = 150  # a limit for 28 days is drafted for fleets of at least so many vehicles
USUAL_PROFILE = {"hats": 70, "cells": 12, "parents": 6, "grandparents": 3, "hours": 14, "parts": 4, "reports": 20}
"""What a vehicle touches on a day where no timetable says it; but for the reports, what `levels` takes by itself."""

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("hatstream_city.draft"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
    "toml": as_text,
    "number": "{:,}".format,
    "listed": lambda column: (column if isinstance(column, str) else " and ".join(column)).replace("\n", " "),
}


@dataclass(frozen=True)
class Draft:
    """Drafted specification with its findings, warnings and further files."""

    toml: str
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)  # content by name
    is_open: bool = False  # a person has to name a column first


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
    # Segments are one-way if reports say in which direction a vehicle drives; None: no segments at all.
    directed = (feed is not None and feed.heading is not None) if streets else None
    town = None if timetable is None else read_town(timetable, RESOLUTION, directed=directed)
    if feed is not None and town is not None and len(set(feed.counts.cells) - town.cells) > len(feed.counts.cells) / 2:
        raise InputError(
            f"{path}: most positions in it are not where the timetable is: latitude and longitude may be "
            "swapped, or a sign may be missing; or it is the timetable of another town"
        )
    if feed is not None and "speed" not in feed.columns.names and not adds_and_removes:
        raise InputError(
            f"{path}: no column of speeds. Speeds that are made from positions are for --adjacency add-remove: under "
            "counts-public positions are public, and with them the speeds"
        )
    origins = [file.name for file in (timetable, path) if file is not None]
    name = re.sub(r"[^a-z0-9]+", "-", (stem or origins[-1].split(".")[0]).lower()).strip("-") or "feed"
    keyed = value == "delay"  # delays are of ids of the timetable, not of hexagons
    # What the templates use, by its name in them.
    facts: dict[str, Any] = {
        "OPEN": OPEN,
        "FILE": FILE,
        "name": name,
        "origins": origins,
        "stem": stem or name,
        "resolution": RESOLUTION,
    }
    facts |= {"secret": adds_and_removes, "streets": streets, "keyed": keyed, "feed": feed, "town": town}
    facts |= {} if feed is None else _facts_of(feed, town, headed=streets)
    files = {} if town is None else town.lists(stem or name) if keyed else town.files(stem or name)
    warnings = ("No sample was given: [input] is a guess.",) if feed is None else _sentences("warnings.txt", facts)
    warnings = (*(() if town is None else town.left_out), *warnings)
    is_open = feed is not None and feed.is_open
    return Draft(_toml(feed, town, facts), _sentences("findings.txt", facts), warnings, files, is_open)


def _sentences(template: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Fills in a template, and lists its lines, each a sentence."""
    return tuple(filter(None, _TEMPLATES.get_template(template).render(facts).split("\n")))


def _toml(feed: DraftedFeed | None, town: Town | None, facts: Mapping[str, Any]) -> str:
    """Fills in the template of a specification; `facts` are its variables."""
    secret, streets, keyed = (facts[name] for name in ("secret", "streets", "keyed"))  # add-remove; segments; delays
    zones = (town.zone,) if town else feed.zones if feed else ()
    others = f", or {' or '.join(zones[1:])}" if len(zones) > 1 else ""
    zone = zones[0] if zones else "Etc/UTC"
    zone_is = f"the zone where the sample lies{others}: check" if zones else "no position tells it: write your zone"
    vehicles = town.service.vehicles if town else _roughly(feed.counts.vehicles) if feed else 0
    profiles = {} if town is None else {name: _inline(profile) for name, profile in town.service.by_key.items()}
    fill = partial(
        _TEMPLATES.get_template("specification.toml").render,
        facts,
        zone=zone,
        follows_hours=follows_hours(zone),
        zone_is="of the timetable's agency" if town else zone_is,
        span_vehicles=SPAN_VEHICLES,
        vehicles=vehicles,
        profile=profiles["route_id"] if keyed else _inline(town.service.profile if town else USUAL_PROFILE),
        profiles=profiles,
    )
    if not secret or vehicles >= SPAN_VEHICLES:  # else there is no monthly limit, but a comment on what it would cost
        return fill(has_month=secret)  # public counts have no limit by month
    choices = [fill(has_month=has_month, price="") for has_month in (False, True)]
    # Only a draft whose columns, cells and files are all known can be planned, and so priced.
    is_unplanned = streets or keyed or (feed is not None and feed.is_open) or not (town or (feed and feed.counts.cells))
    return fill(has_month=False, price="" if is_unplanned else _price(choices, region=town.cells if town else None))


def _price(choices: Sequence[str], region: Collection[str] | None) -> str:
    """Writes a monthly limit's cost: usable reports (%) and errors, without -> with it.

    choices: TOML of the draft without and with the limit. region: cells, if `choices` name files that do not exist yet.
    """
    documents = [tomllib.loads(choice) for choice in choices]
    for document in documents if region else ():  # the files of the timetable are not written yet
        document["cells"]["region"] = sorted(region or ())
        del document["slot"]["trips"]  # errors are forecast without it
    unlimited, limited = (worth_by_day(load(document)) for document in documents)
    return ", ".join(
        f"{100 * reports:.0f} -> {100 * limited[day][0]:.0f} and {error:.1f} -> {limited[day][1]:.1f} on day {day}"
        for day, (reports, error) in unlimited.items()
    )


def _facts_of(feed: DraftedFeed, town: Town | None, *, headed: bool) -> dict[str, Any]:
    """Collects findings on a feed by the templates' names. headed: reports need headings."""
    drafted, sample = feed.columns, feed.sample
    names = {**drafted.names, **({HEADING: feed.heading} if headed and feed.heading else {})}
    # A vehicle column that was found by its values alone is only proposed: OPEN stands there, for a person to replace.
    may_be = names["vehicle"] if "vehicle" in drafted.guessed and feed.is_open else None
    if may_be is not None:
        names["vehicle"] = OPEN
    missing = about_missing(sample, drafted.missing) if drafted.missing else ""
    return {
        "columns": _inline({field: as_text(names[field]) for field in HEADED if field in names}),
        "may_be": may_be,
        "no_value": ", ".join(f"{number:g}" for number in feed.no_value),
        "about_missing": missing[:1].upper() + missing[1:],
        "about_repeated": about_repeated(sample),
        "others": [name for name in sample.columns if name not in (*names_in(drafted.names.values()), feed.heading)],
        "outside": 0 if town is None else len(set(feed.counts.cells) - town.cells),
        "has_other_clock": town and feed.zones and not any(same_clock(town.zone, zone) for zone in feed.zones),
        "most_too_fast": MOST_TOO_FAST,
    }


def _inline(table: Mapping[str, Any]) -> str:
    """Formats entries of an inline TOML table, without empty ones."""
    return ", ".join(f"{name} = {value}" for name, value in table.items() if value)


def _roughly(number: int) -> int:
    """Rounds a number up to one digit."""
    power = 10 ** (len(str(number)) - 1)
    return int(-(-number // power) * power)
