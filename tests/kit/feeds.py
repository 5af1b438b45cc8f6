"""Feeds as agencies have them: the same reports of twelve buses in a layout, with one thing that is often otherwise.

`made(kind, layout, folder)` writes one. Kinds, and the layouts that each goes with, are in KINDS.
"""

import gzip
import io
import json
import math
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import shapely

from tests.kit.feed_layouts import BEGIN, MAPPED, OWN, TEXTS, WRITERS, Row, gtfs, plain

BUSES, STEPS, STEP_S = 12, 12, 20
ZONE = "Europe/Berlin"


def reports(south: bool = False) -> list[Row]:
    """Lists reports near Hamburg, or Melbourne: vehicle, time in UTC, lat, lon, and km/h that fit the positions."""
    begin = (-37.8, 145.0) if south else (53.55, 10.0)
    rows = []
    for step in range(STEPS):
        for bus in range(BUSES):
            kmh = 15.0 + bus + 3 * (step % 4)
            driven_m = sum(15.0 + bus + 3 * (earlier % 4) for earlier in range(step)) / 3.6 * STEP_S
            lat = begin[0] + 0.004 * bus + math.degrees(driven_m / 6_371_000)
            time = BEGIN + timedelta(seconds=step * STEP_S + bus)
            at = {"lat": round(lat, 6), "lon": round(begin[1] + 0.006 * bus, 6)}
            rows.append({"vehicle": f"bus-{100 + bus}", "time": time, **at, "speed": kmh})
    return rows


MEAN_KMH = sum(row["speed"] for row in reports()) / (BUSES * STEPS)


@dataclass(frozen=True)
class Made:
    """A feed. vehicles, rows, kmh: that a release should find in it; None where a draft should refuse it."""

    path: Path
    vehicles: int = BUSES
    rows: int = BUSES * STEPS
    kmh: float | None = MEAN_KMH
    warned: str | None = None
    refused: str | None = None


def _in_mps(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "speed": row["speed"] / 3.6} for row in rows]


def _usual(layout: str, **options: Any) -> list[Row]:
    return _in_mps(reports(**options)) if layout in OWN else reports(**options)


def _write(folder: Path, layout: str, written: Sequence[Row], **expected: Any) -> Made:
    suffix, writer = WRITERS[layout]
    path = folder / f"feed.{suffix}"
    path.write_bytes(writer(written))
    return Made(path, **expected)


# --- kinds: what is otherwise --------------------------------------------------------------------------------------


def _kmh(layout: str, folder: Path) -> Made:
    return _write(folder, layout, reports())


def _milliseconds(layout: str, folder: Path) -> Made:
    return _write(folder, layout, [{**row, "time": int(row["time"].timestamp() * 1000)} for row in _usual(layout)])


def _local(layout: str, folder: Path) -> Made:
    local = [{**row, "time": row["time"].astimezone(ZoneInfo(ZONE)).replace(tzinfo=None)} for row in _usual(layout)]
    return _write(folder, layout, local)


def _label(layout: str, folder: Path) -> Made:
    name = "label" if layout == "gtfs-realtime" else "monitoring"
    return _write(folder, layout, [{**row, name: row["vehicle"], "vehicle": None} for row in _usual(layout)])


def _plate(layout: str, folder: Path) -> Made:
    return _write(folder, layout, [{**row, "license_plate": row["vehicle"], "vehicle": ""} for row in _usual(layout)])


def _entity(layout: str, folder: Path) -> Made:
    return _write(folder, layout, [{**row, "entity": row["vehicle"], "vehicle": None} for row in _usual(layout)])


def _no_times(layout: str, folder: Path) -> Made:
    rows = [{**row, "time": None} for row in _usual(layout)]
    return _write(folder, layout, rows, refused="--header-time")


def _deleted(layout: str, folder: Path) -> Made:
    rows = [{**row, "deleted": number % 3 == 0} for number, row in enumerate(_usual(layout))]
    kept = [row["speed"] * 3.6 for row in rows if not row["deleted"]]
    vehicles = len({row["vehicle"] for row in rows if not row["deleted"]})
    return _write(folder, layout, rows, rows=len(kept), kmh=sum(kept) / len(kept), vehicles=vehicles)


