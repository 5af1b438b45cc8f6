"""Guards what an installation takes: MB on disk, by package, and how long Python takes to import it.

    python3 -m venv build/empty && build/empty/bin/pip install hatstream
    build/empty/bin/python benchmarks/installed.py

Run as a file by the environment's own Python, in which there need be no checkout. Medians of RUNS starts each.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

RUNS, SHOWN = 9, 6
MB = 1 << 20
PROGRAMS = {
    "python": ("-c", "pass"),
    "import hatstream": ("-c", "import hatstream"),
    "hatstream --help": ("-m", "hatstream", "--help"),
    "hatstream release --help": ("-m", "hatstream", "release", "--help"),
    "hatstream.load": ("-c", "import hatstream; hatstream.load"),
    "hatstream.Release, and Beam with it": ("-c", "import hatstream; hatstream.Release"),
}


def sizes() -> dict[str, float]:
    """MB of every package, compiled files included, the largest first."""
    bytes_of = {
        package.name: sum(
            path.stat().st_size
            for file in package.files or ()
            if (path := Path(str(package.locate_file(file)))).is_file()
        )
        for package in distributions()
    }
    return {name: size / MB for name, size in sorted(bytes_of.items(), key=lambda of: -of[1])}


def median_s(arguments: Sequence[str]) -> float:
    """Of a new Python with its files in the cache of the disk."""
    taken = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=os.path.expanduser("~"))
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def main() -> None:
    megabytes = sizes()
    print(f"Python {sys.version.split()[0]}; {len(megabytes)} packages, {sum(megabytes.values()):.0f} MB")
    print("; ".join(f"{name} {size:.1f}" for name, size in [*megabytes.items()][:SHOWN]))
    print(f"hatstream {megabytes.get('hatstream', 0):.1f}")
    for name, arguments in PROGRAMS.items():
        print(f"{name}: {median_s(arguments):.2f} s")


if __name__ == "__main__":
    main()
