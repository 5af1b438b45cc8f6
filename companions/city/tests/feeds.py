"""Small made-up timetables (GTFS) for tests."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

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
