"""A drafted specification: TOML with a comment wherever a person has to decide, and what was found, in words."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dpops.levels.defaults import Profile
from pipelines.advice.draft.budget import PLACES, limits, total
from pipelines.advice.draft.by_file import BEWARE
from pipelines.advice.draft.columns import DraftedColumns
from pipelines.advice.draft.feed import RESOLUTION, DraftedFeed, as_text, feed_of
from pipelines.advice.draft.streets import places_table, said
from pipelines.advice.draft.units import same_clock
from pipelines.advice.timetable.town import REGION, Town, read_town
from pipelines.errors import InputError
from transforms.layouts import FIXED
from transforms.layouts.base import FIELDS, HEADING, with_heading
from transforms.layouts.by_file import FILE
from transforms.layouts.columns import TimeUnit

_PER_LINE = 5


@dataclass(frozen=True)
class Draft:
    """toml: the specification. found: what sample and timetable say, a line each. warnings: what a person must look at.

    files: beside the specification, by name: of a timetable the region, names of places, and lines for maps; segments
    and how many vehicles come to each.
    """

    toml: str
    found: tuple[str, ...]
    warnings: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)


def draft(
    path: Path | None, *, adds_and_removes: bool, timetable: Path | None = None, stem: str = "", streets: bool = False
) -> Draft:
    """Drafts from a sample of the feed, a file or a folder, a GTFS timetable, or both: public facts are then its.

    adds_and_removes: secret counts, with one small total; else public counts, with an epsilon for each HAT. stem: of
    the names of files beside the specification. streets: whether segments of the timetable's lines are places, with
    secret counts. Raises InputError where vehicles, times or positions are not found.
    """
    feed = None if path is None else feed_of(path)
    heading = feed.heading if streets and feed else None
    directed = heading is not None if streets else None
    town = None if timetable is None else read_town(timetable, RESOLUTION, directed=directed)
    if feed is not None and "speed" not in feed.columns.names and not adds_and_removes:
        raise InputError(
            f"{path}: no column of speeds. Speeds that are made from positions are for --adjacency add-remove: under "
            "counts-public positions are public, and with them the speeds"
        )
    origins = [file.name for file in (timetable, path) if file is not None]
    name = re.sub(r"[^a-z0-9]+", "-", (stem or origins[-1].split(".")[0]).lower()).strip("-") or "feed"
    parts = [
        f"# Drafted from {' and '.join(origins)}. Look at every line with a comment before `hatstream init`.",
        f"name = {as_text(name)}\n",
        _account(name, feed, town, adds_and_removes),
        _slot(town),
        _cells(feed, town, adds_and_removes, stem or name),
        "[speed]\nupper_kmh = 65      # speeds are clamped to it: a public choice, not the fastest report\n",
        _privacy(feed, town, adds_and_removes),
        _places(town, adds_and_removes, streets, stem or name),
        _input(feed, heading),
    ]
    files = town.files(stem or name) if town else {}
    told = (*_said(feed, town), *([said(town.segments, heading)] if town and streets else []))
    return Draft("\n".join(filter(None, parts)), told, _warnings(feed, town, adds_and_removes), files)


# --- tables of the specification ----------------------------------------------------------------------------------


def _account(name: str, feed: DraftedFeed | None, town: Town | None, secret: bool) -> str:
    zones = (town.zone,) if town else feed.zones if feed else ()
    others = f", or {' or '.join(zones[1:])}" if len(zones) > 1 else ""
    why = "of the timetable's agency" if town else f"the zone where the sample lies{others}: check"
    limit = limits(_vehicles(feed, town)) if secret else "limit = 300.0\n"
    adjacency = "add-remove" if secret else "counts-public"
    hidden = "that a vehicle drove at all is hidden" if secret else "speeds are hidden, presence is not"
    return (
        f"[account]\nname = {as_text(name + '-speeds')}\n"
        'unit = "vehicle-day"\n'
        f"timezone = {as_text(zones[0] if zones else 'Etc/UTC')}  # {why}\n"
        f'adjacency = "{adjacency}"  # {hidden}\n'
        f"{limit}"
    )


def _slot(town: Town | None) -> str:
    if town is None:
        return "[slot]\nminutes = 60\n"
    start, end = town.service.hours
    left = f"; {town.service.outside:.1%} of its stops are at other hours" if town.service.outside else ""
    return f'[slot]\nminutes = 60\nservice = "{start:02d}:00-{end:02d}:00"  # of the timetable{left}\n'


def _cells(feed: DraftedFeed | None, town: Town | None, secret: bool, stem: str) -> str:
    head = f"[cells]\nresolution = {RESOLUTION}\n"
    if town:
        file = as_text(f"{stem}-{REGION}.geojson")
        return (
            f"{head}region = {file}  # the cells of the timetable's lines and stops: public\n"
            'region_source = "timetable"\n'
        )
    if not secret or feed is None:
        return f'{head}region = "occupied"\n'
    lines = [feed.cells[index : index + _PER_LINE] for index in range(0, len(feed.cells), _PER_LINE)]
    listed = "\n".join("  " + " ".join(f'"{cell}",' for cell in line) for line in lines)
    return (
        f"{head}"
        "# WARNING: these are the cells of the sample. A region is public, and must not be made from reports that are\n"
        "# to be protected: keep it only if the sample is older than the account, else name a GeoJSON of the service\n"
        "# area, or draft with --gtfs.\n"
        'region_source = "sample"  # refused by `hatstream init` unless --region-is-public\n'
        f"region = [\n{listed}\n]\n"
    )


def _privacy(feed: DraftedFeed | None, town: Town | None, secret: bool) -> str:
    if not secret:
        return (
            "[privacy]\nepsilon = 1.0  # of each HAT; `hatstream plan` says what adds up\n"
            'per = "hat"\n\n'
            '[[statistic]]\nname = "mean"\nmechanism = "auto"\n'
        )
    return (
        f"[privacy]\n{total(_vehicles(feed, town))}"
        'per = "period"\nscope = "period"\n\n'
        '[[statistic]]\nname = "mean"\nmechanism = "levels"\n'
        f'target = "reports"  # the mean of all reports; "vehicles": each vehicle counts once\n\n'
        f"{_fleet(feed, town)}"
    )


def _places(town: Town | None, secret: bool, streets: bool, stem: str) -> str:
    if streets:
        return places_table(stem, has_visits=bool(town and town.visits))
    return PLACES if secret else ""


def _vehicles(feed: DraftedFeed | None, town: Town | None) -> int:
    """That drive on a day, roughly: the timetable's, else those of the sample."""
    return town.service.vehicles if town else _roughly(feed.vehicles) if feed else 0


