"""Input files as a release reads them, for companions that look at them beforehand or make something else of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from secrets import token_bytes
from typing import Any, BinaryIO, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from dpops.types import Grid, Int64s
from pipelines.account.location import read_key
from pipelines.errors import InputError, Report, shortened, unheard
from pipelines.inputs import input_paths
from pipelines.specification.document import toml_of
from pipelines.specification.errors import SpecificationError
from transforms.atomic_files import write_whole
from transforms.errors import reason_of
from transforms.layouts import FIXED, Layout, UnreadableFile
from transforms.layouts.base import OwnLayout, RawBatch
from transforms.layouts.decoder_process import read_apart
from transforms.layouts.open_file import opened
from transforms.observe.parse import Rules, parse
from transforms.places.shapes import without_part
from transforms.records import Observations
from transforms.sinks.files import FORMATS
from transforms.sinks.rows import columns_in
from transforms.time.calendar import Where

Table = TypeVar("Table")


@contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Opens an input file; one that ends in .gz, .zst or .zip is unpacked while it is read.

    Args:
        path: Of this machine.

    Returns:
        A context manager around the file.

    Raises:
        InputError: It cannot be opened, or it is damaged; also while it is read.

    >>> with open_input("examples/hourly-means.toml") as file:
    ...     file.read(1)
    b'#'
    """
    try:
        with opened(path) as file:
            yield file
    except UnreadableFile as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}") from None


def own_layouts() -> Mapping[str, OwnLayout]:
    """Maps the names of layouts with columns and units of their own to what is known of them.

    Returns:
        Of each its `layout`, and `headed`, the same with headings, or None; what its files look like: `form`,
        `columns`, `records`; and `fits`, which says whether columns are of such a file. One is imported when it is
        looked up.

    >>> own_layouts()["tides"].form
    'csv'
    """
    return FIXED


def places_outside(document: Any, cells: Sequence[int]) -> list[str]:
    """Names the places of a GeoJSON collection that a release would refuse, for they have no part of a region.

    Args:
        document: A collection of features with the property `name`, as the file of `[places]` is.
        cells: The region's H3 cells of one resolution, sorted.

    Returns:
        Names of places that lie outside, or whose part belongs to others.

    Raises:
        ValueError: The collection cannot be that of a release; the message says why.

    >>> places_outside({"type": "FeatureCollection", "features": []}, [])
    Traceback (most recent call last):
    ValueError: ...
    """
    return without_part(document, cells)


def read_batches(layout: Layout, path: str) -> Iterator[RawBatch]:
    """Reads a file in a process apart, within the limits that a release has for hostile files.

    Args:
        layout: As the function `layout` makes one, or of `own_layouts`.
        path: Of this machine.

    Returns:
        Batches in the order of the file: `rows`, `table` (an Arrow RecordBatch of the layout's fields) and `refused`
        (rows that are not in the table, by reason).

    Raises:
        InputError: The file cannot be decoded; the message shows nothing of its content.

    >>> from hatstream.api import layout
    >>> names = {name: name for name in ("vehicle", "time", "lat", "lon", "speed")}
    >>> next(read_batches(layout("csv", names), "Makefile"))
    Traceback (most recent call last):
    pipelines.errors.InputError: Makefile: ...
    """
    try:
        yield from read_apart(layout, path)
    except UnreadableFile as error:
        raise InputError(str(error)) from None


def read_positions(
    layout: Layout, pattern: str, key: Path | None, *, step: Fraction, steps: int, report: Report = unheard
) -> tuple[Observations, dict[str, int]]:
    """Reads positions of vehicles and checks each row as a release does, but for its calendar and its region.

    Args:
        layout: Of positions.
        pattern: As of `input_paths`.
        key: The file of the secret that vehicles are hashed under; None: hashes that nobody can make again.
        step: Of the grid of speeds, in km/h.
        steps: How many of these a speed has at most.
        report: Told how many files are read.

    Returns:
        Columns of the accepted rows: `vehicle`, `event_us` (since 1970 UTC), `lat_e7` and `lon_e7` (1e-7 degrees) and
        `value` (steps); and how many rows were refused, by reason.

    Raises:
        InputError: There is no file, or one cannot be decoded.
        AccountRefusal, LedgerError: There is no key, or it is open to others.

    >>> from hatstream.api import layout
    >>> positions = layout("csv", {name: name for name in ("vehicle", "time", "lat", "lon", "speed")})
    >>> read_positions(positions, "no/*.csv", None, step=Fraction(1), steps=120)
    Traceback (most recent call last):
    pipelines.errors.InputError: no input file matches 'no/*.csv'
    """
    secret = token_bytes(32) if key is None else read_key(key).derive("reports")
    rules = Rules(Grid(step=step, upper_steps=steps), layout.units, None, _AnyTime(), secret)
    refused = Counter[str]()
    parts = [Observations(*np.empty((len(Observations._fields), 0), np.int64))]  # a file may hold no row at all
    paths = input_paths(pattern)
    for done, path in enumerate(paths):
        for batch in read_batches(layout, path):
            observed, reasons = parse(batch.table, rules)
            refused.update(batch.refused)
            refused.update(reasons)
            parts.append(observed)
        report("files read", done + 1, len(paths))
    return Observations(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), dict(refused)


class _AnyTime:
    """A calendar without an end, all of it one period and one slot."""

    def locate(self, event_us: Int64s) -> Where:
        zeros, always = np.zeros(event_us.size, np.int64), np.ones(event_us.size, np.bool_)
        return Where(zeros, zeros, always, always, ("",))


def read_tables(path: Path, kind: type[Table]) -> Table:
    """Reads a TOML file into a `msgspec.Struct`, as strictly as a specification is read.

    Args:
        path: Of a regular file.
        kind: Names the fields and their types; one that forbids unknown fields refuses a mistyped one.

    Returns:
        The struct.

    Raises:
        SpecificationError: It cannot be read, is no TOML, or is not of that kind.

    >>> class Town(msgspec.Struct):
    ...     name: str
    >>> read_tables(Path("examples/hourly-means.toml"), Town).name
    'hourly-means'
    """
    try:
        return msgspec.convert(toml_of(path), kind)
    except msgspec.ValidationError as error:
        raise SpecificationError(f"{path}: {shortened(str(error))}") from None


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, *, mode: int = 0o666) -> None:
    """Writes rows to a file that appears whole, in the form that its ending says.

    Args:
        path: Ends in .parquet, .avro, .csv, .jsonl or .geojson, which draws the H3 cells of the column `cell`.
        rows: A value for each column of the schema; None where a row has none.
        schema: Columns of texts, whole numbers, floats, lists of floats and instants.
        mode: Who may read it, less what the process's mask takes away.

    Raises:
        OSError: It cannot be written.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "rows.csv"
    >>> write_rows(path, [{"cell": "a", "value": 1.5}], pa.schema({"cell": pa.string(), "value": pa.float64()}))
    >>> path.read_text()
    'cell,value\\na,1.5\\n'
    """
    write_whole(path, FORMATS[path.suffix.removeprefix(".")](columns_in(rows, schema), schema, path.stem), mode=mode)
