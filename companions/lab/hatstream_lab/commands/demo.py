"""`hatstream demo`: releases four made-up days beside the truth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from hatstream.api import console, note, option, progress_bars

if TYPE_CHECKING:
    import pyarrow as pa

    from hatstream.api import Specification
    from hatstream_lab.made_up_fleet import MadeUpFleet

DAYS = 4
SPEC = "town.toml"
SAMPLE = "sample.parquet"  # the first day
STREETS, STREETS_PAGE = "town-streets.geojson", "streets.html"
_PLACES = f"""
# Streets of the town for a share of the same total, and a map of what is usual on them (docs/released.md).
[places]
file = "{STREETS}"

[[output]]
product = "place-standing"
"""


@click.command()
@option("folder", help="Folder for the demo's files.")
@option("json")
def demo(output: Path, as_json: bool) -> None:
    """Simulate four days of buses, release mean speeds, and compare with the truth.

    Everything, the ledger and the key too, is kept in the output folder; running it again returns the same numbers.

    \b
    Example:
      hatstream demo --output build/demo
    """
    from hatstream.api import AccountReport, count_days, load
    from hatstream_lab.demo import steps
    from hatstream_lab.evaluation.days import Days, tables_of
    from hatstream_publish.pages.rows import HATS, STANDING, read_results, table_of

    out = console()
    out.quiet = as_json
    output.mkdir(parents=True, exist_ok=True)
    fleets = made_up_fleets()
    path, pattern = _write_town(out, output, fleets), str(output / "sample*.parquet")
    spec, ledger = load(path), str(output / "ledger.sqlite")
    steps.run("init", "--spec", str(path), "--ledger", ledger)
    note(f"releasing {len(fleets)} days, and the first one again ...")
    first = steps.release(path, ledger, pattern, (str(fleets[0].day), str(fleets[-1].day)), output / "hats")
    again = steps.release_again(path, ledger, output / SAMPLE, first, output / "hats-again")
    results, account = read_results(first["files"]), AccountReport.read(spec, ledger)
    with progress_bars(quiet=False) as report:
        days = Days(tables_of(path), count_days(spec, pattern, report=report))
    classes = steps.compare_hexagons(days, table_of(results, HATS))  # by vehicles in a HAT
    errors = steps.compare_streets(days, results[STANDING]) if spec.places else None
    pages = _draw(results, output, account.guarantee, spec)

    facts = {"account": account, "classes": classes, "errors": errors, "again": again, "pages": pages}
    for line in steps.summary({**facts, "city_kmh": days.mean_kmh}):
        out.print(line, soft_wrap=True, highlight=False)
    if as_json:
        document = {"output": str(output), "map": str(output / "map.html"), "city_kmh": days.mean_kmh}
        document |= {"guarantee": account.guarantee, "classes": classes, "again": again, "streets": errors}
        click.echo(json.dumps(document))


def made_up_fleets() -> list[MadeUpFleet]:
    """Makes up consecutive, differing days of one town."""
    from hatstream_lab.made_up_fleet import MadeUpFleet

    first = MadeUpFleet(has_streets=True)
    days = range(DAYS)
    return [replace(first, seed=first.seed + day, town_seed=first.seed, day=first.day + timedelta(day)) for day in days]


def _write_town(console: Console, output: Path, fleets: list[MadeUpFleet]) -> Path:
    """Writes daily files, the timetable and the drafted specification.

    The first day's file has no date in its name, as docs/release.md has it.
    """
    from hatstream_city.draft.draft import draft
    from hatstream_lab.demo.timetable import streets, write_timetable
    from hatstream_lab.made_up_fleet import write_sample

    reports = 0
    with progress_bars(quiet=False) as report:
        for index, fleet in enumerate(fleets):
            report("days driven by the made-up fleet", index, len(fleets))
            reports += write_sample(fleet, output / (SAMPLE if index == 0 else f"sample-{fleet.day}.parquet"))
        report("days driven by the made-up fleet", len(fleets), len(fleets))
    buses = f"{fleets[0].vehicles} made-up buses on {len(fleets)} days"
    console.print(f"{reports:,} reports of {buses}, released by {output / SPEC}.", soft_wrap=True)
    timetable, path = output / "town-gtfs.zip", output / SPEC
    write_timetable(fleets[0], timetable)
    if not path.exists():
        drafted = draft(output / SAMPLE, adds_and_removes=True, timetable=timetable, stem=path.stem)
        document, toml = json.dumps(streets(fleets[0])).encode(), (drafted.toml + _PLACES).encode()
        for name, content in (*drafted.files.items(), (STREETS, document), (path.name, toml)):
            (output / name).write_bytes(content)
    return path


def _draw(results: Mapping[str, pa.Table], output: Path, guarantee: str, spec: Specification) -> str:
    """Draws maps of hexagons and of streets' usual speeds; returns a sentence."""
    from hatstream_publish.pages.page import MapTexts, Surroundings, draw_map
    from hatstream_publish.pages.places import read_ground, read_places
    from hatstream_publish.pages.rows import STANDING, with_days

    page = output / "map.html"
    around = Surroundings(read_places(output / "town-places.geojson"), read_ground(output / "town-ground.geojson"))
    hexagons = draw_map(with_days(results, spec), page, MapTexts("Speeds of a made-up bus fleet", guarantee), around)
    if STANDING not in results:
        return f"A map of {hexagons:,} hexagons opens in any browser: {page}"
    streets = MapTexts("Streets of a made-up town, as usual", guarantee)
    draw_map(results[STANDING], output / STREETS_PAGE, streets, Surroundings(read_places(output / STREETS)))
    return f"Maps of {hexagons:,} hexagons and of streets open in any browser: {page}, {output / STREETS_PAGE}"
