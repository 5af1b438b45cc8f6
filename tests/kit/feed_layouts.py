"""What writes reports in the layouts of feeds: rows of plain values, whose names the file has."""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from google.transit import gtfs_realtime_pb2

BEGIN = datetime(2026, 3, 10, 9, tzinfo=UTC)
Row = dict[str, Any]


def plain(row: Row) -> Row:
    """Writes times as ISO texts."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def csv(rows: Sequence[Row]) -> bytes:
    lines = [",".join(rows[0]), *(",".join(_cell(value) for value in plain(row).values()) for row in rows)]
    return "\n".join([*lines, ""]).encode()


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f'"{text}"' if "," in text else text


def jsonl(rows: Sequence[Row]) -> bytes:
    return "\n".join(json.dumps(plain(row)) for row in rows).encode()


def array(rows: Sequence[Row]) -> bytes:
    return json.dumps(list(map(plain, rows)), indent=1).encode()


def parquet(rows: Sequence[Row]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), sink)
    return sink.getvalue()


def avro(rows: Sequence[Row]) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, _avro_type("Row", plain(rows[0])), list(map(plain, rows)))
    return sink.getvalue()


def _avro_type(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        fields = [{"name": key, "type": _avro_type(f"{name}_{key}", inner)} for key, inner in value.items()]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(value, list):
        return {"type": "array", "items": _avro_type(name, value[0])}
    return {str: "string", float: "double", int: "long", type(None): "null"}[type(value)]


def gtfs(rows: Sequence[Row]) -> bytes:
    """Writes a FeedMessage. A row may have label, license_plate, deleted; a speed in metres per second; no time."""
    feed = gtfs_realtime_pb2.FeedMessage()
    feed.header.gtfs_realtime_version, feed.header.timestamp = "2.0", int(BEGIN.timestamp()) + 300
    for number, row in enumerate(rows):
        entity = feed.entity.add(id=str(row.get("entity", number)), is_deleted=row.get("deleted", False))
        report = entity.vehicle
        for name in ("label", "license_plate"):
            if name in row:
                setattr(report.vehicle, name, row[name])
        if row.get("vehicle") is not None:
            report.vehicle.id = row["vehicle"]
        if row.get("time") is not None:
            report.timestamp = int(row["time"].timestamp()) if isinstance(row["time"], datetime) else row["time"]
        for name, field in (("lat", "latitude"), ("lon", "longitude"), ("speed", "speed"), ("heading", "bearing")):
            if row.get(name) is not None:
                setattr(report.position, field, row[name])
    return bytes(feed.SerializePartialToString())


def siri(rows: Sequence[Row]) -> bytes:
    return siri_document([siri_activity(plain(row)) for row in rows])


def siri_activity(row: Row, *, prefix: str = "", extra: str = "") -> str:
    """Writes a VehicleActivity of what is not None, operator and monitoring too; a speed in metres per second."""

    def element(name: str, inner: Any) -> str:
        return "" if inner is None else f"<{prefix}{name}>{inner}</{prefix}{name}>"

    place = element("Longitude", row.get("lon")) + element("Latitude", row.get("lat"))
    vehicle = None if row.get("vehicle") is None else escape(str(row["vehicle"]))
    names = {"OperatorRef": "operator", "Bearing": "heading", "Velocity": "speed"}
    journey = "".join(element(tag, row.get(name)) for tag, name in names.items())
    journey += element("LineRef", "4") + element("VehicleLocation", place) + element("VehicleRef", vehicle)
    outer = element("RecordedAtTime", row.get("time")) + element("VehicleMonitoringRef", row.get("monitoring"))
    return element("VehicleActivity", outer + element("MonitoredVehicleJourney", journey) + extra)


def siri_document(activities: Iterable[str], *, prefix: str = "", head: str = '<?xml version="1.0"?>') -> bytes:
    """Writes a VehicleMonitoringDelivery; `prefix` stands before each name."""
    name = f"xmlns:{prefix[:-1]}" if prefix else "xmlns"
    at = f"<{prefix}ResponseTimestamp>{BEGIN.isoformat()}</{prefix}ResponseTimestamp>"
    inner = f"<{prefix}VehicleMonitoringDelivery>{''.join(activities)}</{prefix}VehicleMonitoringDelivery>"
    inner = f"<{prefix}ServiceDelivery>{at}{inner}</{prefix}ServiceDelivery>"
    return f'{head}<{prefix}Siri {name}="http://www.siri.org.uk/siri" version="2.0">{inner}</{prefix}Siri>'.encode()


WRITERS: Mapping[str, tuple[str, Callable[[Sequence[Row]], bytes]]] = {
    "csv": ("csv", csv),
    "jsonl": ("jsonl", jsonl),
    "json": ("json", array),
    "parquet": ("parquet", parquet),
    "avro": ("avro", avro),
    "gtfs-realtime": ("pb", gtfs),
    "siri-vm": ("xml", siri),
}
TEXTS, MAPPED = ("csv", "jsonl", "json"), ("csv", "jsonl", "json", "parquet", "avro")
OWN = ("gtfs-realtime", "siri-vm")
