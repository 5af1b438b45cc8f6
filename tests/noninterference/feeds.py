"""Feeds as files of every layout: what each report becomes is a matter of the report alone."""

import gzip
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from google.transit import gtfs_realtime_pb2

from tests.kit.feed_layouts import siri_activity, siri_document
from tests.noninterference.world import Feed, Report, in_csv

Writer = Callable[[Sequence[Report], Path], None]
NAMES = ("bus", "ts", "lat", "lon", "v")
COLUMNS = 'columns = { vehicle = "bus", time = "ts", lat = "lat", lon = "lon", speed = "v" }\n'


def _csv(feed: Sequence[Report], path: Path) -> None:
    path.write_bytes(in_csv(feed).encode(errors="replace"))


def _csv_gz(feed: Sequence[Report], path: Path) -> None:
    path.write_bytes(gzip.compress(in_csv(feed).encode(errors="replace"), mtime=0))


def _jsonl(feed: Sequence[Report], path: Path) -> None:
    path.write_text("".join(json.dumps(_named(report), default=str) + "\n" for report in feed))


def _array(feed: Sequence[Report], path: Path) -> None:
    rows = [{name: _strict(value) for name, value in _named(report).items()} for report in feed]
    path.write_text("[" + ",\n".join(json.dumps(row, default=str) for row in rows) + "]")


def _iudx(feed: Sequence[Report], path: Path) -> None:
    rows = [
        {"license_plate": _strict(bus), "observationDateTime": _strict(ts), "speed": _strict(v),
         "location": {"type": "Point", "coordinates": [_strict(lon), _strict(lat)]}}
        for bus, ts, lat, lon, v, *_ in feed
    ]  # fmt: skip
    path.write_text("[" + ",".join(json.dumps(row, default=str) for row in rows) + "]")


def _mds(feed: Sequence[Report], path: Path) -> None:
    rows = [
        {"device_id": _strict(bus), "timestamp": 1_000 * _seconds(ts),
         "location": {"lat": _strict(lat), "lng": _strict(lon), "speed": _strict(v)}}
        for bus, ts, lat, lon, v, *_ in feed
    ]  # fmt: skip
    half = len(rows) // 2  # a document may have them at both places
    document = {"data": {"telemetry": rows[:half]}, "telemetry": rows[half:]}
    path.write_text(json.dumps(document, default=str))


def _records(feed: Sequence[Report], path: Path) -> None:
    rows = [{name: _strict(value) for name, value in _named(report).items()} for report in feed]
    path.write_text(json.dumps({"header": {}, "entity": rows}, default=str))


def _strict(value: Any) -> Any:
    """What JSON can say: a document with anything else in it is damaged as a whole (docs/guarantee.md)."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return _text(value) if isinstance(value, str) else value


def _under(*names: str) -> Writer:
    """CSV with a header of these names."""

    def write_csv(feed: Sequence[Report], path: Path) -> None:
        path.write_text(in_csv(feed).encode(errors="replace").decode().replace(",".join(NAMES), ",".join(names), 1))

    return write_csv


def _siri(feed: Sequence[Report], path: Path) -> None:
    fields = ("vehicle", "time", "lat", "lon", "speed")
    rows = (dict(zip(fields, map(_sayable, report[:5]), strict=True)) for report in feed)
    escaped = (
        {name: text and escape(text) for name, text in row.items()} | {"vehicle": row["vehicle"]} for row in rows
    )
    path.write_bytes(siri_document([siri_activity(row) for row in escaped]))


def _sayable(value: Any) -> str | None:
    """Without what XML has no way to say."""
    text = _text(value)
    return None if text is None else "".join(letter for letter in text if letter >= " " or letter in "\t\n")


def _parquet(feed: Sequence[Report], path: Path) -> None:
    """The types of columns are those of the file's schema: a value that does not fit is empty."""
    columns = zip(*[report[:5] for report in feed], strict=True) if feed else [()] * 5
    kinds = (_text, _text, _number, _number, _number)
    types = (pa.string(), pa.string(), pa.float64(), pa.float64(), pa.float64())
    arrays = [
        pa.array([of(value) for value in column], kind) for column, of, kind in zip(columns, kinds, types, strict=True)
    ]
    pq.write_table(pa.table(arrays, names=list(NAMES)), path, row_group_size=50)


def _avro(feed: Sequence[Report], path: Path) -> None:
    kinds = ("string", "string", "double", "double", "double")
    fields = [{"name": name, "type": ["null", kind]} for name, kind in zip(NAMES, kinds, strict=True)]
    rows = [
        {"bus": _text(bus), "ts": _text(ts), "lat": _number(lat), "lon": _number(lon), "v": _number(v)}
        for bus, ts, lat, lon, v, *_ in feed
    ]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows, sync_marker=b"0" * 16)


