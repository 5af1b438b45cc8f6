"""Loads a specification: reads the file, checks it, and translates it into the values of the other packages."""

from dataclasses import replace
from pathlib import Path

from pipelines.specification.checks import (
    cells_of,
    check_account,
    check_derived,
    check_name,
    grid_of,
    input_of,
    prior_of,
    privacy_of,
    timetable_of,
)
from pipelines.specification.document import Document, read
from pipelines.specification.statistics import levels_of, statistics_of
from pipelines.specification.values import Specification, Speeds
from transforms.releases.hats.policy import weights_of


def load(path: Path) -> Specification:
    """Reads and checks a specification file. Raises SpecificationError."""
    return _checked(read(path), path.parent)


def _checked(document: Document, folder: Path) -> Specification:
    check_name("name", document.name)
    timetable = timetable_of(document)
    check_account(document.account)
    check_derived(document)
    speeds = Speeds(grid=grid_of(document.speed), prior=prior_of(document.speed))
    privacy = privacy_of(document.privacy, document.account)
    cells = cells_of(document.cells, folder)
    levels = levels_of(document, privacy.allocation, cells.region, timetable)
    statistics = statistics_of(document, speeds.prior) if levels is None else ()
    allocation = privacy.allocation
    if document.privacy.composition == "clip-user":
        allocation = replace(allocation, suppress=weights_of(speeds.grid, statistics))
    return Specification(
        name=document.name,
        account=document.account,
        timetable=timetable,
        cells=cells,
        speeds=speeds,
        privacy=replace(privacy, allocation=allocation, levels=levels),
        statistics=statistics,
        input=input_of(document.input, document.slot.allowed_lateness_s),
    )
