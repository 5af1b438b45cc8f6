"""What a timetable's visits are worth to a map of segments: `python -m benchmarks.place_visits`."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np

from dpops.noise import Noise
from hatstream_city.draft.draft import draft
from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.places import PlaceCity, mapped, read_place_city
from hatstream_lab.made_up_fleet import STOP_GAP_M, MadeUpFleet, write_sample
from transforms.places.ground import Pieces

TOTAL = Fraction("2.64")


@click.command()
@click.option("--vehicles", default=40, show_default=True)
@click.option("--routes", default=8, show_default=True)
@click.option("--days", default=28, show_default=True, help="Released: those that are simulated, again and again.")
@click.option("--simulated", default=7, show_default=True, help="Days of the town.")
@click.option("--runs", default=2, show_default=True)
@click.option("--seed", default=11, show_default=True, help="Of the town.")
@click.option(
    "--stops", "stops_m", nargs=2, default=STOP_GAP_M, show_default=True, help="Metres between two of a line."
)
def benchmark(
    vehicles: int, routes: int, days: int, simulated: int, runs: int, seed: int, stops_m: tuple[float, float]
) -> None:
    """Errors of the standing map by reports, with and without visits, and the part of reports at `ok` places."""
    with TemporaryDirectory() as folder:
        fleet = MadeUpFleet(
            seed=seed, town_seed=seed, vehicles=vehicles, routes=routes, has_streets=True, stop_gap_m=stops_m
        )
        city = _city(Path(folder), fleet, simulated)
    print(f"{vehicles} vehicles, {city.pieces.places.cell.size} segments of {routes} routes; {runs} runs")
    how = recipe_for(city.city, "gaussian", TOTAL, DELTA)
    for name, visits in (("with visits", city.pieces.places.visits), ("without", ())):
        asked = replace(city, pieces=_visited(city.pieces, visits))
        errors = [
            list(mapped(asked, how, Fraction(3, 10), Noise(np.random.default_rng(run).bytes), days))
            for run in range(runs)
        ]
        for day in sorted({1, 2, 4, 7, 14, 21, days} & set(range(1, days + 1))):
            of_day = [run[day - 1] for run in errors]
            mean = {name: np.nanmean([getattr(one, name) for one in of_day]) for name in ("learned", "copied", "known")}
            held = np.nanmean([one.held for one in of_day]) if any(one.known for one in of_day) else np.nan
            print(
                f"{name}, day {day}: learned {mean['learned']:.2f}, cell {mean['copied']:.2f}, "
                f"ok {mean['known']:.2f}, held {held:.2f}"
            )


def _city(folder: Path, fleet: MadeUpFleet, days: int) -> PlaceCity:
    """The town's days as a drafted specification reads them."""
    for number in range(days):
        of_day = replace(fleet, seed=fleet.seed + number, day=fleet.day + timedelta(days=number))
        write_sample(of_day, folder / f"sample{number}.parquet")
    write_timetable(fleet, folder / "static.zip")
    drafted = draft(
        folder / "sample0.parquet", adds_and_removes=True, timetable=folder / "static.zip", stem="town", streets=True
    )
    (folder / "town.toml").write_text(drafted.toml)
    for name, content in drafted.files.items():
        (folder / name).write_bytes(content)
    feed = Feed.of(str(folder / "sample*.parquet"), folder / "town.toml", None)
    pieces = feed.spec.places.pieces
    return read_place_city(feed, lambda _: pieces, lambda *_: None)


def _visited(pieces: Pieces, visits: tuple[float, ...]) -> Pieces:
    return replace(pieces, places=pieces.places._replace(visits=visits))


if __name__ == "__main__":
    benchmark()
