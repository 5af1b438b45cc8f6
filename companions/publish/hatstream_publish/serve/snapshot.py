"""What a folder of result files holds at one moment, and how a changing folder is followed."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
import shapely.geometry

from hatstream.api import InputError, read_results
from hatstream_publish.pages.map import Surroundings
from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.places import Float64s, Place
from hatstream_publish.pages.rows import HATS, is_live
from hatstream_publish.pages.usable import published

KINDS = ("parquet", "csv", "jsonl", "avro", "geojson")
"""Kinds of result files; of a slot in several the first is read."""
PREFIXES = ("hats", "live")
SECRET_NAMES = ("*.key", "*.head", "*.sqlite", "*.sqlite-*", "*.db", "*.learned")
"""What must not lie where a server reads."""

Stamp = tuple[str, int, int]
"""A file's path, time of its last change and size."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """rows: of slots. stamps: their files, by slot. around: public names and lines. slots: of the map, at most."""

    rows: pa.Table
    stamps: Mapping[str, tuple[Stamp, ...]]
    around: Surroundings
    slots: int

    @cached_property
    def tag(self) -> str:
        """Changes whenever a file does."""
        return _digest((sorted(self.stamps.items()), self.slots))

    def tag_of(self, slot: str | None) -> str:
        """Changes whenever a file of the slot does; of all slots for None, or for one that is not there."""
        return self.tag if slot is None or slot not in self.stamps else _digest((slot, self.stamps[slot]))

    @cached_property
    def starts(self) -> list[str]:
        """Starts of all slots, in order."""
        starts: list[str] = self.rows["slot_start"].unique().to_pylist()
        return sorted(starts, key=datetime.fromisoformat)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """Says of slots that are not settled whether they are forecast or live."""
        kinds: dict[str, str] = {}
        for name, chosen in (("live", is_live(self.rows)), ("forecast", pc.equal(self.rows["status"], "forecast"))):
            kinds |= dict.fromkeys(self.rows.filter(chosen)["slot_start"].unique().to_pylist(), name)
        return kinds

    def prepare(self) -> None:
        """Makes what most answers are made of, before anybody asks. Raises InputError."""
        _ = self.usable_slices, self.kinds, self.places, self.map_data, self.worlds

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """Every place, by id."""
        return {cell: self.around.places.place(cell) for cell in sorted(self.rows["cell"].unique().to_pylist())}

    @cached_property
    def on_square(self) -> Mapping[str, shapely.Geometry]:
        """Every place that has a shape, by id, on the Mercator square: [0, 1] both ways, north up."""
        shapes = {cell: place.shape.geometry for cell, place in self.places.items() if place.shape is not None}
        geometries = np.array([shapely.geometry.shape(shape) for shape in shapes.values()], dtype=object)
        return dict(zip(shapes, shapely.transform(geometries, _mercator), strict=True))

    @cached_property
    def worlds(self) -> tuple[int, ...]:
        """Where to look for a tile's places, in widths of the square: one across the antimeridian goes on beyond it."""
        west, _, east, _ = shapely.total_bounds(np.array(list(self.on_square.values()), dtype=object))
        return (0, *([1] if east > 1 else []), *([-1] if west < 0 else []))

    @cached_property
    def usable(self) -> pa.Table:
        return published(self.rows, self.around.places, everything=False)

    @cached_property
    def everything(self) -> pa.Table:
        return published(self.rows, self.around.places, everything=True)

    @cached_property
    def usable_slices(self) -> Mapping[str, tuple[int, int]]:
        """Where each slot's rows begin, and how many there are."""
        return _slices(self.usable)

    @cached_property
    def everything_slices(self) -> Mapping[str, tuple[int, int]]:
        return _slices(self.everything)

    @cached_property
    def map_data(self) -> bytes:
        """Packs the newest slots for the map."""
        newest = pa.array(self.starts[-self.slots :])
        return packed(
            self.rows.filter(pc.is_in(self.rows["slot_start"], newest)), self.around.places, self.around.ground
        )


