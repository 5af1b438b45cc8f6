"""`hatstream fuse` and `hatstream perturb`: several services' local reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.table import Table

from hatstream.api import console, option, progress_bars

if TYPE_CHECKING:
    from hatstream_local.fusion.fuse import Fused

MOST_GROUPS = 40  # groups that the table on the terminal shows; the files hold all of them


@click.command()
@option("spec")
@option("input", help="The files of reports, as a quoted pattern.")
@option("folder")
@option("formats")
@option("json")
def fuse(spec_path: Path, pattern: str, output: Path, formats: tuple[str, ...], as_json: bool) -> None:
    """Combine noisy reports that services received from one fleet, at no further privacy cost.

    \b
    Example:
      hatstream fuse --spec fusion.toml --input 'reports/*.csv' --output build/fused
    """
    from hatstream_local.fusion.fuse import fuse_files
    from hatstream_local.specification import load_fusion

    spec = load_fusion(spec_path)
    with progress_bars(quiet=as_json) as bars:
        fused = fuse_files(spec, pattern, output, formats, bars)
    if as_json:
        document = {
            "spec_id": spec.spec_id,
            "rows_read": fused.read,
            "reports": fused.read - sum(fused.refused.values()),
            "refused": fused.refused,
            "users": fused.users,
            "epsilon_user_value": spec.epsilon_of_all,
            "epsilon_user_most": fused.leakage,
            "files": [str(path) for path in fused.files],
        }
        click.echo(msgspec.json.encode(document).decode())
        return
    out = console()
    out.print(_table(fused))
    _print_refused(out, fused.read, fused.refused)
    out.print(
        f"Every user gave away at most epsilon {spec.epsilon_of_all:g} with one value (the sum over services), and "
        f"at most {fused.leakage:g} over all its reports; fusing them adds nothing."
    )
    for path in fused.files:
        out.print(f"wrote {path}", soft_wrap=True)


@click.command()
@option("spec")
@option("input", help="The files of telemetry, as a quoted pattern.")
@option("file", help="The file of reports to write, each for one service: its recipient.")
@click.option(
    "--key",
    "key_path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File readable by its owner alone, of 32 bytes in hex (openssl rand -hex 32); it hides vehicle ids.",
)
@option("json")
def perturb(spec_path: Path, pattern: str, output: Path, key_path: Path, as_json: bool) -> None:
    """Add noise to vehicles' mean speeds per slot (and cell), separately for each service.

    \b
    Example:
      hatstream perturb --spec fusion.toml --input 'feed/*.csv' --output reports/day.csv --key reports.key
    """
    from hatstream_local.fusion.fuse import perturb_files
    from hatstream_local.specification import load_fusion

    spec = load_fusion(spec_path)
    with progress_bars(quiet=as_json) as bars:
        run = perturb_files(spec, pattern, output, key_path, bars)
    if as_json:
        click.echo(msgspec.json.encode(run).decode())
        return
    out = console()
    _print_refused(out, run.read, run.refused)
    out.print(
        f"{run.reports:,} reports of {run.vehicles:,} vehicles in {output}. A vehicle gives away epsilon "
        f"{spec.epsilon_of_all:g} with each value (the sum over services), at most {run.leakage:g} over all of them."
    )


def _table(fused: Fused) -> Table:
    """Tabulates the first groups' means, fused and by service."""
    from hatstream_local.specification import FUSED

    names = sorted({row["service"] for row in fused.rows} - {FUSED})
    table = Table(title="mean, km/h (95 % interval)", title_justify="left", caption_justify="left")
    for column in ("slot", "cell"):
        table.add_column(column, no_wrap=True)
    for name in ("users", "fused", *names):
        table.add_column(name, justify="right")
    means = [row for row in fused.rows if row["statistic"] == "mean"]
    groups = list(dict.fromkeys((row["slot_start"], row["cell"]) for row in means))
    by_group = {(row["slot_start"], row["cell"], row["service"]): row for row in means}
    for slot, cell in groups[:MOST_GROUPS]:
        shown = [by_group.get((slot, cell, name)) for name in (FUSED, *names)]
        texts = ["-" if r is None else f"{r['value']:.1f} ({r['lower95']:.1f} to {r['upper95']:.1f})" for r in shown]
        table.add_row(slot[:16].replace("T", " "), cell, f"{by_group[slot, cell, FUSED]['users']:,}", *texts)
    if len(groups) > MOST_GROUPS:
        table.caption = f"{len(groups) - MOST_GROUPS:,} more in the files"
    return table


def _print_refused(console: Console, read: int, refusals: dict[str, int]) -> None:
    console.print(f"{read:,} rows read, {sum(refusals.values()):,} refused.")
    for reason, count in sorted(refusals.items()):
        console.print(f"  {reason}: {count:,}")
