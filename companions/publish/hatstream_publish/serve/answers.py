"""Answers of the interface: places, slots and values, as JSON, CSV or GeoJSON; made of a snapshot alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hatstream_publish.pages.usable import csv_bytes
from hatstream_publish.serve.snapshot import Snapshot

MOST_ROWS = 100_000
LATEST = "latest"
FIELDS = ("slot", "from", "to", "place", "statistic", "all")


class BadQuery(Exception):
    """What was asked for is not there; the message says what would be."""


@dataclass(frozen=True)
class Answer:
    content: bytes
    media: str


def places(snapshot: Snapshot) -> Answer:
    """Lists every place: id, name, note and shape."""
    listed = []
    for cell, place in snapshot.places.items():
        shape = None if place.shape is None else place.shape.geometry
        listed.append({"id": cell, "name": place.name, "note": place.note, "geometry": shape})
    return _json({"places": listed})


def slots(snapshot: Snapshot) -> Answer:
    """Lists every slot: start, end, how many usable values, and whether it is live or a forecast."""
    ends = snapshot.rows.group_by("slot_start").aggregate([("slot_end", "min")])
    end = dict(zip(ends["slot_start"].to_pylist(), ends["slot_end_min"].to_pylist(), strict=True))
    usable = snapshot.usable
    counts = usable["slot_start"].value_counts().to_pylist() if usable.num_rows else []
    number = {count["values"]: count["counts"] for count in counts}
    kinds = snapshot.kinds
    return _json(
        {
            "slots": [
                {"start": start, "end": end[start], "values": number.get(start, 0), "kind": kinds.get(start, "")}
                for start in snapshot.starts
            ],
            "statistics": sorted(snapshot.rows["statistic"].unique().to_pylist()),
        }
    )


def values(snapshot: Snapshot, query: Mapping[str, str], form: str = "json") -> Answer:
    """Answers with the values that a query asks for. Raises BadQuery."""
    return _FORMS[form](snapshot, chosen(snapshot, query))


def chosen(snapshot: Snapshot, query: Mapping[str, str]) -> pa.Table:
    """Picks the rows asked for. query: see FIELDS; without slot, from and to the newest slot. Raises BadQuery."""
    if unknown := sorted(set(query) - set(FIELDS)):
        raise BadQuery(f"{unknown[0]!r} is not one of {', '.join(FIELDS)}")
    everything = query.get("all") in ("1", "true", "yes")
    rows = snapshot.everything if everything else snapshot.usable
    if not rows.num_rows:
        return rows
    slices = snapshot.everything_slices if everything else snapshot.usable_slices
    wanted = [slices[start] for start in _starts(snapshot, query) if start in slices]
    rows = pa.concat_tables([rows.slice(0, 0), *(rows.slice(begins, size) for begins, size in wanted)])
    for name, column in (("place", "cell"), ("statistic", "statistic")):
        if name in query:
            rows = rows.filter(pc.equal(rows[column], query[name]))
    if rows.num_rows > MOST_ROWS:
        raise BadQuery(
            f"{rows.num_rows:,} rows are more than {MOST_ROWS:,}: ask for fewer slots (from, to) or one place"
        )
    return rows


def _starts(snapshot: Snapshot, query: Mapping[str, str]) -> list[str]:
    asked = query["slot"].replace(" ", "+") if "slot" in query else None  # of a + that was not encoded
    if asked is None and not {"from", "to"} & set(query):
        asked = LATEST
    if asked == LATEST:
        settled = [start for start in snapshot.starts if snapshot.kinds.get(start) != "forecast"]
        return (settled or snapshot.starts)[-1:]
    if asked is not None:
        if asked not in snapshot.starts:
            raise BadQuery(f"there is no slot that starts at {asked[:40]!r}: /api/slots lists them")
        return [asked]
    first, last = (_instant(name, query[name]) if name in query else None for name in ("from", "to"))
    if first and last and bool(first.tzinfo) == bool(last.tzinfo) and last < first:
        raise BadQuery("the range is empty: to is before from")
    return [start for start in snapshot.starts if _lies(datetime.fromisoformat(start), first, last)]


def _lies(start: datetime, first: datetime | None, last: datetime | None) -> bool:
    """Says whether a start lies within the bounds; one without an offset is local, as slots are."""
    local = start.replace(tzinfo=None)
    if first is not None and (start < first if first.tzinfo else local < first):
        return False
    return last is None or not (start >= last if last.tzinfo else local >= last)


def _instant(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise BadQuery(f"{name} must be a date or a time like 2026-05-13T06:00; it is {text[:40]!r}") from None


# --- forms --------------------------------------------------------------------------------------------------------


def _json(document: Any) -> Answer:
    return Answer(msgspec.json.encode(document), "application/json")


def _rows_geojson(snapshot: Snapshot, rows: pa.Table) -> Answer:
    features = []
    for row in rows.to_pylist():
        shape = snapshot.places[row["cell"]].shape
        features.append({"type": "Feature", "geometry": shape and shape.geometry, "properties": row})
    return Answer(msgspec.json.encode({"type": "FeatureCollection", "features": features}), "application/geo+json")


_FORMS: Mapping[str, Callable[[Snapshot, pa.Table], Answer]] = {
    "json": lambda snapshot, rows: _json({"newest": snapshot.starts[-1], "values": rows.to_pylist()}),
    "csv": lambda _snapshot, rows: Answer(csv_bytes(rows), "text/csv; charset=utf-8"),
    "geojson": _rows_geojson,
}