def _is_known(number: int) -> bool:
    """Leaves out a quarter of the reports, some of every bus."""
    return (number // BUSES + number) % 4 != 0


def _unknown(value: float) -> Callable[[str, Path], Made]:
    def made(layout: str, folder: Path) -> Made:
        rows = _usual(layout)
        kept = [row for number, row in enumerate(rows) if _is_known(number)]
        marked = [row if _is_known(number) else {**row, "speed": value} for number, row in enumerate(rows)]
        kmh = sum(row["speed"] for row in kept) / len(kept) * (3.6 if layout in OWN else 1)
        return _write(folder, layout, marked, rows=len(kept), kmh=kmh, warned="input.no_value")

    return made


def _standing(layout: str, folder: Path) -> Made:
    rows = [{**row, "speed": 0.0} for row in _usual(layout)]
    return _write(folder, layout, rows, kmh=0.0, warned="Speeds are 0 where vehicles move")


def _two_fields(layout: str, folder: Path) -> Made:
    rows = [
        {"operator": f"op-{number % BUSES // 3}", **row, "vehicle": f"V{number % BUSES % 3}"}
        for number, row in enumerate(_usual(layout))
    ]
    return _write(folder, layout, rows)


def _nested(layout: str, folder: Path) -> Made:
    rows = [
        {
            "bus": {"vehicle_id": row["vehicle"], "seen": {"time": row["time"].isoformat()}},
            "place": {"latitude": row["lat"], "longitude": row["lon"]},
            "speed_kmh": row["speed"],
        }
        for row in reports()
    ]
    return _write(folder, layout, rows)


def _coordinates(layout: str, folder: Path) -> Made:
    rows = [{**_without(row, "lat", "lon"), "coordinates": [row["lon"], row["lat"]]} for row in reports()]
    return _write(folder, layout, rows)


def _points(layout: str, folder: Path) -> Made:
    rows = [{**_without(row, "lat", "lon"), "geometry": shapely.Point(row["lon"], row["lat"]).wkb} for row in reports()]
    return _write(folder, layout, rows)


def _document(wrap: Callable[[list[Row]], Any]) -> Callable[[str, Path], Made]:
    def made(_: str, folder: Path) -> Made:
        path = folder / "feed.json"
        path.write_text(json.dumps(wrap([_lite(row) for row in map(plain, reports())])))
        return Made(path)

    return made


def _lite(row: Row) -> Row:
    place = {"Latitude": row["lat"], "Longitude": row["lon"]}
    journey = {"VehicleRef": row["vehicle"], "VehicleLocation": place, "calls": [{"Order": 1}, {"Order": 2}]}
    return {"RecordedAtTime": row["time"], "MonitoredVehicleJourney": journey, "speed_kmh": row["speed"]}


def _in_halves(rows: list[Row]) -> Any:
    parts = [{"VehicleActivity": rows[:50]}, {"VehicleActivity": rows[50:]}]
    return {"Siri": {"ServiceDelivery": {"VehicleMonitoringDelivery": parts}}}


def _by_key(_: str, folder: Path) -> Made:
    rows = [row for row in reports() if row["time"] < BEGIN + timedelta(seconds=BUSES)]
    path = folder / "feed.json"
    named = {
        row["vehicle"]: {"pos": _without(plain(row), "vehicle", "speed"), "speed_kmh": row["speed"]} for row in rows
    }
    path.write_text(json.dumps({"ok": True, "vehicles": named}))
    return Made(path, rows=BUSES, kmh=sum(row["speed"] for row in rows) / BUSES)


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _packed(pack: Callable[[str, bytes], tuple[str, bytes]]) -> Callable[[str, Path], Made]:
    def made(layout: str, folder: Path) -> Made:
        suffix, writer = WRITERS[layout]
        name, data = pack(f"feed.{suffix}", writer(_usual(layout)))
        (folder / name).write_bytes(data)
        return Made(folder / name)

    return made


def _zip(name: str, data: bytes) -> tuple[str, bytes]:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(f"day/{name}", data)
        archive.writestr("__MACOSX/._feed", b"\0\5\26\7")
        archive.writestr("_SUCCESS", b"")
    return "feed.zip", sink.getvalue()


def _zip_of_many(layout: str, folder: Path) -> Made:
    snapshots, path = _snapshots(layout, folder).path, folder / "feed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in snapshots.iterdir():
            archive.write(file, file.name)
    return Made(path)


def _tar_of_many(layout: str, folder: Path) -> Made:
    """Writes GNU's tar as `tar czf` of a folder does, with a link beside the files."""
    snapshots, path = _snapshots(layout, folder).path, folder / "feed.tgz"
    (snapshots / "latest").symlink_to("000")
    with tarfile.open(path, "w:gz" if layout in TEXTS else "w") as archive:
        archive.add(snapshots, "day")
    return Made(path)


def _snapshots(layout: str, folder: Path) -> Made:
    suffix, writer = WRITERS[layout]
    rows = _usual(layout)
    (folder / "feed").mkdir()
    (folder / "feed" / "_SUCCESS").write_bytes(b"")
    for start in range(0, len(rows), BUSES):
        (folder / "feed" / f"{start:03d}.{suffix}").write_bytes(writer(rows[start : start + BUSES]))
    return Made(folder / "feed")


def _delimited(layout: str, folder: Path) -> Made:
    rows, path = _usual(layout), folder / "feed.pb"
    messages = [gtfs(rows[start : start + BUSES]) for start in range(0, len(rows), BUSES)]
    path.write_bytes(b"".join(_varint(len(message)) + message for message in messages))
    return Made(path)


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def _times(write: Callable[[datetime], Any]) -> Callable[[str, Path], Made]:
    """Makes times of another form, on the local clock."""

    def made(layout: str, folder: Path) -> Made:
        rows = [{**row, "time": write(row["time"].astimezone(ZoneInfo(ZONE)))} for row in reports()]
        return _write(folder, layout, rows)

    return made


def _date_and_clock(layout: str, folder: Path) -> Made:
    return _split(layout, folder, "%d.%m.%Y", lambda time: time.strftime("%H:%M:%S"))


def _date_and_seconds(layout: str, folder: Path) -> Made:
    return _split(layout, folder, "%Y%m%d", lambda time: time.hour * 3600 + time.minute * 60 + time.second)


def _split(layout: str, folder: Path, form: str, clock: Callable[[datetime], Any]) -> Made:
    local = [(row, row["time"].astimezone(ZoneInfo(ZONE))) for row in reports()]
    rows = [{"op_date": time.strftime(form), "op_time": clock(time), **_without(row, "time")} for row, time in local]
    return _write(folder, layout, rows)


def _some_offsets(layout: str, folder: Path) -> Made:
    local = [{**row, "time": row["time"].astimezone(ZoneInfo(ZONE))} for row in reports()]
    times = [row["time"].replace(tzinfo=None) if number % 2 else row["time"] for number, row in enumerate(local)]
    return _write(folder, layout, [{**row, "time": time} for row, time in zip(local, times, strict=True)])


def _mute_buses(layout: str, folder: Path) -> Made:
    rows = [{**row, "speed": 0.0 if number % 2 else row["speed"]} for number, row in enumerate(_usual(layout))]
    kmh = sum(row["speed"] for row in rows) / len(rows) * (3.6 if layout in OWN else 1)
    return _write(folder, layout, rows, kmh=kmh, warned="50.0% of the speeds of vehicles that move are 0")


def _no_number(layout: str, folder: Path) -> Made:
    rows = _usual(layout)
    kept = [row["speed"] for number, row in enumerate(rows) if number % 9]
    written = [row if number % 9 else {**row, "speed": math.nan} for number, row in enumerate(rows)]
    return _write(folder, layout, written, rows=len(kept), kmh=sum(kept) / len(kept))


def _nested_ids(layout: str, folder: Path) -> Made:
    rows = [
        {"op": {"id": f"op-{number % BUSES // 3}"}, "veh": {"id": number % BUSES % 3}, **_without(row, "vehicle")}
        for number, row in enumerate(reports())
    ]
    return _write(folder, layout, rows)


def _hemispheres(layout: str, folder: Path) -> Made:
    rows = [{**row, "lat": -row["lat"], "ns": "S", "ew": "E"} for row in reports(south=True)]
    return _write(folder, layout, rows)


def _lost_once(layout: str, folder: Path) -> Made:
    rows = reports()
    rows[7] = {**rows[7], "lat": 999.0, "lon": 999.0}
    kept = [row["speed"] for number, row in enumerate(rows) if number != 7]
    return _write(folder, layout, rows, rows=len(kept), kmh=sum(kept) / len(kept))


def _x_is_north(layout: str, folder: Path) -> Made:
    return _write(
        folder, layout, [{**_without(row, "lat", "lon"), "x": row["lat"], "y": row["lon"]} for row in reports()]
    )


def _swapped(layout: str, folder: Path) -> Made:
    rows = [{**row, "lat": row["lon"], "lon": row["lat"]} for row in _usual(layout)]
    return _write(folder, layout, rows, refused="each other's")


def _number_ids(layout: str, folder: Path) -> Made:
    return _write(folder, layout, [{**row, "vehicle": float(row["vehicle"][4:])} for row in reports()])


def _miles(layout: str, folder: Path) -> Made:
    rows = [{**row, "speed": row["speed"] / 1.609344} for row in _usual(layout)]
    return _write(folder, layout, rows)


def _commas(layout: str, folder: Path) -> Made:
    numbers = ("lat", "lon", "speed")
    rows = [{**row, **{name: str(row[name]).replace(".", ",") for name in numbers}} for row in _usual(layout)]
    return _write(folder, layout, rows)


def _excel(time: datetime) -> float:
    return (time.replace(tzinfo=None) - datetime(1899, 12, 30)) / timedelta(days=1)


KINDS: Mapping[str, tuple[Sequence[str], Callable[[str, Path], Made]]] = {
    "km/h": (OWN, _kmh),
    "milliseconds": (("gtfs-realtime", *MAPPED), _milliseconds),
    "times without an offset": (("siri-vm", "csv", "jsonl", "parquet"), _local),
    "label or monitoring ref": (OWN, _label),
    "license plate, id empty": (("gtfs-realtime",), _plate),
    "entity id": (("gtfs-realtime",), _entity),
    "header time alone": (OWN, _no_times),
    "deleted entities": (("gtfs-realtime",), _deleted),
    "-1 is unknown": ((*OWN, *MAPPED), _unknown(-1.0)),
    "255 is unknown": ((*OWN, *MAPPED), _unknown(255.0)),
    "speeds of 0": ((*OWN, *MAPPED), _standing),
    "id of two fields": (("siri-vm", *MAPPED), _two_fields),
    "nested": (("jsonl", "json", "parquet", "avro"), _nested),
    "lists of coordinates": (("jsonl", "json", "parquet", "avro"), _coordinates),
    "points": (("parquet",), _points),
    "arrays in arrays": (("json",), _document(_in_halves)),
    "one in place of an array": (("json",), _document(lambda rows: {"a": {"b": {"c": rows}}})),
    "keyed by number": (("json",), _document(lambda rows: {"at": 1, "all": {str(n): r for n, r in enumerate(rows)}})),
    "keyed by vehicle": (("json",), _by_key),
    "gzip": ((*OWN, *MAPPED), _packed(lambda name, data: (f"{name}.gz", gzip.compress(data)))),
    "gzip under another name": ((*OWN, *MAPPED), _packed(lambda name, data: (name, gzip.compress(data)))),
    "zip of a system": ((*OWN, *MAPPED), _packed(_zip)),
    "zip of many": ((*OWN, *MAPPED), _zip_of_many),
    "tar of many": ((*OWN, *MAPPED), _tar_of_many),
    "snapshots": ((*OWN, *MAPPED), _snapshots),
    "delimited messages": (("gtfs-realtime",), _delimited),
    "month names": (TEXTS, _times(lambda time: time.strftime("%b %d %Y %I:%M:%S:000%p"))),
    "RFC 2822": (TEXTS, _times(lambda time: time.strftime("%a, %d %b %Y %H:%M:%S %z"))),
    "UTC in words": (TEXTS, _times(lambda time: time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))),
    "basic ISO": (TEXTS, _times(lambda time: time.strftime("%Y%m%dT%H%M%S%z"))),
    ".NET": (TEXTS, _times(lambda time: f"/Date({int(time.timestamp() * 1000)}+0100)/")),
    "day first": (TEXTS, _times(lambda time: time.strftime("%d/%m/%y %H:%M:%S"))),
    "spreadsheet": (("csv", "parquet"), _times(_excel)),
    "date and clock": (("csv", "jsonl", "parquet"), _date_and_clock),
    "date and seconds": (("csv", "jsonl", "parquet"), _date_and_seconds),
    "offset now and then": (TEXTS, _some_offsets),
    "zeros of half the buses": ((*OWN, *MAPPED), _mute_buses),
    "NaN": (MAPPED, _no_number),
    "id of two nested fields": (("jsonl", "json", "parquet", "avro"), _nested_ids),
    "hemispheres": (("csv", "jsonl", "parquet"), _hemispheres),
    "one position of 999": (MAPPED, _lost_once),
    "x is the latitude": (MAPPED, _x_is_north),
    "latitude and longitude swapped": ((*OWN, *MAPPED), _swapped),
    "miles an hour": (MAPPED, _miles),
    "decimal commas in texts": (("jsonl", "json", "parquet", "avro"), _commas),
    "ids as floats": (("csv", "jsonl", "parquet", "avro"), _number_ids),
}


def made(kind: str, layout: str, folder: Path) -> Made:
    """Writes a feed of a kind in a layout, and says what is in it."""
    return KINDS[kind][1](layout, folder)
