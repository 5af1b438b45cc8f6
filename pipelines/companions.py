"""Packages beside the core, found by entry points."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from transforms.errors import MissingExtra, advice

COMPANION_COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("lab", "Make days of a made-up bus fleet, release its speeds, draw a map."),
    "collect": ("city", "Keep each new message of a GTFS-realtime address."),
    "map": ("publish", "Draw result files as a map in one HTML file that needs no network."),
    "publish": ("publish", "Write a static site, and keep it current: tables, map, privacy card, records."),
    "preview": ("publish", "Show a published folder on this machine, for looking."),
    "report": ("publish", "Write what is promised, spent and missing into one HTML page."),
    "evaluate": ("lab", "Show what mechanisms are worth, on reference or real data."),
    "perturb": ("local", "Add noise to vehicles' speeds, separately for each service that receives them."),
    "fuse": ("local", "Combine noisy reports that services received from the same vehicles."),
    "spec new": ("city", "Draft a specification from a sample of a feed, a timetable, or both."),
}  # the project's own companions: the extra that brings a command, and what it does in one line

COMMANDS_GROUP = "hatstream.commands"
EXTENSIONS_GROUP = "hatstream.extensions"


@cache
def entries(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name."""
    return {entry.name: entry for entry in entry_points(group=group)}


def companion_command(name: str) -> Any:
    """Loads a companion's command; None if unknown. Raises MissingExtra if it is not installed."""
    entry = entries(COMMANDS_GROUP).get(name)
    if entry is not None:
        return entry.load()
    if name not in COMPANION_COMMANDS:
        return None
    extra = COMPANION_COMMANDS[name][0]
    raise MissingExtra(f"{name} is part of hatstream's {extra}, which is not installed: {advice(extra)}", name=extra)


def extension(name: str, extra: str) -> Any:
    """Loads a function of a companion. extra: pip extra that brings it. Raises MissingExtra."""
    entry = entries(EXTENSIONS_GROUP).get(name)
    if entry is None:
        raise MissingExtra(f"this needs hatstream's {extra}, which is not installed: {advice(extra)}", name=extra)
    return entry.load()
