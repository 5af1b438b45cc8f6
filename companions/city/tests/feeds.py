"""Small made-up timetables (GTFS), and a small feed of buses on circles with drafts of it."""

import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hatstream_city.draft.draft import draft
from pipelines.plan.counts import fullest_period
from pipelines.specification import load

WEEKDAYS = "monday,tuesday,wednesday,thursday,friday,saturday,sunday"

FEED: Mapping[str, str] = {
    "agency": "agency_name,agency_timezone\nTown,America/Regina\n",
    "stops": (
        "stop_id,stop_name,stop_lat,stop_lon\n"
        "A,North Gate,50.50,-104.60\nB,Market,50.45,-104.60\nC,Depot,50.40,-104.60\n"
    ),
    "routes": "route_id,route_short_name,route_color\nR1,1,ff0000\nR10,10,\n",
    "trips": "trip_id,route_id,service_id,block_id\nT1,R1,week,B1\nT2,R1,week,B1\nT3,R10,week,B2\n",
    "stop_times": (
        "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n"
        "T1,1,A,06:00:00,06:00:00\nT1,2,B,,\nT1,3,C,07:00:00,07:00:00\n"
        "T2,1,C,07:10:00,07:10:00\nT2,2,A,08:30:00,08:30:00\n"
        "T3,2,B,06:50:00,06:50:00\nT3,1,A,06:30:00,06:30:00\n"
    ),
    "calendar": f"service_id,{WEEKDAYS},start_date,end_date\nweek,1,1,1,1,1,0,0,20260511,20260517\n",
}
"""One route there and back as one block, and a trip of another while it runs; on weekdays."""


def write(path: Path, tables: Mapping[str, str] = FEED, folder: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in tables.items():
            archive.writestr(f"{folder}{name}.txt", text)
    return path


def rows(speed_per_mps=3.6, step_s=20):
    """Six buses that drive along circles near Austin for a while, each at a speed of its own."""
    positions = []
    for bus in range(6):
        mps, radius_m = 5 + bus, 3_000
        for step in range(40):
            time_s, angle = step * step_s, mps * step * step_s / radius_m
            lat = 30.25 + 0.02 * bus + math.degrees(radius_m * math.sin(angle) / 6_371_000)
            lon = -97.75 + math.degrees(radius_m * math.cos(angle) / 6_371_000 / math.cos(math.radians(30.3)))
            time = f"2026-03-02T{8 + time_s // 3600:02d}:{time_s // 60 % 60:02d}:{time_s % 60:02d}-06:00"
            positions.append((f"B-{bus}", time, round(lat, 6), round(lon, 6), round(mps * speed_per_mps, 2)))
    return positions


def completed(toml):
    """The draft as a person completes it: the vehicle is the column that was guessed."""
    guess = re.search(r'by its values it may be ("[^"]*")', toml)
    return toml.replace('vehicle = "?"', f"vehicle = {guess[1]}") if guess else toml


def drafted(path, folder, **options):
    """The draft of a sample, and the specification that it is."""
    result = draft(path, **{"adds_and_removes": True} | options)
    (folder / "drafted.toml").write_text(completed(result.toml))
    return result, load(folder / "drafted.toml")


def taken(spec, path):
    """How many rows of a file a release takes by a specification."""
    numbers = []
    fullest_period(spec, str(path), lambda _phase, number, _total: numbers.append(number))
    return numbers[-1]


def as_csv(path, names, lines, delimiter=","):
    """names: of the columns; () without a header."""
    path.write_text("\n".join(delimiter.join(map(str, line)) for line in [*([names] if names else []), *lines]) + "\n")
    return path
