"""Events per second of hatstream and of PipelineDP 0.3.1 on Beam over the same events in the same run.

    uv venv --python 3.11 /tmp/pdp
    uv pip install --python /tmp/pdp/bin/python pipeline-dp==0.3.1 apache-beam==2.77.0 h3 pyarrow
    .venv/bin/python -m benchmarks.pipelinedp --python /tmp/pdp/bin/python --thousands 1000

PipelineDP is no dependency of this project, so it has an environment of its own. Both read one Parquet file, find
cells and release the mean speed of every hexagon and hour; of both only CPU seconds after the imports count.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import click

from benchmarks.throughput import Case, generate, measure


@click.command()
@click.option("--python", required=True, help="Of the environment with pipeline-dp.")
@click.option("--thousands", default=1_000, help="Thousands of events.")
def compare(python, thousands):
    """Measure both, one after the other."""
    case = Case("parquet", thousands * 1_000, 40, 1, False, 1, False, 2_000)
    with tempfile.TemporaryDirectory() as folder:
        feed = Path(folder, "feed.parquet")
        generate(case, feed)
        ours = measure(case, feed).cpu_s
        side = [python, str(Path(__file__).with_name("pipelinedp_side.py")), str(feed)]
        theirs = json.loads(subprocess.run(side, check=True, stdout=subprocess.PIPE).stdout)["cpu_s"]
    for name, seconds in (("hatstream", ours), ("PipelineDP", theirs)):
        click.echo(f"{name}: {seconds:.1f} CPU s, {case.events / seconds:,.0f} events/s/core")
    click.echo(f"ratio {theirs / ours:.0f}")


if __name__ == "__main__":
    compare()
