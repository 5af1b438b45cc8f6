"""Renders a drafted specification: TOML with explaining comments.

Templates write all texts, from `facts`. A draft is open while a person has to name a column, which is OPEN, "?", in it.
Counts are secret under adjacency `add-remove`. A heading is a vehicle's direction, which one-way segments need.
"""

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
from hatstream_city.timetable.town import read_town

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
    "short": "{:g}".format,
    "listed": lambda column: (column if isinstance(column, str) else " and ".join(column)).replace("\n", " "),
    # Entries of an inline table, without empty ones.
    "inline": lambda table: ", ".join(f"{name} = {value}" for name, value in table.items() if value),
    "same_clock": same_clock,
}
_TEMPLATES.globals |= {"OPEN": OPEN, "FILE": FILE, "RESOLUTION": RESOLUTION, "SPAN_VEHICLES": SPAN_VEHICLES}
_TEMPLATES.globals |= {"USUAL_PROFILE": USUAL_PROFILE, "MOST_TOO_FAST": MOST_TOO_FAST, "follows_hours": follows_hours}
_TEMPLATES.globals |= {"names_in": names_in, "about_missing": about_missing, "about_repeated": about_repeated}


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
    Raises InputError for a sample without vehicles, times or positions, of another town, or without speeds to publish.
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
            f"{path}: {feed.missing_speeds}Speeds that are made from positions are for --adjacency add-remove: under "
            "counts-public positions are public, and with them the speeds"
        )
    origins = [file.name for file in (timetable, path) if file is not None]
    name = re.sub(r"[^a-z0-9]+", "-", (stem or origins[-1].split(".")[0]).lower()).strip("-") or "feed"
    keyed = value == "delay"  # delays are of ids of the timetable, not of hexagons
    vehicles = town.service.vehicles if town else _roughly(feed.counts.vehicles) if feed else 0
    # What the templates use, by its name in them.
    facts: dict[str, Any] = {"name": name, "origins": origins, "stem": stem or name, "feed": feed, "town": town}
    facts |= {"secret": adds_and_removes, "streets": streets, "keyed": keyed, "vehicles": vehicles}
    facts |= {} if feed is None else _columns(feed, headed=streets)
    # `lists` are files of ids, `files` those of the map and of the hours with trips.
    files = {} if town is None else town.lists(stem or name) if keyed else town.files(stem or name)
    warnings = ("No sample was given: [input] is a guess.",) if feed is None else _sentences("warnings.txt", facts)
    warnings = (*(() if town is None else town.left_out), *warnings)
    is_open = feed is not None and feed.is_open
    fill = partial(_TEMPLATES.get_template("specification.toml").render, facts)
    if not adds_and_removes or vehicles >= SPAN_VEHICLES:  # of secret counts, a large fleet has a monthly limit
        toml = fill(has_month=adds_and_removes)
    else:  # a comment says what a monthly limit would cost
        choices = [fill(has_month=has_month, price="") for has_month in (False, True)]  # without and with the limit
        # Only a draft whose columns, cells and files are all known can be planned, and so priced.
        is_planned = not (streets or keyed or is_open) and (town or (feed and feed.counts.cells))
        toml = fill(has_month=False, price=_price(choices, town.cells if town else None) if is_planned else "")
    return Draft(toml, _sentences("findings.txt", facts), warnings, files, is_open)


def _sentences(template: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Fills in a template, and lists its lines, each a sentence."""
    return tuple(filter(None, _TEMPLATES.get_template(template).render(facts).split("\n")))


def _price(choices: Sequence[str], region: Collection[str] | None) -> str:
    """Writes a monthly limit's cost: usable reports (%) and errors, without -> with it.

    choices: TOML of the draft without and with the limit. region: cells, if `choices` name files that do not exist yet.
    """
    documents = [tomllib.loads(choice) for choice in choices]
    for document in documents if region else ():  # the files of the timetable are not written yet
        document["cells"]["region"] = sorted(region or ())
        del document["slot"]["trips"]  # errors are forecast without it
    unlimited, limited = (worth_by_day(load(document)) for document in documents)  # by day: share, error
    return ", ".join(
        f"{100 * reports:.0f} -> {100 * limited[day][0]:.0f} and {error:.1f} -> {limited[day][1]:.1f} on day {day}"
        for day, (reports, error) in unlimited.items()
    )


def _columns(feed: DraftedFeed, *, headed: bool) -> dict[str, Any]:
    """Writes a feed's columns for templates. headed: reports need headings."""
    names = {**feed.columns.names, **({HEADING: feed.heading} if headed and feed.heading else {})}
    # A vehicle column that was found by its values alone is only proposed: OPEN stands there, for a person to replace.
    may_be = names["vehicle"] if "vehicle" in feed.columns.guessed and feed.is_open else None
    if may_be is not None:
        names["vehicle"] = OPEN
    return {"columns": {field: as_text(names[field]) for field in HEADED if field in names}, "may_be": may_be}


def _roughly(number: int) -> int:
    """Rounds a number up to one digit."""
    power = 10 ** (len(str(number)) - 1)
    return int(-(-number // power) * power)
