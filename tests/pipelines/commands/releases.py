"""What tests of `hatstream release` read of a finished run."""

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipelines.specification import load
from tests import city
from tests.levels_city import DAYS
from transforms.recorded.units import Sequenced

Run = Callable[..., tuple[int, str, str]]


def said_again(summary):
    """The summary, less what a second run says otherwise."""
    return {name: summary[name] for name in summary if name not in ("slots_new", "files")}


def files_in(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}


def rows_of(path):
    """The rows of a result file, of CSV or of JSON Lines."""
    read = csv.DictReader if path.suffix == ".csv" else partial(map, json.loads)
    return list(read(path.read_text().splitlines()))


def rows_in(folder, pattern="*.csv"):
    return [row for path in sorted(folder.glob(pattern)) for row in rows_of(path)]


def entries(folder: Path) -> list[Sequenced]:
    """What is recorded of the stages of a release by levels."""
    spec = load(folder / "spec.toml")
    return city.account(folder).ledger.stages(spec.account.name, spec.spec_id)


def sums_of(folder: Path, hatstream: Run, day: str = city.DAYS[0]) -> list[dict[str, str]]:
    """What was released of a day itself."""
    assert hatstream(*city.estimate(folder, "sums", "--released", start=day))[0] == 0
    (path,) = (folder / "sums").glob("released-*.csv")
    return rows_of(path)


def released(folder: Path, hatstream: Run, *more: str, start: str = DAYS[0], end: str = DAYS[-1]) -> dict[str, object]:
    """Releases days by levels; returns the summary."""
    summary: dict[str, object] = city.told(hatstream, *city.release(folder, *more, start=start, end=end))
    return summary


def release_real(hatstream, folder, spec, pattern, start, end, *more):
    (folder / "spec.toml").write_text(spec)
    place = ["--spec", folder / "spec.toml", "--ledger", folder / "ledger.sqlite"]
    assert hatstream("init", *place)[0] == 0
    rest = ["--from", start, "--to", end, "--output", folder / "out", "--formats", "csv"]
    return city.told(hatstream, "release", *place, "--input", pattern, *rest, *more)


def denied(*_arguments, **_options):
    raise PermissionError(13, "Permission denied")


def spent_by(hatstream, folder):
    (account,) = city.told(hatstream, "ledger", "show", "--ledger", folder / "ledger.sqlite")
    return account["spent"]
