"""Builds and updates a published folder as static site.

An edition is the folder's state after an update. Files are staged by `update.put`, which reports changed ones, and
moved at the end; `results` are rows by product, HATS of slots, OF_DAYS of whole days. Stamps tell versions of result
files apart: what depends on files with equal stamps is reused. A pointer, LATEST, names the newest files. Following:
kept current by further updates. `shown` rounds an epsilon up. `with_days` puts days' rows where slots lack a place's.
"""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hatstream.api import AccountReport, InputError, Specification
from hatstream_publish.edition import formats
from hatstream_publish.edition.edition import DatasetInfo, Edition
from hatstream_publish.edition.records import PublishedFile, data_package, dcat_record, dictionary_csv, table_schema
from hatstream_publish.edition.results import ResultFiles, Stamp
from hatstream_publish.edition.writing import LATEST, MAPS, PACKAGE, FolderUpdate, updating
from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.page import MapTexts, Surroundings, map_page, render, shown, text_of
from hatstream_publish.pages.places import box_of
from hatstream_publish.pages.rows import ADVICE, HATS, USABLE, csv_bytes, published, table_of, with_days, with_trips
from hatstream_publish.pages.rows import DAYS as OF_DAYS

TRIPS = "trips.csv"  # copy of the specification's `slot.trips`
MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "geojson": "application/geo+json",
    "html": "text/html",
    "md": "text/markdown",
    "toml": "application/toml",
}
TITLE_BY_PRODUCT = {
    HATS: "Values by place and slot",
    OF_DAYS: "Values by place and day",
    "cell-part": "Values by place and part of the day",
    "parent-hour": "Values by coarser place and hour",
    "city-hour": "Values of the whole area by hour",
    "place-standing": "Values of places as they usually are",
    "place-day": "Values of places by day",
    "place-part": "Values of places in parts of the day",
    "place-slot": "Values of places by slot",
    TRIPS.removesuffix(".csv"): "Hours with a trip of each place, by the timetable",
    formats.DAYS.removesuffix(".json"): "Days, each with its files",
    formats.LATEST_VALUES.removesuffix(".geojson"): "Values of the last slot that has any",
    formats.OPENAPI.removesuffix(".json"): "Description of the files for programs",
}


class Changes(NamedTuple):
    """Outcome of an update."""

    rows: Mapping[str, tuple[int, int]]  # published ones and all, by table
    files: Mapping[str, str]  # SHA-256 of every file, by name
    changed: list[str]  # files that were written


