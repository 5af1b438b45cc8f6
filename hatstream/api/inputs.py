"""Input files as a release reads them, for companions that look at them beforehand or make something else of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from pipelines import input_files
from pipelines.errors import InputError
from transforms.errors import reason_of
from transforms.layouts import FIXED, Layout, UnreadableFile
from transforms.layouts.base import OwnLayout, RawBatch
from transforms.layouts.decoder_process import read_apart
from transforms.layouts.open_file import opened
from transforms.places.shapes import without_part


def input_paths(pattern: str) -> list[str]:
    """Lists the files that a pattern matches, or those in a folder, sorted.

    Args:
        pattern: such as `feed/*.csv`; `**` stands for any folders, and of a folder hidden files are left out.

    Returns:
        Their paths, at least one.

    Raises:
        InputError: Nothing matches, or something that is no regular file.

    >>> input_paths("examples/hourly-*.toml")
    ['examples/hourly-means.toml']
    """
    return input_files.paths_of(pattern)


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