@dataclass
class Follower:
    """Reads a folder, and again what changed in it; a file that cannot be read is left out and named.

    folder: of `release --output`, of `stream --output`, or of `publish`.
    """

    folder: Path
    around: Surroundings
    slots: int
    unreadable: tuple[str, ...] = ()
    seen_s: float = 0.0
    _tables: dict[Stamp, pa.Table] = field(default_factory=dict)
    _looked: list[Stamp] = field(default_factory=list)

    def look(self, before: Snapshot | None = None) -> Snapshot | None:
        """Reads the folder now; the one before where nothing changed; None where it holds no row.

        The one before answers until this one is prepared. Raises InputError, again at each look until it is mended.
        """
        stamps = sorted(map(_stamp, self._files()))
        self.seen_s = time.time()
        if before is not None and stamps == self._looked:
            return before
        self._read(stamps)
        files: dict[str, list[Stamp]] = {}
        for stamp, table in self._tables.items():
            for slot in table["slot_start"].unique().to_pylist():
                files.setdefault(slot, []).append(stamp)
        if not files:
            return None
        rows = _together(self._tables, files)
        snapshot = Snapshot(rows, {slot: tuple(of_slot) for slot, of_slot in files.items()}, self.around, self.slots)
        snapshot.prepare()
        self._looked = stamps
        return snapshot

    def _read(self, stamps: Sequence[Stamp]) -> None:
        """Reads what is new; what is gone is forgotten."""
        unreadable, tables = [], {}
        for stamp in stamps:
            try:
                tables[stamp] = self._tables[stamp] if stamp in self._tables else read_results([Path(stamp[0])])[HATS]
            except InputError:
                unreadable.append(Path(stamp[0]).name)
        self._tables, self.unreadable = tables, tuple(unreadable)

    def refuse_secrets(self) -> None:
        """Raises InputError where a key or a ledger lies in the folder."""
        for pattern in SECRET_NAMES:
            if secret := next(self.folder.rglob(pattern), None):
                raise InputError(f"{secret} lies in the folder that would be served: keep ledgers and keys elsewhere")

    def _files(self) -> list[Path]:
        """Picks one file a slot: of several formats the first of KINDS."""
        best: dict[str, Path] = {}
        for kind in reversed(KINDS):
            for prefix in PREFIXES:
                paths = (*self.folder.glob(f"{prefix}*.{kind}"), *self.folder.glob(f"date=*/{prefix}*.{kind}"))
                best |= {str(path.with_suffix("")): path for path in paths}
        return list(best.values())


def _together(tables: Mapping[Stamp, pa.Table], files: Mapping[str, Sequence[Stamp]]) -> pa.Table:
    """Joins the rows, each HAT once: only slots of several files are looked at. Raises InputError."""
    shared = {stamp for stamps in files.values() if len(stamps) > 1 for stamp in stamps}
    alone = [table for stamp, table in tables.items() if stamp not in shared]
    several = [table for stamp, table in tables.items() if stamp in shared]
    if several:
        alone.append(read_results(several)[HATS])
    return pa.concat_tables(alone, promote_options="default")


def _slices(rows: pa.Table) -> dict[str, tuple[int, int]]:
    """Finds where the rows of each slot begin, and how many they are; rows are in the order of their slots."""
    if not rows.num_rows:
        return {}
    runs = pc.run_end_encode(rows["slot_start"].combine_chunks())
    ends, slots = runs.run_ends.to_pylist(), runs.values.to_pylist()
    begins = [0, *ends[:-1]]
    return {slot: (begin, end - begin) for slot, begin, end in zip(slots, begins, ends, strict=True)}


def _mercator(positions: Float64s) -> Float64s:
    """Projects onto the Mercator square. positions: [n, 2], of longitude and latitude."""
    sine = np.sin(np.radians(positions[:, 1].clip(-85.0, 85.0)))
    return np.column_stack((positions[:, 0] / 360 + 0.5, 0.5 + np.log((1 + sine) / (1 - sine)) / (4 * np.pi)))


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:20]


def _stamp(path: Path) -> Stamp:
    try:
        facts = path.stat()
    except OSError:
        return str(path), 0, 0  # gone meanwhile: the next look will see it
    return str(path), facts.st_mtime_ns, facts.st_size
