"""What tests of `hatstream release` read of a finished run."""

import csv
import json

from tests import city


def summary_of(output):
    return json.loads(output.splitlines()[-1])


def said_again(output):
    """The summary, less what a second run says otherwise."""
    summary = summary_of(output)
    return {name: summary[name] for name in summary if name not in ("slots_new", "files")}


def files_in(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}


def rows_in(folder):
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            rows += csv.DictReader(file)
    return rows


def release_real(hatstream, folder, spec, pattern, start, end, *more):
    (folder / "spec.toml").write_text(spec)
    place = ["--spec", folder / "spec.toml", "--ledger", folder / "ledger.sqlite"]
    assert hatstream("init", *place)[0] == 0
    rest = ["--from", start, "--to", end, "--output", folder / "out", "--formats", "csv"]
    return city.told(hatstream, "release", *place, "--input", pattern, *rest, *more)


def denied(*_arguments, **_options):
    raise PermissionError(13, "Permission denied")


def spent_by(hatstream, folder):
    _, out, _ = hatstream("ledger", "show", "--ledger", folder / "ledger.sqlite", "--json")
    return summary_of(out)[0]["spent"]
