"""`hatstream travel-time`: how long a route of places takes, with an interval, from result files alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hatstream.api import UsageError, option
from hatstream_publish.commands.answer import answer, loaded
from hatstream_publish.commands.surroundings import with_specified

if TYPE_CHECKING:
    from hatstream_publish.travel_times import Lacking, TravelTime


@click.command("travel-time")
@option("spec")
@option("input", help="Result files of one product, such as place-slot.")
@click.option(
    "--route",
    "route_path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Places in the order of driving: CSV with a column place (length_m for those that are no lines), or GeoJSON.",
)
@option("json")
def travel_time(spec_path: Path, pattern: str, route_path: Path, as_json: bool) -> int:
    """Say how long a route takes at each time that the files have, with a 95 % interval.

    It reads published rows and the specification's public places, and spends nothing. Places of one cell are taken to
    err together, others independently.

    \b
    Example:
      hatstream travel-time --spec S.toml --input 'out/place-slot-*.parquet' --route line-1.csv
    """
    from hatstream_publish.pages.map import Surroundings
    from hatstream_publish.pages.rows import read_rows
    from hatstream_publish.travel_times import read_route, travel_times

    spec = loaded(spec_path, quiet=as_json)
    asked = spec.places
    if asked is None:
        raise UsageError("travel-time needs a specification with [places]")
    places = asked.pieces.places
    around = with_specified(Surroundings(), spec, spec_path)
    route = read_route(route_path, around.places, dict(zip(places.names, places.cell.tolist(), strict=True)))
    told = travel_times(read_rows(pattern), route)
    document = {
        "route": str(route_path),
        "places": len(route.names),
        "times": [_plain(time) for time in told.times],
        "without_value": [{"slot_start": of.start, "slot_end": of.end, "places": of.names} for of in told.lacking],
        "held_back": told.held_back,
    }
    lines = *map(_line, told.times), *map(_lacking_line, told.lacking), *map(_held_back_line, told.held_back)
    answer(as_json, document, *lines)
    return 0


def _plain(time: TravelTime) -> dict[str, object]:
    return {
        "slot_start": time.start,
        "slot_end": time.end,
        "minutes": round(time.minutes, 2),
        "lower95": round(time.lower95, 2),
        "upper95": round(time.upper95, 2),
        "km": round(time.km, 3),
        "ok": round(time.ok, 3),
    }


def _lacking_line(lacking: Lacking) -> str:
    first, *others = (repr(name[:60]) for name in lacking.names)
    which = f"{first} and {len(others):,} more of the route's places have" if others else f"its place {first} has"
    return f"{lacking.start} to {lacking.end[11:16]}: no time, for {which} no value"


def _held_back_line(day: str) -> str:
    return f"{day}: no times, for this day is held back: too little is known of the whole city on it"


def _line(time: TravelTime) -> str:
    bounds = f"{time.lower95:.1f} to {time.upper95:.1f}"
    return (
        f"{time.start} to {time.end[11:16]}: {time.minutes:.1f} min for {time.km:.2f} km ({bounds}); "
        f"{time.ok:.0%} of it at places that are ok"
    )