@dataclass
class Site:
    """Public folder, with the results that make it.

    follows: the map polls for updates, and tables of the range end before the newest day, so that they change daily.
    """

    folder: Path
    spec: Specification
    public_inputs: Mapping[str, bytes]  # specification and hours with a trip, by name in the folder
    location: Any  # AccountLocation: the ledger and key files
    info: DatasetInfo
    around: Surroundings
    tiles: tuple[str | None, str, str | None]  # their address, their source, the pages' language
    files: ResultFiles
    dates: tuple[str, str]  # first and last local date, both included
    follows: bool
    _days: dict[str, tuple[object, formats.PublishedDay]] = field(default_factory=dict)  # with files' stamps, by date
    _tables: tuple[object, Mapping[str, "_Table"]] = (None, {})  # with stamps of all files
    _digests: dict[str, str] = field(default_factory=dict)  # of the folder's files after the last update

    def update(self) -> Changes | None:
        """Updates the folder, unless an error is raised; None without rows.

        Raises InputError, UsageError, OSError, or LedgerError for a damaged ledger.
        """
        results = {name: self._chosen(rows) for name, rows in self.files.results().items()}  # rows of `dates`
        results |= {HATS: with_trips(results[HATS], self.spec)} if HATS in results else {}  # only hours with a trip
        if self.files.skipped and not self.follows:  # `follow` reports them, and goes on without
            path, why = next(iter(self.files.skipped.items()))
            raise InputError(f"{path}: {why}")
        if not any(name in results and results[name].num_rows for name in (HATS, OF_DAYS)):
            return None
        edition = self._edition(with_days(results, self.spec))
        with updating(self.folder, self._digests) as update, ExitStack() as on_failure:
            on_failure.callback(self._days.clear)  # the staged files of new days are lost then
            # Files name the time of the edition, which changes only if anything else does: the former time comes first.
            former = _created(self.folder)
            with_former_time = edition if former is None else replace(edition, created=former)
            rows = self._put(with_former_time, results, update)
            if update.changed and former is not None:
                rows = self._put(edition, results, update)
            update.commit()
            on_failure.pop_all()
            self._digests = update.digests
            return Changes(rows, update.digests, sorted(update.changed))

    def _chosen(self, rows: pa.Table) -> pa.Table:
        """Selects rows of the dates; without --all, only of slots that have no forecast."""
        day = pc.utf8_slice_codeunits(rows["slot_start"], 0, 10)
        rows = rows.filter(pc.and_(pc.greater_equal(day, self.dates[0]), pc.less_equal(day, self.dates[1])))
        if self.info.everything:
            return rows
        forecast = rows.filter(pc.equal(rows["status"], "forecast"))["slot_start"].unique()  # not released yet
        return rows.filter(pc.invert(pc.is_in(rows["slot_start"], forecast)))

    def _edition(self, rows: pa.Table) -> Edition:
        """Verifies the ledger and describes the folder. Raises LedgerError, InputError."""
        starts, ends = (
            sorted(rows[name].unique().to_pylist(), key=datetime.fromisoformat) for name in ("slot_start", "slot_end")
        )
        account = AccountReport.read(self.spec, self.location, (starts[0][:10], starts[-1][:10]))
        if not account.record.newest:
            name = f"{self.spec.name} ({self.spec.spec_id})"
            raise InputError(f"the ledger has no release of {name}: name the one it was released with")
        shapes = [self.around.places.place(cell).shape for cell in rows["cell"].unique().to_pylist()]
        return Edition(
            info=self.info,
            account=account,
            first=starts[0],
            last=ends[-1],
            slots=len(starts),
            missing=[gap.slot_start for gap in account.gaps],
            bbox=box_of(shape for shape in shapes if shape),
            version=version("hatstream"),
            created=datetime.now(UTC),
        )

    def _put(
        self, edition: Edition, results: Mapping[str, pa.Table], update: FolderUpdate
    ) -> Mapping[str, tuple[int, int]]:
        """Stages every file; returns `Changes.rows`. Raises InputError.

        results: rows by product. The order matters: records list the files with data before them, with checksums.
        """
        rows, places = with_days(results, self.spec), self.around.places
        days = self._put_days(edition, results, update)
        tables = self._whole_tables(edition, results, days[-1].date)  # `files` of each: (content, schema) by file name
        if not self.follows and not {HATS, OF_DAYS} & set(tables):
            raise InputError(f"no value of the range may be used. {ADVICE['held-back']} --all publishes all")
        by_slot, by_day = (_of_days(table_of(results, name), {days[-1].date}) for name in (HATS, OF_DAYS))
        newest = by_slot if by_slot.num_rows else by_day  # rows of the newest day
        slot = formats.newest_slot(newest, places, everything=self.info.everything)
        # Files with data, by name: tables of the whole range, places, maps, the privacy card and the newest values.
        parts, files = [], {name: content for table in tables.values() for name, (content, _) in table.files.items()}
        schemas = {name: schema for table in tables.values() for name, (_, schema) in table.files.items()}
        files["places.geojson"] = _json(formats.places_geojson(results.values(), places))
        files |= {**self._map(edition, rows), **self.public_inputs}
        card = f"{self.info.title}: privacy"
        files["privacy.html"] = render("privacy.html", edition=edition, shown=shown, title=card)
        files |= {"privacy.json": _json(edition.privacy()), "provenance.json": _json(edition.provenance())}
        of_day = next((day.columns for day in reversed(days) if day.columns), [])  # of the newest one with rows
        columns = {name: table.columns for name, table in tables.items()} or {HATS: of_day}
        files["dictionary.csv"] = dictionary_csv(columns)
        files[formats.LATEST_VALUES] = formats.slot_geojson(slot, places)
        files[formats.DAYS] = formats.days_json(days)
        files[formats.OPENAPI] = _json(formats.openapi(edition))
        pointer = _json(_pointer(edition, slot, files))  # to the newest files: staged after all of them
        for name, content in files.items():
            digest = update.put(name, content)
            if not name.startswith(f"{MAPS}/"):
                stem, _, ending = name.rpartition(".")
                title = TITLE_BY_PRODUCT.get(stem, stem.capitalize())
                parts.append(PublishedFile(name, title, MEDIA[ending], len(content), digest, schemas.get(name)))
        # Records and pages that list those files.
        update.put("dcat.jsonld", _json(dcat_record(edition, parts)))
        update.put(PACKAGE, _json(data_package(edition, parts)))
        update.put("README.md", text_of("readme.md", edition=edition, parts=parts, shown=shown).encode())
        page: dict[str, Any] = {"edition": edition, "slot": slot, "days": days[::-1], "parts": parts, "shown": shown}
        _, _, language = self.tiles
        index = render("index.html", frames=True, language=language, title=self.info.title, **page)
        update.put("index.html", index)
        update.put(LATEST, pointer)
        # A site that follows has no tables on its first day: their rows are those of its days.
        return {name: (table.rows, results[name].num_rows) for name, table in tables.items()} or {
            HATS: (sum(day.rows for day in days), table_of(results, HATS).num_rows)
        }

    def _put_days(
        self, edition: Edition, results: Mapping[str, pa.Table], update: FolderUpdate
    ) -> list[formats.PublishedDay]:
        """Stages the files of days whose result files are new; others are reused."""
        stamps, days = self.files.stamps_of_days(), []
        by_slot, by_day = (table_of(results, name) for name in (HATS, OF_DAYS))
        starts = {start for rows in (by_slot, by_day) for start in rows["slot_start"].unique().to_pylist()}
        for date in sorted({start[:10] for start in starts}):
            former_stamps, day = self._days.get(date, (None, None))
            if day is None or former_stamps != stamps[date]:
                slots, places = (_of_days(rows, {date}) for rows in (by_slot, by_day))
                day, files = formats.day_files(date, slots, places, edition, self.around.places)
                day = day._replace(digests={name: update.put(name, content) for name, content in files.items()})
                self._days[date] = stamps[date], day
            update.digests |= day.digests
            days.append(day)
        return days

    def _whole_tables(self, edition: Edition, results: Mapping[str, pa.Table], newest: str) -> Mapping[str, "_Table"]:
        """Makes tables of all dates, by product; a site that follows omits the newest."""
        stamps: dict[str, frozenset[Stamp]] = self.files.stamps_of_days()
        if self.follows:
            stamps.pop(newest, None)  # this date still gets rows: without it the tables change once a day
            results = {name: _of_days(rows, stamps.keys()) for name, rows in results.items()}
        if self._tables[0] == stamps:  # no result file changed
            return self._tables[1]
        tables: dict[str, _Table] = {}
        about = {
            "title": self.info.title,
            "licence": self.info.licence.name,
            "spec_id": edition.spec.spec_id,
            "protects": edition.protects,
            "limit": edition.spec.account.limit.describe(),
            "more": "privacy.json, provenance.json",
        }
        for name, rows in results.items():
            table = published(rows, self.around.places, everything=self.info.everything)
            if not table.num_rows:
                continue
            columns = formats.columns_of(table.schema, edition.spec)
            parquet = formats.parquet_bytes(table, self.around.places, edition.spec, about)
            schema = pq.read_schema(pa.BufferReader(parquet))  # which has more columns than the CSV: outlines, instants
            files = {
                f"{name}.parquet": (parquet, table_schema(schema, formats.columns_of(schema, edition.spec))),
                f"{name}.csv": (csv_bytes(table), table_schema(table.schema, columns)),
            }
            tables[name] = _Table(table.num_rows, columns, files)
        self._tables = stamps, tables
        return tables

    def _map(self, edition: Edition, rows: pa.Table) -> dict[str, bytes]:
        """Renders the map, with its data inside or, if it follows, beside it."""
        texts = MapTexts(self.info.title, edition.account.guarantee, *self.tiles)  # tiles, credit, language
        places, ground = self.around.places, self.around.ground
        if not self.follows:
            shown_rows = rows if self.info.everything else rows.filter(pc.is_in(rows["status"], pa.array(USABLE)))
            return {"map.html": map_page(texts, data=packed(shown_rows, places, ground))}
        newest = sorted(rows["slot_start"].unique().to_pylist(), key=datetime.fromisoformat)[-168:]  # a week
        data = packed(rows.filter(pc.is_in(rows["slot_start"], pa.array(newest))), places, ground)
        name = f"{MAPS}/{hashlib.sha256(data).hexdigest()[:16]}.bin"  # the file LATEST names the newest
        return {name: data, "map.html": map_page(texts, source=LATEST, follow_s=30)}


