"""`hatstream demo`: four days of a made-up bus fleet, released as a city would, and how near to the truth that is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from hatstream.api import console, note, option, progress_bars

if TYPE_CHECKING:
    import pyarrow as pa

    from hatstream.api import AccountReport
    from hatstream_lab.demo.commands import Agreement
    from hatstream_lab.demo.truth import ClassError, StreetErrors
    from hatstream_lab.made_up_fleet import MadeUpFleet

DAYS = 4
SPEC = "town.toml"
SAMPLE = "sample.parquet"
"""The first day."""
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
def demo(output: Path, as_json: bool) -> int:
    """Make four days of a made-up bus fleet, release their mean speeds, and show how near to the truth they are.

    Everything, the ledger and the key too, is kept in the output folder; running it again returns the same numbers.

    \b
    Example:
      hatstream demo --output build/demo
    """
    return _run(output, as_json)


def _run(output: Path, as_json: bool) -> int:
    from hatstream.api import AccountReport, count_days, find_account, load
    from hatstream_lab.demo.commands import answered, released, released_again
    from hatstream_lab.demo.truth import compared, compared_streets
    from hatstream_lab.evaluation.days import Days, tables_of
    from hatstream_publish.pages.rows import HATS, STANDING, read_results

    out = console()
    out.quiet = as_json
    output.mkdir(parents=True, exist_ok=True)
    _write_samples(out, output, fleets := made_up_fleets())
    path, pattern = _specification(output, fleets[0]), str(output / "sample*.parquet")
    spec, ledger = load(path), str(output / "ledger.sqlite")
    answered("init", "--spec", str(path), "--ledger", ledger)
    note(f"releasing {len(fleets)} days, and the first one by another runner ...")
    done = released(path, ledger, pattern, (str(fleets[0].day), str(fleets[-1].day)), output / "hats")
    agreement = released_again(path, ledger, output / SAMPLE, done, output / "hats-by-beam")
    tables, account = read_results(done["files"]), AccountReport.read(spec, find_account(ledger))
    with progress_bars(quiet=False) as report:
        days = Days(tables_of(path), count_days(spec, pattern, report=report))
    street_errors = compared_streets(days, tables[STANDING]) if spec.places else None
    classes, hexagons = compared(days, tables[HATS]), _draw(tables, output, account.guarantee)
    out.print(_promise(account), soft_wrap=True)
    _say_errors(out, classes, days.mean_kmh)
    _say_more(out, street_errors, agreement)
    _say_where(out, output, hexagons, has_streets=bool(spec.places))
    if as_json:
        document = _document(output, classes, days.mean_kmh, account.guarantee)
        again = {"again": agreement._asdict(), "streets": street_errors and street_errors._asdict()}
        click.echo(json.dumps(document | again))
    return 0


def _draw(tables: Mapping[str, pa.Table], output: Path, guarantee: str) -> int:
    """Draws the maps of hexagons and of streets; the number of hexagons."""
    from hatstream_publish.pages.map import MapTexts, Surroundings, draw_map
    from hatstream_publish.pages.places import read_ground, read_places
    from hatstream_publish.pages.rows import HATS, STANDING

    if STANDING in tables:
        streets = MapTexts("Streets of a made-up town, as usual", guarantee)
        draw_map(tables[STANDING], output / STREETS_PAGE, streets, Surroundings(read_places(output / STREETS)))
    around = Surroundings(read_places(output / "town-places.geojson"), read_ground(output / "town-ground.geojson"))
    return draw_map(tables[HATS], output / "map.html", MapTexts("Speeds of a made-up bus fleet", guarantee), around)


def _promise(account: AccountReport) -> str:
    """The guarantee in two sentences: a day's, and what days come to."""
    several = "".join(
        f"\nDays add up, those of {cost.days} to an epsilon of {float(cost.total.epsilon):.3g}, unless the account has "
        "a limit for them (docs/guarantee.md)."
        for cost in account.standing[-1:]
    )
    return (
        "Guarantee: what is published about a day raises the odds of a true guess about a bus, that it drove at all "
        f"included, by {account.most.most()}.{several}"
    )


