"""Guards the bound on a release's CPU beside that of a plain group-by of polars, without privacy.

    .venv/bin/python -m benchmarks.group_by --millions 16 --cells 40,4000

Both read one Parquet file of `benchmarks.throughput` and write a file. CPU seconds are of whole commands, imports and
all that they start included, one after the other in the same run; the least of so many rounds. polars has an
environment of its own, made once in build/polars, and takes the cores there are.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.table import Table

from benchmarks.processes import python_of
from benchmarks.throughput import Case, generate, numbers, spec_of
from pipelines.commands.terminal import console

PACKAGES = ("polars", "polars-h3")
DAY = "2026-05-13"


def taken(command):
    """CPU and wall seconds of a command and of all that it starts and waits for."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, wall


def by_polars(feed, folder):
    side = Path(__file__).with_name("group_by_side.py")
    return taken([python_of("polars", *PACKAGES), side, feed, folder / "means.parquet"])


def by_hatstream(feed, folder):
    """A release on a ledger of its own; opening its account is not counted."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        here = Path(place)
        (here / "spec.toml").write_text(spec_of("parquet"))
        hatstream = [sys.executable, "-m", "pipelines.cli"]
        account = ["--spec", here / "spec.toml", "--ledger", here / "ledger.sqlite"]
        taken([*hatstream, "init", *account])
        range_ = ["--from", DAY, "--to", DAY, "--input", feed, "--output", here / "out", "--formats", "parquet"]
        return taken([*hatstream, "release", *account, *range_, "--json"])


@click.command()
@click.option("--millions", default="16", callback=numbers, help="Millions of events.")
@click.option("--cells", default="40,4000", callback=numbers)
@click.option("--rounds", default=2, show_default=True)
def benchmark(millions, cells, rounds):
    """Print a table: CPU and wall seconds of both, and the ratio of their CPU seconds."""
    titles = "events", "cells", "polars CPU s", "release CPU s", "ratio", "polars wall s", "release wall s"
    table = Table(*titles, title="The same means, without privacy by polars and with it by hatstream")
    python_of("polars", *PACKAGES)
    for size, cell in ((size, cell) for size in millions for cell in cells):
        with tempfile.TemporaryDirectory() as place:
            folder, feed = Path(place), Path(place, "feed.parquet")
            generate(Case("parquet", size * 1_000_000, cell, 1, False, False, 2_000), feed)
            pairs = [(by_polars(feed, folder), by_hatstream(feed, folder)) for _ in range(rounds)]
            theirs, ours = (min(timings) for timings in zip(*pairs, strict=True))
            cpu = f"{theirs[0]:.1f}", f"{ours[0]:.1f}", f"{ours[0] / theirs[0]:.2f}"
            table.add_row(f"{size * 1_000_000:,}", f"{cell:,}", *cpu, f"{theirs[1]:.1f}", f"{ours[1]:.1f}")
    console().print(table)


if __name__ == "__main__":
    benchmark()
