"""What tests of `hatstream release` read of a finished run."""

import csv
import json
from functools import partial

from tests import city


def said_again(summary):
    """The summary, less what a second run says otherwise."""
    return {name: summary[name] for name in summary if name not in ("slots_new", "files")}


def files_in(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}


def rows_in(folder, pattern="*.csv"):
    """The rows of result files, of CSV or of JSON Lines."""
    read = csv.DictReader if pattern.endswith("csv") else partial(map, json.loads)
    return [row for path in sorted(folder.glob(pattern)) for row in read(path.read_text().splitlines())]


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