def _gtfs(feed: Sequence[Report], path: Path) -> None:
    message = gtfs_realtime_pb2.FeedMessage()
    message.header.gtfs_realtime_version = "2.0"
    for number, (bus, ts, lat, lon, v, *_) in enumerate(feed):
        entity = message.entity.add(id=str(number))
        entity.vehicle.vehicle.id = _text(bus) or ""
        entity.vehicle.position.latitude = _number(lat) or 0.0
        entity.vehicle.position.longitude = _number(lon) or 0.0
        entity.vehicle.position.speed = _number(v) or 0.0
        entity.vehicle.timestamp = _seconds(ts)
    path.write_bytes(message.SerializeToString())


def _trip_updates(feed: Sequence[Report], path: Path) -> None:
    message = gtfs_realtime_pb2.FeedMessage()
    message.header.gtfs_realtime_version = "2.0"
    for number, (bus, ts, lat, _, v, *_) in enumerate(feed):
        update = message.entity.add(id=str(number)).trip_update
        update.vehicle.id, update.trip.route_id, update.timestamp = _text(bus) or "", _text(lat) or "", _seconds(ts)
        if math.isfinite(delay := _number(v) or 0.0):
            update.stop_time_update.add().arrival.delay = int(np.clip(delay, -(2**31), 2**31 - 1))
    path.write_bytes(message.SerializeToString())


def _named(report: Report) -> Mapping[str, Any]:
    return dict(zip(NAMES, report[:5], strict=True))


def _text(value: Any) -> str | None:
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:
        return math.inf


def _seconds(time: Any) -> int:
    try:
        return max(0, int(datetime.fromisoformat(str(time)).timestamp()))
    except (ValueError, OverflowError):
        return 0


WRITERS: Mapping[str, tuple[str, str, Writer]] = {
    "csv": ('layout = "csv"\n' + COLUMNS, "csv", _csv),
    "csv-gz": ('layout = "csv"\n' + COLUMNS, "csv.gz", _csv_gz),
    "jsonl": ('layout = "jsonl"\n' + COLUMNS, "jsonl", _jsonl),
    "json-array": ('layout = "json"\n' + COLUMNS, "json", _array),
    "json-records": ('layout = "json"\nrecords = "entity"\n' + COLUMNS, "json", _records),
    "parquet": ('layout = "parquet"\n' + COLUMNS, "parquet", _parquet),
    "avro": ('layout = "avro"\n' + COLUMNS, "avro", _avro),
    "iudx": ('layout = "iudx"\n', "json", _iudx),
    "capmetro": ('layout = "capmetro"\n', "csv", _under("vehicle_id", "timestamp", "latitude", "longitude", "speed")),
    "tides": ('layout = "tides"\n', "csv", _under("vehicle_id", "event_timestamp", "latitude", "longitude", "speed")),
    "mds": ('layout = "mds"\n', "json", _mds),
    "siri-vm": ('layout = "siri-vm"\n', "xml", _siri),
    "gtfs-realtime": ('layout = "gtfs-realtime"\n', "pb", _gtfs),
    "gtfs-trip-updates": ('layout = "gtfs-trip-updates"\n', "pb", _trip_updates),
    "tides-stop-visits": (
        'layout = "tides-stop-visits"\n',
        "csv",
        _under("vehicle_id", "actual_arrival_time", "stop_id", "lon", "dwell"),
    ),
}
"""Of each layout: its [input], the end of its files' names, and what writes one."""


def write(feed: Feed, folder: Path, layout: str, files: int = 1) -> str:
    """The feed in so many files, row by row in turn; returns the pattern of their names."""
    _, suffix, writer = WRITERS[layout]
    folder.mkdir(exist_ok=True)
    for number in range(files):
        writer(feed[number::files], folder / f"{number}.{suffix}")
    return str(folder / f"*.{suffix}")


def write_by_vehicle(feed: Feed, folder: Path) -> str:
    """A CSV file for each vehicle, named by it, without a column of vehicles; returns the pattern of their names."""
    folder.mkdir(exist_ok=True)
    for vehicle in {report.vehicle for report in feed}:
        lines = in_csv([report for report in feed if report.vehicle == vehicle]).splitlines()
        (folder / f"{vehicle}.csv").write_text("".join(line.split(",", 1)[1] + "\n" for line in lines))
    return str(folder / "*.csv")


KEYS = ["21.17", "21.19", "21.21", "nobody"]
KEYED = {"gtfs-trip-updates": ("route_id", "delay"), "tides-stop-visits": ("stop_id", "dwell")}
"""Of layouts without positions: their columns of keys and values."""


def by_key(spec: str, column: str, value: str) -> str:
    """A specification with keys, which are latitudes, in place of cells, and a value in minutes."""
    tables = f"[places]\ncolumn = '{column}'\nkeys = {KEYS}\n"
    tables += f"[value]\nname = '{value}'\nunit = 'min'\nlower = -5\nupper = 40\n"
    return re.sub(r"\[cells\]\n.*\n.*\n\[speed\]\n.*\n", tables, spec)


def with_input(spec: str, layout: str) -> str:
    """A specification for feeds of a layout."""
    spec = by_key(spec, *KEYED[layout]) if layout in KEYED else spec
    return spec.split("[input]")[0] + "[input]\n" + WRITERS[layout][0]
