"""Commands of hatstream in processes of their own, as an operator starts them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

RUNNER = "DirectRunner"


class Agreement(NamedTuple):
    """What a second run of a day agreed with. digests: of recorded sums, by the account's key. files: of rows."""

    runner: str
    digests: int
    files: int


def command_line(*arguments: str) -> list[str]:
    """Lists what starts a command of hatstream by this Python."""
    return [sys.executable, "-P", "-m", "hatstream", *arguments]


def answered(*arguments: str) -> dict[str, Any]:
    """Runs a command to its end, and reads its one JSON document. Raises RuntimeError where it fails."""
    done = subprocess.run(command_line(*arguments, "--json"), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"hatstream {arguments[0]} failed with exit code {done.returncode}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def released(spec: Path, ledger: str, pattern: str, days: tuple[str, str], output: Path, *more: str) -> dict[str, Any]:
    """Releases days."""
    files = ("--spec", str(spec), "--ledger", ledger, "--input", pattern, "--output", str(output))
    return answered("release", *files, "--from", days[0], "--to", days[1], *more)


def released_again(spec: Path, ledger: str, sample: Path, first: dict[str, Any], output: Path) -> Agreement:
    """Releases the first day again by one of Beam's own runners, and compares digests and bytes with the first run's.

    Args:
        spec: The specification.
        ledger: Of the account, its URL or path.
        sample: The file of that day.
        first: What the first run said of itself.
        output: A folder for the second run's files.

    Raises:
        RuntimeError: A digest or a byte differs, or the run failed.
    """
    day = first["periods"][0]
    done = released(spec, ledger, str(sample), (day["period"],) * 2, output, "--runner", RUNNER)
    changed, digests = done["operator_only"]["stages_that_differ_now"], len(day["stages"])
    before = Path(first["files"][0]).parent
    files = [Path(path) for path in done["files"]]
    same = [path for path in files if path.read_bytes() == (before / path.name).read_bytes()]
    if done["stages_new"] or changed or len(same) != len(files):
        raise RuntimeError(
            f"{RUNNER} does not agree with the first run of {day['period']}: {changed} of {digests} digests and "
            f"{len(files) - len(same)} of {len(files)} files differ"
        )
    return Agreement(RUNNER, digests, len(same))
