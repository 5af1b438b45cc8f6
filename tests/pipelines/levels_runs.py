"""Releases of the small city by levels, and what they left behind."""

import csv
from collections.abc import Callable
from pathlib import Path

from pipelines.specification import load
from tests import city
from tests.levels_city import DAYS
from transforms.recorded.units import Sequenced

Run = Callable[..., tuple[int, str, str]]


def released(folder: Path, hatstream: Run, *more: str, start: str = DAYS[0], end: str = DAYS[-1]) -> dict[str, object]:
    summary: dict[str, object] = city.told(hatstream, *city.release(folder, *more, start=start, end=end))
    return summary


def entries(folder: Path) -> list[Sequenced]:
    spec = load(folder / "spec.toml")
    return city.account(folder).ledger.stages(spec.account.name, spec.spec_id)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def sums_of(folder: Path, hatstream: Run, day: str = DAYS[0]) -> list[dict[str, str]]:
    """What was released of a day itself."""
    assert hatstream(*city.estimate(folder, "sums", "--released", start=day))[0] == 0
    (path,) = (folder / "sums").glob("released-*.csv")
    return rows_of(path)