def _fleet(feed: DraftedFeed | None, town: Town | None) -> str:
    if town is None:
        why = "seen in the sample, roughly: replace it by the timetable's number"
        return f"[fleet]\nvehicles = {_vehicles(feed, town)}  # {why}\n{_PROFILE}"
    service = town.service
    touched = ", ".join(f"{name} = {number}" for name, number in asdict(service.profile).items() if number)
    return (
        f"[fleet]\nvehicles = {service.vehicles}  # under way at once on {service.day}, the day with the most trips; "
        f"{service.blocks:,} duties in all: put what you know\n"
        f"profile = {{ {touched} }}  # what one of them touches on that day\n"
    )


_PROFILE = (
    "# profile = { "
    + ", ".join(f"{name} = {number}" for name, number in asdict(Profile(reports=20)).items())
    + " }  # what a vehicle touches on a day: put the timetable's, which makes better figures\n"
)


def _roughly(number: int) -> int:
    """Rounded up to one digit."""
    power = 10 ** (len(str(number)) - 1)
    return int(-(-number // power) * power)


def _input(feed: DraftedFeed | None, heading: str | None) -> str:
    if feed is None:
        return (
            "# No sample was given: say what the feed is like (docs/specification.md), or draft again with --sample.\n"
            '[input]\nlayout = "gtfs-realtime"\n'
        )
    sample, columns_drafted = feed.sample, feed.columns
    lines = ["[input]", f"layout = {as_text(sample.layout)}"]
    derived = f"{feed.derived}  # public limits: no position that follows later, nothing that would be faster"
    if sample.records is not None:
        lines.append(f"records = {as_text(sample.records)}  # the array of which each object is a report")
    if sample.layout in FIXED:
        return "\n".join([*lines, *([] if "speed" in columns_drafted.names else [derived]), ""])
    columns = columns_drafted.names if heading is None else {**columns_drafted.names, HEADING: heading}
    names = ", ".join(f"{field} = {as_text(columns[field])}" for field in with_heading(FIELDS) if field in columns)
    guess = f"  # {', '.join(columns_drafted.guessed)} by values alone: check" if columns_drafted.guessed else ""
    guess += (
        "  # each file is of one vehicle and named by it: check" if columns_drafted.names["vehicle"] == FILE else ""
    )
    lines += [f"columns = {{ {names} }}{guess}", _times(columns_drafted)]
    if "speed" in columns_drafted.names:
        lines.append(f"speed_unit = {as_text(feed.unit)}  # {feed.unit_why}")
    else:
        lines.append(derived)
    if feed.zone_needed and columns_drafted.time_unit == "iso":
        zone = feed.zones[0] if feed.zones else "Etc/UTC"
        lines.append(f"time_zone = {as_text(zone)}  # times have no offset: check whose clock they show")
    if sample.delimiter is not None:
        lines.append(f"delimiter = {as_text(sample.delimiter)}")
    if sample.decimal is not None:
        lines.append(f"decimal = {as_text(sample.decimal)}")
    if sample.header is not None:
        lines.append("header = false")
    return "\n".join([*lines, ""])


def _times(columns: DraftedColumns) -> str:
    if not columns.time_formats:
        return f"time_unit = {as_text(columns.time_unit)}"
    form, *others = columns.time_formats
    also = f"  # or {as_text(others[0])}: all of the sample fits both" if others else ""
    return f"time_format = {as_text(form)}{also}"


# --- words --------------------------------------------------------------------------------------------------------


def _said(feed: DraftedFeed | None, town: Town | None) -> tuple[str, ...]:
    return (*(_said_of_town(town) if town else ()), *(_said_of_feed(feed) if feed else ()))


def _said_of_town(town: Town) -> tuple[str, ...]:
    service = town.service
    days = "every day" if len(service.weekdays) == 7 else ", ".join(service.weekdays)
    hours = "{:02d}:00 to {:02d}:00".format(*service.hours)
    return (
        f"timetable {town.origin}: {service.first} to {service.last}, {days}, {hours} {town.zone}",
        f"{service.vehicles:,} vehicles under way at once, {service.blocks:,} duties on {service.day}",
        f"{len(town.cells):,} cells of resolution {town.resolution} with lines or stops",
    )


def _said_of_feed(feed: DraftedFeed) -> tuple[str, ...]:
    unit: TimeUnit = feed.columns.time_unit
    names = ", ".join(f"{field} = {name}" for field, name in feed.columns.names.items())
    written = feed.columns.time_formats[0] if feed.columns.time_formats else unit
    clock = f"as {written}{', without an offset' if feed.zone_needed else ''}"
    rows = len(next(iter(feed.sample.columns.values())))
    lines = [
        f"layout {feed.sample.layout}; {rows:,} rows looked at, {feed.usable:.0%} with vehicle, time and position",
        f"columns: {names}",
        f"times {clock}; time zone {' or '.join(feed.zones) or 'unknown'}",
        f"{len(feed.cells):,} cells of resolution {RESOLUTION}",
    ]
    if "speed" in feed.columns.names and feed.sample.layout not in FIXED:
        lines.append(f"speeds in {feed.unit}, {feed.unit_why}")
    if "speed" not in feed.columns.names:
        lines.append("no column of speeds: they will be derived from consecutive positions (input.derived_speed)")
    return tuple(lines)


def _warnings(feed: DraftedFeed | None, town: Town | None, secret: bool) -> tuple[str, ...]:
    if feed is None:
        return ("No sample was given: [input] is a guess.",)
    warnings = [] if town is None else _disagreements(feed, town)
    if secret and town is None:
        warnings.append(
            "The region and the fleet were made from the sample. Under add-remove they must be public facts, not made "
            "from reports that are to be protected: replace them, unless the sample is older than the account."
        )
    if feed.with_speed < 0.9 and "speed" in feed.columns.names:
        how = f"; or derive all speeds from positions: {feed.derived}" if secret else ""
        warnings.append(f"Only {feed.with_speed:.0%} of the rows carry a speed; the others are refused{how}.")
    if feed.columns.time_formats[1:]:
        both = " or ".join(feed.columns.time_formats)
        warnings.append(f"Day and month cannot be told apart in this sample: times may be {both}. Give a later sample.")
    if feed.columns.guessed:
        warnings.append(f"Found by values alone, not by name: {', '.join(feed.columns.guessed)}.")
    if feed.columns.names["vehicle"] == FILE:
        warnings.append(BEWARE)
    if feed.columns.is_doubtful:
        warnings.append(
            f"Column {feed.columns.names['vehicle']} looks like no vehicle: its rows are far from each other, or "
            "one a day. What is protected is what one id does: name the column that stays the same for a vehicle."
        )
    elif feed.columns.comes_once:
        warnings.append(
            f"No id of column {feed.columns.names['vehicle']} comes twice: whether it stays the same for a vehicle "
            "cannot be seen. What is protected is what one id does: draft from several snapshots, or check it."
        )
    others = [name for name in feed.sample.columns if name not in (*feed.columns.names.values(), feed.heading)]
    if "speed" not in feed.columns.names and others:
        warnings.append(f"If one of these columns holds speeds, name it in input.columns: {', '.join(others[:20])}.")
    return tuple(warnings)


def _disagreements(feed: DraftedFeed, town: Town) -> list[str]:
    """Where the sample is not as the timetable has it."""
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