def _of_days(rows: pa.Table, days: Iterable[str]) -> pa.Table:
    """Selects rows of local dates."""
    date = pc.utf8_slice_codeunits(rows["slot_start"], 0, 10)
    return rows.filter(pc.is_in(date, pa.array(sorted(days), pa.string())))


def _pointer(edition: Edition, slot: formats.NewestSlot, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Describes the newest edition, and where its newest slot's values lie."""
    map_file = next((name for name in files if name.startswith(f"{MAPS}/")), None)
    return {
        "title": edition.info.title,
        "licence": edition.info.licence.url or edition.info.licence.name,
        "spec_id": edition.spec.spec_id,
        "updated": edition.created.isoformat(timespec="seconds"),
        "slot": {"start": slot.start, "end": slot.end, "kind": slot.kind, "values": slot.values.num_rows},
        "values": formats.LATEST_VALUES,
        "days": formats.DAYS,
        **({"map": map_file} if map_file else {}),
    }


class _Table(NamedTuple):
    """Published table of all dates."""

    rows: int
    columns: list[formats.ColumnEntry]
    files: Mapping[str, tuple[bytes, Mapping[str, Any]]]  # content with `table_schema`, by name


def _created(folder: Path) -> datetime | None:
    """Reads when the folder's files were made; None if it has none."""
    try:
        provenance = msgspec.json.decode((folder / "provenance.json").read_bytes(), type=dict[str, Any])
        return datetime.fromisoformat(provenance["created"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _json(document: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
