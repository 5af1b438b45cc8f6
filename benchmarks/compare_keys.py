"""Guards the README's second table: means by public key that are no hexagons, by PipelineDP 0.3.1 and by hatstream.

`make compare`, or .venv/bin/python -m benchmarks.compare_keys --data '../shared/data/capmetro/*.csv'

The promise is that of compare.py, and so is how PipelineDP is favoured. Speeds are Austin's, by the route that a row
names and its hour. Delays are drawn: buses of a made-up town drive its timetable (GTFS) and say at each stop how late
they are. Their means differ by as much as Buffalo's, whose true mean is off by .72 minutes. What both are asked is what
`hatstream.MeanPerKey` asks; errors are by reports, against true means of the same values, cut to the bounds,
and averages of some runs of hatstream's noise. Nothing here is private.
"""

import csv
import io
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

import hatstream
from benchmarks.compare import EPSILON, RUNS, answers, write_reports
from hatstream.api import console, count_days, input_paths, load, release_days
from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.evaluation.experiment import Float64s, Int64s, Mean, Row, Table, experiment
from hatstream_lab.made_up_fleet import MadeUpFleet

TOTAL, HOURS, DAYS_SHOWN = (float(EPSILON), 1e-6), 24, ("first day", "last day")
TOWN = MadeUpFleet(vehicles=230, routes=46, day=date(2026, 5, 11))
DAYS, DELAY_MIN = 4, (-5, 10)
USUAL_MIN, ROUTE_MIN, RUSH_MIN, HOUR_MIN, DAY_MIN, TRIP_MIN = 1.5, 0.4, 0.6, 0.4, 0.2, 1.5
"""Of drawn delays: the mean; how far routes, rush hours, a route's hours on all days, on one, and trips are off it."""


@dataclass(frozen=True)
class KeyedFeed:
    """Counted days. factor: of the unit that is shown in one of the feed's."""

    name: str
    tables: dict[str, Any]
    counted: pa.Table
    keys: list[str]
    bounds: tuple[float, float]
    factor: float = 1.0

    @property
    def days(self) -> list[str]:
        return sorted(set(self.counted["period"].to_pylist()))

    def key_of(self, rows: pa.Table) -> Int64s:
        """Numbers each row's key and hour."""
        key = pc.index_in(rows["cell"], pa.array(self.keys)).to_numpy().astype(np.int64)
        return key * HOURS + rows["slot"].to_numpy()

    def values_of(self, rows: pa.Table) -> Float64s:
        """The mean of each row, in the feed's unit."""
        lower, upper = self.bounds
        step = (upper - lower) / load(self.tables).value.grid.upper_steps
        values: Float64s = lower + rows["sums"].to_numpy() / rows["reports"].to_numpy() * step
        return values

    def truth(self, day: str) -> tuple[Float64s, Float64s]:
        """Reports under each key and hour of a day, and their mean."""
        rows, size = of_day(self.counted, day), len(self.keys) * HOURS
        key, reports = self.key_of(rows), rows["reports"].to_numpy()
        many = np.bincount(key, reports, size)
        sums = np.bincount(key, reports * self.values_of(rows), size)
        return many, np.divide(sums, many, out=np.zeros(size), where=many > 0)


def of_day(rows: pa.Table, day: str) -> pa.Table:
    return rows.filter(pc.equal(rows["period"], day))


def feed_of(
    name: str, pattern: str, keys: list[str], fleet: int, zone: str, columns: dict[str, str], **of: Any
) -> KeyedFeed:
    """Counts files of CSV by the specification that `MeanPerKey` makes."""
    account = hatstream.UserAccount(limit=TOTAL, timezone=zone)
    user, when, key, value = (columns[field] for field in ("user", "time", "key", "value"))
    transform = hatstream.MeanPerKey(
        user=user, time=when, key=key, value=value, keys=keys, total=TOTAL, fleet=fleet, account=account,
        bounds=of["bounds"],
    )  # fmt: skip
    tables = transform.tables(3_600)
    tables["input"]["layout"] = "csv"
    return KeyedFeed(name, tables, count_days(load(tables), pattern), keys, **of)


def speeds(pattern: str) -> KeyedFeed:
    """Austin's speeds by route. That its routes are those of the files is public: a timetable lists them."""
    options = pcsv.ConvertOptions(include_columns=["route_id"], column_types={"route_id": pa.string()})
    routes = {
        route for path in input_paths(pattern) for route in pcsv.read_csv(path, convert_options=options)[0].to_pylist()
    }
    columns = {"user": "vehicle_id", "time": "timestamp", "key": "route_id", "value": "speed"}
    of = {"bounds": (0, 65 / 3.6), "factor": 3.6}
    return feed_of("km/h by route and hour", pattern, sorted(routes - {""}), 150, "America/Chicago", columns, **of)


