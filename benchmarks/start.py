"""CPU seconds of `hatstream release` as a command: imports, its own work and all processes that it starts.

.venv/bin/python -m benchmarks.start                    # ten rows, and a million; the least of five runs each
.venv/bin/python -m benchmarks.start --rows 10 --runs 9
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from benchmarks.throughput import SPEC, Case, generate

DAY = ("--from", "2026-05-13", "--to", "2026-05-13")


def command(*words: str) -> float:
    """Runs a command line and returns its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "pipelines.cli", *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def release(layout: str, feed: Path) -> float:
    """One release into a new ledger, which is made before."""
    with tempfile.TemporaryDirectory() as folder:
        unit = "iso" if layout == "parquet" else "us"
        Path(folder, "spec.toml").write_text(SPEC.format(layout=layout, time_unit=unit))
        place = ["--spec", f"{folder}/spec.toml", "--ledger", f"{folder}/ledger.sqlite"]
        command("init", *place)
        return command("release", *place, "--input", str(feed), *DAY, "--output", f"{folder}/out", "--workers", "1")


@click.command()
@click.option("--rows", default="10,1000000", help="How many rows a release has.")
@click.option("--layouts", default="csv,parquet")
@click.option("--runs", default=5, show_default=True)
def benchmark(rows, layouts, runs):
    """Measure whole commands."""
    with tempfile.TemporaryDirectory() as folder:
        for layout in layouts.split(","):
            for number in map(int, rows.split(",")):
                feed = Path(folder, f"feed.{layout}")
                generate(Case(layout, number, 40, 1, False, 1, False, 2_000), feed)
                found = sorted(release(layout, feed) for _ in range(runs))
                click.echo(f"{layout}, {number:,} rows: {found[0]:.2f} CPU s ({', '.join(f'{s:.2f}' for s in found)})")


if __name__ == "__main__":
    benchmark()
