"""Loads a specification: reads a file or tables, checks them, translates them into the values of other packages."""

import os
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipelines.progress import Report, unheard
from pipelines.specification.checks import (
    account_of,
    cells_of,
    check_derived,
    check_span,
    chosen_of,
    input_of,
    places_of,
    privacy_of,
    timetable_of,
)
from pipelines.specification.document import Document, read, read_tables
from pipelines.specification.errors import SpecificationError, check_name
from pipelines.specification.measured import prior_of, value_of
from pipelines.specification.statistics import classes_of, levels_of, statistics_of
from pipelines.specification.values import Specification
from transforms.releases.hats.policy import weights_of

Source = Specification | Mapping[str, Any] | str | os.PathLike[str]
"""What a specification can be loaded from."""


def load(source: Source, progress: Report = unheard) -> Specification:
    """Reads and checks a specification. Raises SpecificationError, which names the file where there is one.

    source: the path of a TOML file; or its tables, as `tomllib.load` gives them, whose region file is looked for in the
    working directory; or a specification that was loaded already. progress: of files with very many places.

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
    try:
        return _checked(document, path.parent, progress)
    except SpecificationError as error:
        raise SpecificationError(f"{path}: {error}") from None


def _checked(document: Document, folder: Path, progress: Report) -> Specification:
    check_name("name", document.name)
    timetable = timetable_of(document)
    account = account_of(document.account)
    check_derived(document)
    value, prior = value_of(document), prior_of(document.speed)
    privacy = privacy_of(document.privacy, account)
    cells = cells_of(document, folder)
    levels = levels_of(document, privacy.allocation, cells.region, timetable)
    if levels is not None:
        if document.places is not None and document.places.column is None:
            levels = replace(levels, places=places_of(document, cells.region or (), folder, progress))
        of_places = Fraction(0) if levels.places is None else levels.places.share
        levels = replace(levels, classes=classes_of(document, value.standard, of_places))
        check_span(account, levels)
    statistics = statistics_of(document, prior) if levels is None else ()
    allocation = privacy.allocation
    if document.privacy.composition == "clip-user":
        allocation = replace(allocation, suppress=weights_of(value.grid, statistics))
    return Specification(
        name=document.name,
        account=account,
        timetable=timetable,
        cells=cells,
        value=value,
        prior=prior,
        privacy=replace(privacy, allocation=allocation, levels=levels),
        statistics=statistics,
        input=input_of(
            document,
            headed=levels is not None and levels.places is not None and levels.places.pieces.is_directed,
        ),
        chosen=chosen_of(document, levels is not None),
    )
