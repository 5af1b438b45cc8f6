"""`hatstream spec new`: draft a specification from a feed's sample, a timetable, or both."""

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from hatstream.api import InputError, UsageError, note, option

_NO_SAMPLE = (
    "--value delay needs --gtfs, for public lists of keys, without --streets and --sample: name layout and columns of "
    "your feed in [input] of the draft; `hatstream release --check-input` shows whether they fit"
)


@click.command()
@click.option("--sample", type=click.Path(path_type=Path, exists=True), help="A file of the feed, or a folder of them.")
@click.option(
    "--gtfs",
    type=click.Path(path_type=Path, exists=True),
    help="The static timetable, a zip or folder: region, zone, hours, fleet and names of places, all public.",
)
@click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "counts-public"]),
    default="add-remove",
    show_default=True,
    help="add-remove: hide that a vehicle drove at all; counts-public: hide only its speeds.",
)
@option("file", required=False, help="The file to write; needed with --gtfs. [default: print it]")
@click.option(
    "--streets",
    is_flag=True,
    help="With --gtfs and add-remove: also a file of segments from stop to stop, for a map of them.",
)
@click.option(
    "--header-time", is_flag=True, help="Use the feed's time where reports have none: parked vehicles then look fresh."
)
@click.option("--at-sea", is_flag=True, help="Accept a sample with most positions at sea, such as ferries'.")
@click.option(
    "--value",
    type=click.Choice(["speed", "delay"]),
    default="speed",
    show_default=True,
    help="Speeds by hexagon, or with --gtfs alone delays of TripUpdates by route, stop or trip.",
)
@option("json")
def new(
    sample: Path | None,
    gtfs: Path | None,
    adjacency: str,
    output: Path | None,
    streets: bool,
    header_time: bool,
    at_sea: bool,
    value: str,
    as_json: bool,
) -> None:
    """Draft a specification from a sample of a feed, a timetable, or both.

    Layout, columns, units, time zone and cells are found; every guess has a comment to check.
    Findings go to standard error. Nothing is released, and no value of a row is shown.

    \b
    Examples:
      hatstream spec new --gtfs static.zip --sample feed.csv --output town.toml
      hatstream spec new --gtfs static.zip --value delay --output delays.toml
      hatstream spec new --sample feed.csv
    """
    from hatstream.api import load
    from hatstream_city.draft.draft import draft

    if sample is None and gtfs is None:
        raise UsageError("give --gtfs, --sample or both")
    if gtfs is not None and output is None:
        raise UsageError("give --output: with --gtfs files of the region and of places lie beside the specification")
    if streets and (gtfs is None or adjacency != "add-remove"):
        raise UsageError("--streets needs --gtfs, whose lines are cut from stop to stop, and --adjacency add-remove")
    if value == "delay" and (gtfs is None or sample is not None or streets):
        raise UsageError(_NO_SAMPLE)
    result = draft(
        sample,
        adds_and_removes=adjacency == "add-remove",
        timetable=gtfs,
        stem=output.stem if output else "",
        streets=streets,
        header_time=header_time,
        at_sea=at_sea,
        value=value,
    )
    for line in () if as_json else result.findings:
        note(f"found: {line}")
    for line in () if as_json else result.warnings:
        click.echo(f"WARNING: {line}", err=True)
    if output is not None:
        _write(output, result.files, result.toml)
    # An open draft, of which a person must name a column first, is no specification yet.
    spec_id = None if output is None or result.is_open else load(output).spec_id
    if as_json:
        lists = {"found": result.findings, "warnings": result.warnings, "files": list(result.files)}
        document = {"output": output and str(output), "spec_id": spec_id, **lists, "toml": result.toml}
        click.echo(msgspec.json.encode(document).decode())
    elif output is None:
        click.echo(result.toml, nl=False)
    else:
        advice = "Name the columns of '?' in it" if result.is_open else "Read its comments"
        note(f"wrote {output} ({spec_id or 'not finished'}). {advice}, then: hatstream plan --spec {output}")


def _write(output: Path, others: Mapping[str, bytes], toml: str) -> None:
    """Writes new files, the specification last. Raises UsageError, InputError."""
    files = {output.with_name(name): content for name, content in others.items()} | {output: toml.encode()}
    existing_path = next((path for path in (output, *files) if path.exists()), None)  # the error names `output` first
    if existing_path is not None:
        raise UsageError(f"{existing_path} is there already: name another file")
    for path, content in files.items():
        try:
            path.write_bytes(content)
        except OSError as error:
            if path.is_file():
                path.unlink()  # what a full disk left of it
            raise InputError(f"{path}: {error.strerror}") from None
        if path != output:
            click.echo(f"wrote {path}", err=True)
