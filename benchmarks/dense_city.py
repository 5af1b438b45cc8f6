"""Guards what a dense made-up city costs: 2,000 buses in about 55 cells for a day, a report every 10 s.

    .venv/bin/python -m benchmarks.dense_city                 # about 3 minutes; writes build/dense
    .venv/bin/python -m benchmarks.dense_city --data '../shared/data/capmetro/*.csv' --spec austin.toml \\
        --from 2016-11-24 --to 2016-11-27

Each release is a process of its own; its CPU seconds and peak memory are what the kernel counted for it.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample

FOLDER = Path("build/dense")
FLEET = MadeUpFleet(vehicles=2_000, routes=60, report_every_s=10.0)
PRIVACY = {
    "none": 'per = "hat"',
    "clip-user, of a slot": 'per = "hat"\ncomposition = "clip-user"',
    "clip-user, of the day": 'per = "hat"\ncomposition = "clip-user"\nscope = "period"',
}
STATISTICS = '[[statistic]]\nname = "mean"\n\n[[statistic]]\nname = "variance"\n\n'
PRIOR = "upper_kmh = 65\nprior = { mean_kmh = 20, sd_kmh = 12, between = 0.2 }"


def make_city() -> tuple[str, Path]:
    """The feed and its specification; the feed is kept, for it takes a minute."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    feed, spec = FOLDER / "city.parquet", FOLDER / "dense.toml"
    if not feed.exists():
        Console().print(f"{write_sample(FLEET, feed):,} reports of {FLEET.vehicles:,} made-up buses: {feed}")
    text = files("hatstream_lab.demo").joinpath("demo.toml").read_text()
    text = text.replace("limit = 300.0", "limit = 100000.0").replace('name = "demo-hourly"', 'name = "dense-hourly"')
    text = re.sub(
        r"\[\[statistic\]\].*?(?=\[input\])", STATISTICS, text.replace("upper_kmh = 65", PRIOR), flags=re.DOTALL
    )
    spec.write_text(text)
    return str(feed), spec


def measure(pattern: str, spec: Path, start: str, end: str, privacy: str) -> tuple[float, float, float]:
    """Wall and CPU seconds and peak MB of a release with another [privacy]."""
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "spec.toml"
        changed.write_text(re.sub('per = "hat"', privacy, spec.read_text()))
        ledger = ["--spec", str(changed), "--ledger", f"{folder}/ledger.sqlite"]
        hatstream = [sys.executable, "-m", "pipelines.cli"]
        subprocess.run([*hatstream, "init", *ledger], check=True, stdout=subprocess.DEVNULL)
        dates = ["--from", start, "--to", end]
        begin = time.perf_counter()
        run = subprocess.Popen(
            [*hatstream, "release", *ledger, "--input", pattern, *dates, "--output", f"{folder}/out"],
            stdout=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(run.pid, 0)
        if status:
            raise click.ClickException("the release failed")
        return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


@click.command()
@click.option("--data", "pattern")
@click.option("--spec", type=click.Path(path_type=Path))
@click.option("--from", "start", default=FLEET.day.isoformat())
@click.option("--to", "end", default=FLEET.day.isoformat())
def run(pattern, spec, start, end):
    """Time hourly releases of mean and variance with and without suppression."""
    if pattern is None:
        pattern, spec = make_city()
    table = Table(title=f"hourly mean and variance, {start} to {end}", title_justify="left")
    for name in ("composition", "wall s", "CPU s", "peak MB"):
        table.add_column(name, justify="left" if name == "composition" else "right")
    for label, privacy in PRIVACY.items():
        wall, cpu, peak = measure(pattern, spec, start, end, privacy)
        table.add_row(label, f"{wall:.1f}", f"{cpu:.1f}", f"{peak:.0f}")
    Console().print(table)


if __name__ == "__main__":
    run()
