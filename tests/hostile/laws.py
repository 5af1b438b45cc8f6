"""Four laws of every command, whatever it is given: it ends within its deadline, without an internal error or a signal
of its own; rows add up; and no release has a second value.
"""

import contextlib
import csv
import json
import os
import resource
import signal
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.cli import main
from tests.faults.processes import forks
from transforms.failpoints import VARIABLE

PRELOADED = [
    "tests.faults.processes", "tests.hostile.laws", "pipelines.commands.estimate", "pipelines.commands.init",
    "pipelines.commands.ledger", "hatstream_publish.commands.map", "pipelines.commands.plan",
    "hatstream_publish.commands.publish", "hatstream_publish.commands.report", "pipelines.commands.spec",
    "hatstream_city.commands.collect", "hatstream_local.commands.fuse", "pipelines.account.backup",
    "pipelines.account.location", "pipelines.runs.release", "pipelines.runs.beam.bounded", "pipelines.runs.estimates",
    "hatstream_city.draft.draft", "hatstream_publish.edition.site", "tests.levels_city",
    "hatstream_publish.pages.page", "pipelines.plan.levels", "transforms.releases.periods.learned",
    "hatstream_publish.commands.preview", "pipelines.commands.stream",
    "hatstream_local.fusion.fuse", "hatstream_lab.commands.evaluate", "pipelines.runs.flink.engine",
    "pipelines.runs.stream.stream",
]  # fmt: skip
"""What commands import when they do something: here once for all of them."""

DEADLINE_S = 300  # far above what any command of these small cities takes, on a busy machine too

FILE_BYTES = "HATSTREAM_TESTS_FILE_BYTES"
"""In a command's environment: no file may grow beyond it, as where a disk is full."""

Meanwhile = Callable[[BaseProcess, Path], object]
"""What happens while a command runs: its process, and the file of what it prints."""


class Broken(AssertionError):
    """A law that did not hold."""


class Done(NamedTuple):
    """code: None where it did not end; below 0 of a signal."""

    code: int | None
    out: str
    err: str


def ran(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    deadline_s: float = DEADLINE_S,
    meanwhile: Meanwhile | None = None,
) -> Done:
    """A command line in a process group of its own, which is gone afterwards. The deadline is after `meanwhile`."""
    context = forks()
    context.set_forkserver_preload(PRELOADED)
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        process = context.Process(target=_command, args=(list(arguments), dict(environment), out.name, err.name))
        process.start()
        try:
            if meanwhile is not None:
                meanwhile(process, Path(out.name))
            process.join(deadline_s)
            code = process.exitcode
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()  # where it has no group yet
            process.join()
        texts = [Path(file.name).read_text(errors="replace") for file in (out, err)]
    return Done(code, *texts)


def _command(arguments: list[str], environment: dict[str, str], *files: str) -> None:
    os.setsid()
    os.environ.update(environment)
    for number, name in enumerate(files, start=1):
        os.dup2(os.open(name, os.O_WRONLY), number)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a command that is told to end and does not listen does not end
    if FILE_BYTES in environment:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(environment[FILE_BYTES]),) * 2)
    os._exit(main(arguments))


def check(arguments: Sequence[str], done: Done, environment: Mapping[str, str]) -> None:
    """The laws of one command. Raises Broken."""
    if done.code is None:
        raise Broken("it did not end")
    if done.code < 0 and not (done.code == -signal.SIGKILL and VARIABLE in environment):
        raise Broken(f"it ended with signal {-done.code}")
    if done.code not in range(6) and done.code >= 0:
        raise Broken(f"it ended with {done.code}")
    if "internal error" in done.err or "Traceback" in done.err + done.out:
        raise Broken("an internal error")
    if done.code and done.code > 0 and done.code != 5 and not (done.err + done.out).strip():
        raise Broken("it failed without a word")
    if not stat.S_ISCHR(os.stat(os.devnull).st_mode):
        raise Broken(f"{os.devnull} is a file now: `mknod -m 666 /dev/null c 1 3` makes it again")
    if done.code in (0, 5) and "--json" in arguments:
        with contextlib.suppress(ValueError):
            check_rows(json.loads(done.out))


def check_rows(summary: Any) -> None:
    """Every row that was read is an observation, a copy of one, or refused for a reason."""
    if not isinstance(summary, dict):
        return
    told = summary | summary.get("operator_only", {})
    if {"rows", "observations", "duplicates", "refused"} <= told.keys():
        kept = told["observations"] + told["duplicates"] + sum(told["refused"].values())
        if told["rows"] != kept:
            raise Broken(f"of {told['rows']} rows {kept} are accounted for")


class Values:
    """All values that a folder of results ever showed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], str] = {}

    def look(self, folder: Path) -> None:
        """Raises Broken where a release has another value than before."""
        for path in sorted(folder.rglob("hats-*.csv")):
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    key = (path.name, row["cell"], row["statistic"], row["slot_start"])
                    if self._seen.setdefault(key, row["value"]) != row["value"]:
                        raise Broken(f"a second value of {key}")