def _say_more(out: Console, errors: StreetErrors | None, agreement: Agreement) -> None:
    streets = (
        "Its streets are left out: its specification was drafted without them."
        if errors is None
        else f"{errors.streets} streets: what is usual on them is missed by {errors.learned:.1f} km/h, by their true "
        f"mean by {errors.constant:.1f}."
    )
    name = agreement.runner
    out.print(streets, soft_wrap=True)
    out.print(
        f"The first day again by Beam's {name}: the same {agreement.digests} digests, {agreement.files} files of the "
        "same bytes.",
        soft_wrap=True,
    )


def _say_where(out: Console, output: Path, hexagons: int, *, has_streets: bool) -> None:
    pages = ["map.html", STREETS_PAGE] if has_streets else ["map.html"]
    many = f"{hexagons:,} hexagons"
    drawn = f"Maps of {many} and of streets open" if has_streets else f"A map of {many} opens"
    out.print(f"{drawn} in any browser: {', '.join(str(output / page) for page in pages)}", soft_wrap=True)
    out.print("Next: docs/tutorial.md, or docs/release.md for a feed of your own.")


def _document(output: Path, classes: Sequence[ClassError], city_kmh: float, guarantee: str) -> dict[str, Any]:
    document = {"output": str(output), "map": str(output / "map.html"), "city_kmh": city_kmh}
    return document | {"guarantee": guarantee, "classes": [error._asdict() for error in classes]}


def made_up_fleets() -> list[MadeUpFleet]:
    """Makes up days in a row of the same town, which differ."""
    from hatstream_lab.made_up_fleet import MadeUpFleet

    first = MadeUpFleet(has_streets=True)
    days = range(DAYS)
    return [replace(first, seed=first.seed + day, town_seed=first.seed, day=first.day + timedelta(day)) for day in days]


def _specification(output: Path, fleet: MadeUpFleet) -> Path:
    """Writes the town's timetable, and drafts a specification from that and the first day, as `spec new` does."""
    from hatstream_city.draft.draft import draft
    from hatstream_lab.demo.streets import streets
    from hatstream_lab.demo.timetable import write_timetable

    timetable, path = output / "town-gtfs.zip", output / SPEC
    write_timetable(fleet, timetable)
    if not path.exists():
        made = draft(output / SAMPLE, adds_and_removes=True, timetable=timetable, stem=path.stem)
        document = json.dumps(streets(fleet)).encode()
        toml = made.toml + _PLACES
        for name, content in (*made.files.items(), (STREETS, document), (path.name, toml.encode())):
            (output / name).write_bytes(content)
    return path


def _write_samples(out: Console, output: Path, fleets: list[MadeUpFleet]) -> None:
    """Writes a file a day; the first is named without its date, as docs/release.md releases it."""
    from hatstream_lab.made_up_fleet import write_sample

    reports = 0
    with progress_bars(quiet=False) as report:
        for index, fleet in enumerate(fleets):
            report("days driven by the made-up fleet", index, len(fleets))
            path = output / (SAMPLE if index == 0 else f"sample-{fleet.day}.parquet")
            reports += write_sample(fleet, path)
        report("days driven by the made-up fleet", len(fleets), len(fleets))
    buses = f"{fleets[0].vehicles} made-up buses on {len(fleets)} days"
    out.print(f"{reports:,} reports of {buses}, released by {output / SPEC}.", soft_wrap=True)


def _say_errors(out: Console, classes: list[ClassError], city_kmh: float) -> None:
    row = "{:>11} {:>8} {:>12} {:>12} {:>9} {:>16}"
    out.print(row.format("vehicles", "HATs", "estimate", "constant", "interval", "holds the truth"))
    for error in classes:
        values = (
            error.name,
            f"{error.hats:,}",
            "none" if error.estimate is None else f"{error.estimate:.1f} km/h",
            f"{error.constant:.1f} km/h",
            "" if error.half_width is None else f"±{error.half_width:.0f}",
            "" if error.covered is None else f"{100 * error.covered:.0f} %",
        )
        out.print(row.format(*values), highlight=False)
    out.print(
        "Mean absolute errors, by vehicles in a hexagon and hour; constant: the town's true mean, "
        f"{city_kmh:.1f} km/h.",
        soft_wrap=True,
    )
