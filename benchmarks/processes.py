"""What a process and all that it starts take, as /proc tells while they run; and environments of other packages."""

import os
import subprocess
import threading
import venv
from pathlib import Path

import click

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
PAUSE_S = 0.05


class Watch:
    """Looks at a process and its descendants every 50 ms, from its making to `end`.

    cpu_s: of all of them together in that time. peak_mb: the most that they held together, pages of files left out.
    """

    def __init__(self, pid):
        self._pid, self._seen, self.peak_mb = pid, {}, 0.0
        self._look()
        self._before = sum(self._seen.values())
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def cpu_s(self):
        return sum(self._seen.values()) - self._before

    def end(self):
        self._look()
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(PAUSE_S):
            self._look()

    def _look(self):
        held = 0.0
        for pid in _family(self._pid):
            try:
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
            except (OSError, ValueError):
                continue  # it has ended
            self._seen[pid] = (int(words[11]) + int(words[12])) / TICKS
            held += (int(resident) - int(shared)) * PAGE_MB
        self.peak_mb = max(self.peak_mb, held)


def cpu_s(pid):
    """Processor time of a process, of all that it started, and of those of them that have ended and were waited for."""
    ticks = 0
    for member in _family(pid):
        try:
            ticks += sum(map(int, Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except (OSError, ValueError):
            continue  # it ended in between, and is counted where it was waited for
    return ticks / TICKS


def _family(pid):
    family = [pid]
    for parent in family:
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                family += map(int, path.read_text().split())
            except OSError:
                continue
    return family


def python_of(name, *packages):
    """The Python of an environment in build/, made with these packages if it is not there."""
    python = Path("build", name, "bin", "python")
    if not python.exists():
        click.echo(f"making an environment for {', '.join(packages)} in {python.parents[1]} ...", err=True)
        venv.create(python.parents[1], with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        subprocess.run(install, check=True)
    return python
