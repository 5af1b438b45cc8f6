"""`hatstream demo`: a sample day of a made-up bus fleet, released as a city would."""

from importlib.resources import files
from pathlib import Path

import click
from rich.table import Table

from pipelines.account import location
from pipelines.commands.options import console, progress_bars
from pipelines.commands.release import show, summarise
from pipelines.demo.fleet import Fleet, write_sample
from pipelines.scheduled import release as scheduled
from pipelines.specification import Specification, load
from transforms.release.estimates import estimates_of
from transforms.sinks.rows import rows_of

SHOWN = 8
LAPLACE_95 = 2.12
"""Half of an interval that Laplace noise misses once in twenty times, in standard deviations. Intervals as published
are cut at the edges, so that noise beyond them would look like knowledge."""


@click.command()
@click.option(
    "--output", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder for the demo's files."
)
def demo(output: Path) -> int:
    """Make a sample day of a made-up bus fleet and release its mean speeds.

    Everything, the ledger and the key too, is kept in the output folder; running it again returns the same numbers.

    \b
    Example:
      hatstream demo --output build/demo
    """
    out = console()
    fleet = Fleet()
    output.mkdir(parents=True, exist_ok=True)
    spec_path = output / "demo.toml"
    spec_path.write_bytes(files("pipelines.demo").joinpath("demo.toml").read_bytes())
    spec = load(spec_path)
    sample = output / "sample.parquet"
    out.print(f"{write_sample(fleet, sample):,} reports of {fleet.vehicles} made-up buses on {fleet.day}: {sample}")
    place = location.find(str(output / "ledger.sqlite"), None)
    location.open_account(place, spec.account)
    when = scheduled.range_of(spec.timetable, fleet.day.isoformat(), fleet.day.isoformat())
    with progress_bars(quiet=False) as report:
        done = scheduled.release(spec, when, str(sample), output / "hats", place, ("parquet", "csv"), report)
    out.print(_busiest(spec, place, done))
    show(summarise(spec, done, place), out)
    return 0


def _busiest(spec: Specification, place: location.AccountLocation, done: scheduled.Release) -> Table:
    """The HATs whose means are known best, for a first look."""
    units = [unit for period in done.calendar.periods for unit in place.ledger.released(spec.spec_id, period)]
    by_slot = [row for unit in units for row in rows_of(estimates_of([unit], ())) if row["status"] == "ok"]
    best = sorted(by_slot, key=lambda row: LAPLACE_95 * row["noise_std"] + row["bias_bound"])[:SHOWN]
    table = Table(title=f"Mean speeds of the {len(best)} best known of {len(by_slot)} HATs", title_justify="left")
    for title in ("slot", "cell", "mean km/h", "95 % interval", "noise std", "bias at most", "epsilon"):
        table.add_column(title, justify="left" if title in ("slot", "cell") else "right")
    for row in sorted(best, key=lambda row: (row["slot_start"], row["cell"])):
        table.add_row(
            f"{row['slot_start'][:16]} to {row['slot_end'][11:16]}",
            row["cell"],
            f"{row['value']:.1f}",
            f"{row['lower95']:.1f} to {row['upper95']:.1f}",
            f"{row['noise_std']:.2f}",
            f"{row['bias_bound']:.2f}",
            f"{row['epsilon']:g}",
        )
    return table
