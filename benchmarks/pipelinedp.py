"""Guards the ratio of events a second to those of PipelineDP 0.3.1 on Beam, over the same events in the same run.

    uv venv --python 3.11 /tmp/pdp
    uv pip install --python /tmp/pdp/bin/python pipeline-dp==0.3.1 apache-beam==2.77.0 h3 pyarrow
    .venv/bin/python -m benchmarks.pipelinedp --python /tmp/pdp/bin/python --millions 1,4,16

PipelineDP is no dependency of this project, so it has an environment of its own. Both read one Parquet file, find
cells and release the mean speed of every hexagon and hour; of both only CPU seconds after the imports count, of
hatstream the least of three runs. The bounds on contributions that PipelineDP needs are such that all events count, as
with hatstream. It takes a minute and a gigabyte for a million events, and grows with them.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import click

from benchmarks.throughput import Case, generate, measure, numbers

RUNS = 3


def compare(python, millions):
    """Measures both, one after the other, and prints a line of a table."""
    case = Case("parquet", millions * 1_000_000, 40, 1, False, False, 2_000)
    with tempfile.TemporaryDirectory() as folder:
        feed = Path(folder, "feed.parquet")
        generate(case, feed)
        ours = min((measure(case, feed) for _ in range(RUNS)), key=lambda run: run.cpu_s)
        side = [python, str(Path(__file__).with_name("pipelinedp_side.py")), str(feed)]
        theirs = json.loads(subprocess.run(side, check=True, stdout=subprocess.PIPE).stdout)
    click.echo(f"{case.events:,} events, ratio {theirs['cpu_s'] / ours.cpu_s:.0f}")
    for name, cpu_s, peak_mb in (
        ("hatstream", ours.cpu_s, ours.peak_mb),
        ("PipelineDP", theirs["cpu_s"], theirs["peak_mb"]),
    ):
        click.echo(f"  {name}: {cpu_s:,.1f} CPU s, {1e6 * cpu_s / case.events:.2f} us an event, {peak_mb:,.0f} MB")


@click.command()
@click.option("--python", required=True, help="Of the environment with pipeline-dp.")
@click.option("--millions", default="1,4", callback=numbers, help="Millions of events.")
def benchmark(python, millions):
    """Measure both at several sizes."""
    for size in millions:
        compare(python, size)


if __name__ == "__main__":
    benchmark()