def delays(folder: Path) -> KeyedFeed:
    """Delays of a made-up town by route, drawn for some days at each stop of its timetable."""
    write_timetable(TOWN, folder / "gtfs.zip")
    with zipfile.ZipFile(folder / "gtfs.zip") as archive:
        trips, stops = (
            list(csv.DictReader(io.TextIOWrapper(archive.open(f"{name}.txt"), "utf-8")))
            for name in ("trips", "stop_times")
        )
    of_trip = {row["trip_id"]: number for number, row in enumerate(trips)}
    routes = sorted({row["route_id"] for row in trips})
    trip = np.array([of_trip[row["trip_id"]] for row in stops])
    due_s = np.array([_seconds(row["departure_time"]) for row in stops])
    route = np.array([routes.index(row["route_id"]) for row in trips])[trip]
    rng, hour = np.random.default_rng(TOWN.seed), due_s // 3_600 % HOURS
    rush = RUSH_MIN * np.isin(np.arange(HOURS), (7, 8, 16, 17, 18))
    usual = (
        USUAL_MIN + rng.normal(0, ROUTE_MIN, (len(routes), 1)) + rush + rng.normal(0, HOUR_MIN, (len(routes), HOURS))
    )
    for number in range(DAYS):
        of_day = usual + rng.normal(0, DAY_MIN, usual.shape)
        minutes = of_day[route, hour] + rng.normal(0, TRIP_MIN, len(trips))[trip]
        midnight = datetime.combine(TOWN.day + timedelta(days=number), time(), ZoneInfo(TOWN.zone)).timestamp()
        table = {
            "bus": [trips[place]["block_id"] for place in trip.tolist()],
            "at": pa.array(((midnight + due_s + 60 * minutes) * 1e6).astype(np.int64), pa.timestamp("us", "UTC")),
            "route": [routes[place] for place in route.tolist()],
            "delay": minutes,
        }
        pcsv.write_csv(pa.table(table), folder / f"{number}.csv")
    columns = {"user": "bus", "time": "at", "key": "route", "value": "delay"}
    of = TOWN.vehicles, TOWN.zone, columns
    return feed_of("delay in minutes by route and hour", f"{folder}/*.csv", routes, *of, bounds=DELAY_MIN)


def _seconds(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return 3_600 * hours + 60 * minutes + seconds


def rows_of(feed: KeyedFeed) -> list[Row]:
    """Measures the constant, PipelineDP at its best bounds and hatstream, on the first day and the last one."""
    days = dict(zip(DAYS_SHOWN, (feed.days[0], feed.days[-1]), strict=True))
    size = len(feed.keys) * HOURS

    def errors(name: str, by_day: dict[str, Float64s]) -> Row:
        shown = {}
        for label, values in by_day.items():
            many, truth = feed.truth(days[label])
            held = (many > 0) & ~np.isnan(values)  # a first day of which too little is known is held back
            shown[label] = Mean.of(np.abs(values - truth)[held] * feed.factor, many[held])
        return {"": name, **shown}

    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for label, day in days.items():
            rows = of_day(feed.counted, day)
            columns = rows["vehicle"].to_numpy(), feed.key_of(rows), feed.values_of(rows), rows["reports"].to_numpy()
            paths.append(Path(folder, f"{label}.parquet"))
            write_reports(paths[-1], *columns, size)
        asked = answers(*feed.bounds, paths)
    theirs = [
        errors(f"PipelineDP 0.3.1 ({bounds})", dict(zip(DAYS_SHOWN, map(np.array, values), strict=True)))
        for bounds, values in asked.items()
    ]
    best = min(theirs, key=lambda row: row[DAYS_SHOWN[-1]].value)
    constants = {}
    for label, day in days.items():
        many, truth = feed.truth(day)
        constants[label] = np.full(size, truth @ many / many.sum())
    bar = errors("the city's true mean (not private)", constants)

    def released(feed: KeyedFeed, spec: Any, run: int) -> list[Row]:
        hats = release_days(spec, feed.counted, seed=run)["hats"]
        return [errors("hatstream", {label: values_by_key(feed, of_day(hats, day)) for label, day in days.items()})]

    others = experiment(feed, [best, bar], lambda _feed, row, _run: [row])
    return [*others.rows, *experiment(feed, [load(feed.tables)], released, RUNS).rows]


def values_by_key(feed: KeyedFeed, hats: pa.Table) -> Float64s:
    """Values of all keys and hours of a day."""
    values = np.full(len(feed.keys) * HOURS, np.nan)
    values[feed.key_of(hats)] = hats["value"].to_numpy()
    return values


@click.command()
@click.option("--data", required=True, help="Files of Austin's telemetry, as a quoted pattern.")
def compare(data: str) -> None:
    """Print the second table of the README."""
    with tempfile.TemporaryDirectory() as folder:
        for feed in (speeds(data), delays(Path(folder))):
            title = f"Mean absolute error by reports, {feed.name}; {len(feed.days)} days, {len(feed.keys)} routes"
            note = f"{RUNS} runs of hatstream. PipelineDP's bounds are the best of all that are tried."
            console().print(Table(rows_of(feed)).show(title, note, ("",), {label: label for label in DAYS_SHOWN}))


if __name__ == "__main__":
    sys.exit(compare())
