"""Specification: a strict TOML file, checked and translated."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import h3.api.basic_int as h3_int
import numpy as np

from dpops.accountant import Accountant
from pipelines.errors import Report, SpecificationError, check_name, ignore, raise_as
from pipelines.specification import checks
from pipelines.specification.document import Document, read, read_tables
from pipelines.specification.parts import parts_of
from pipelines.specification.statistics import levels_of, statistics_of
from pipelines.specification.tables import not_added_up
from pipelines.specification.values import AccountTerms, Specification
from transforms.observe.parse import E7, in_box
from transforms.releases.hats.draw import weights_of

__all__ = ["AccountTerms", "Source", "Specification", "SpecificationError", "foreseen", "load"]

Source = Specification | Mapping[str, Any] | str | os.PathLike[str]


def load(source: Source, progress: Report = ignore) -> Specification:
    """Reads and checks a specification. Raises SpecificationError.

    source: path of a TOML file; its tables, with files in the working directory; or a loaded specification.

    >>> import tomllib
    >>> load(tomllib.loads(Path("examples/hourly-means.toml").read_text())).account.unit
    'vehicle-day'
    """
    if isinstance(source, Specification):
        return source
    if isinstance(source, Mapping):
        return _checked(read_tables(source), Path(), progress)
    if not isinstance(source, str | os.PathLike):
        raise SpecificationError(f"a specification is a path or a mapping of tables, not {type(source).__name__}")
    path = Path(source)
    document = read(path)
    with raise_as(SpecificationError, SpecificationError, f"{path}: "):  # puts the path before what it says
        return _checked(document, path.parent, progress)


def _checked(document: Document, folder: Path, progress: Report) -> Specification:
    """Checks a document by table. folder: start of relative paths. Raises SpecificationError."""
    check_name("name", document.name)
    timetable = checks.timetable_of(document)
    account = checks.account_of(document.account)
    checks.check_closed(document.input.columns or {})
    checks.check_derived(document)
    value, prior = checks.value_of(document)
    privacy = checks.privacy_of(document.privacy, account)
    cells = checks.cells_of(document, folder)
    trips = checks.trips_of(document, cells, folder)
    levels = levels_of(document, privacy.allocation, cells.region, timetable)
    if levels is not None:
        parts = parts_of(document, value.standard, cells.region or (), partial(checks.text_of, folder), progress)
        levels = replace(levels, parts=parts, trips=trips)
        checks.check_span(account, levels)
    statistics = statistics_of(document, prior) if levels is None else ()
    allocation = privacy.allocation
    if document.privacy.composition == "clip-user":
        # Rows of vehicles in many HATs are suppressed as far as the largest error, by these weights, does not grow.
        allocation = replace(allocation, suppress=weights_of(value.grid, statistics))
    has_headings = levels is not None and any(part.needs_headings for part in levels.parts)
    return Specification(
        name=document.name,
        account=account,
        timetable=timetable,
        cells=cells,
        value=value,
        prior=prior,
        privacy=replace(privacy, allocation=allocation),
        levels=levels,
        statistics=statistics,
        input=checks.input_of(document, headed=has_headings),
        publisher=document.publisher,
        trips=trips,
    )


def foreseen(spec: Specification, today: date) -> Iterator[str]:
    """Yields warnings of refusals to come."""
    if warning := spec.timetable.never_released(today):  # of a day that slots cannot divide, as its clock changes
        yield warning
    limit, (claim, loss) = spec.account.limit, spec.least  # claim that any release spends, and its (epsilon, delta)
    spent = Accountant().compose([claim])
    if why := not_added_up(limit, spent):
        yield why
    elif not limit.fits(spent):
        unit = "HAT" if spec.privacy.allocation.per == "hat" else "period"
        yield f"a {unit} asks for epsilon {loss.describe()}, more than account.limit allows: {limit.describe()}"
    # Public keys, such as lines, lie nowhere: the region of their release is made of numbers in place of cells.
    if spec.cells.region is not None and spec.cells.bbox is not None and spec.keys is None:
        centres = np.array([h3_int.cell_to_latlng(cell) for cell in spec.cells.region]).reshape(-1, 2)
        lat_e7, lon_e7 = np.rint(centres.T * E7).astype(np.int64)  # in 1e-7 degrees, as `in_box` compares
        if not in_box(lat_e7, lon_e7, spec.cells.bbox).any():
            yield "no cell of cells.region lies in cells.bbox (west, south, east, north): all reports will be refused"
