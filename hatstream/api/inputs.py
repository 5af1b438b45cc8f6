"""Input files as a release reads them, for companions."""

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
from pipelines.errors import InputError, Report, SpecificationError, ignore, raise_as, shortened
from pipelines.inputs import input_paths
from pipelines.specification.document import toml_of
from transforms.atomic_files import write_whole
from transforms.errors import reason_of
from transforms.layouts import FIXED, Layout, UnreadableFile
from transforms.layouts.base import OwnLayout, RawBatch
from transforms.layouts.decoder_process import read_apart
from transforms.layouts.open_file import opened
from transforms.observe.parse import Rules, parse
from transforms.records import Observations
from transforms.sinks.rows import FORMATS, columns_in
from transforms.time.calendar import Where

Table = TypeVar("Table")


@contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Opens an input file, decompressing .gz, .zst and .zip.

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
    """Returns the built-in layouts with fixed columns, by name.

    Each has, imported on access: `layout`; `heading`, its column, or None; `form`, `columns` and `records` of its
    files; `fits`, a test of columns.

    >>> own_layouts()["tides"].form
    'csv'
    """
    return FIXED


def read_batches(layout: Layout, path: str) -> Iterator[RawBatch]:
    """Reads a file in a separate process, with a release's limits against hostile files.

    Args:
        layout: Result of the function `layout`, or an entry of `own_layouts`.

    Returns:
        Batches in file order: `rows`, `table` (an Arrow RecordBatch of the layout's fields) and `refused` (rows left
        out, by reason).

    Raises:
        InputError: The file cannot be decoded; the message shows nothing of its content.

    >>> from hatstream.api import layout
    >>> names = {name: name for name in ("vehicle", "time", "lat", "lon", "speed")}
    >>> next(read_batches(layout("csv", names), "Makefile"))
    Traceback (most recent call last):
    pipelines.errors.InputError: Makefile: ...
    """
    with raise_as(InputError, UnreadableFile):
        yield from read_apart(layout, path)


def read_positions(
    layout: Layout, pattern: str, key: Path | None, *, step: Fraction, steps: int, report: Report = ignore
) -> tuple[Observations, dict[str, int]]:
    """Reads vehicle positions with a release's row checks, except calendar and region.

    Args:
        key: File of the key that vehicles are hashed with; a random key if None.
        step: Step of the speed grid, in km/h.
        steps: Largest speed, in steps.

    Returns:
        Columns of the accepted rows: `vehicle`, `event_us` (since 1970 UTC), `lat_e7` and `lon_e7` (1e-7 degrees) and
        `value` (steps); and numbers of refused rows by reason.

    Raises:
        InputError: No file matches, or one cannot be decoded.
        AccountRefusal, LedgerError: The key is missing, or open to other users.

    >>> from hatstream.api import layout
    >>> positions = layout("csv", {name: name for name in ("vehicle", "time", "lat", "lon", "speed")})
    >>> read_positions(positions, "no/*.csv", None, step=Fraction(1), steps=120)
    Traceback (most recent call last):
    pipelines.errors.InputError: no input file matches 'no/*.csv'
    """
    secret = token_bytes(32) if key is None else read_key(key).derive("reports")
    rules = Rules(Grid(step=step, upper_steps=steps), layout.units, bbox=None, calendar=_AnyTime(), vehicle_key=secret)
    refused = Counter[str]()
    observations = [Observations(*np.empty((len(Observations._fields), 0), np.int64))]  # a file may hold no row at all
    paths = input_paths(pattern)
    for number, path in enumerate(paths, 1):
        for batch in read_batches(layout, path):
            observed, reasons = parse(batch.table, rules)
            refused.update(batch.refused)
            refused.update(reasons)
            observations.append(observed)
        report("files read", number, len(paths))
    return Observations(*(np.concatenate(columns) for columns in zip(*observations, strict=True))), dict(refused)


class _AnyTime:
    """Endless calendar of a single slot, in a period without a name."""

    def locate(self, event_us: Int64s) -> Where:
        zeros, always = np.zeros(event_us.size, np.int64), np.ones(event_us.size, np.bool_)
        return Where(zeros, zeros, in_range=always, in_service=always, periods=("",))


def read_tables(path: Path, kind: type[Table]) -> Table:
    """Reads a TOML file strictly into a `msgspec.Struct`.

    Args:
        kind: Struct with the fields and their types; it should forbid unknown fields, to refuse mistyped ones.

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
    r"""Writes rows atomically, in the format of the suffix.

    Args:
        path: Path in .parquet, .avro, .csv, .jsonl or .geojson, which draws the H3 cells of the column `cell`.
        rows: A value per column of the schema, or None.
        schema: Columns of texts, integers, floats, lists of floats and instants.
        mode: Permissions of the file, less the process's umask.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "rows.csv"
    >>> write_rows(path, [{"cell": "a", "value": 1.5}], pa.schema({"cell": pa.string(), "value": pa.float64()}))
    >>> path.read_text()
    'cell,value\na,1.5\n'
    """
    write_whole(path, FORMATS[path.suffix.removeprefix(".")](columns_in(rows, schema), schema, path.stem), mode=mode)
