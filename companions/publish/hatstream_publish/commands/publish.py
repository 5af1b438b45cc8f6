"""`hatstream publish`: makes a static site of released values.

`location`: an AccountLocation, the account's ledger and key files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hatstream.api import InputError, UsageError, asked_to_stop, option
from hatstream_publish.commands.answer import answer, drawing_options, loaded, read_surroundings
from hatstream_publish.commands.following import follow as keep_current
from hatstream_publish.commands.following import write_options
from hatstream_publish.edition.edition import NAMES, licence

if TYPE_CHECKING:
    from hatstream.api import Specification
    from hatstream_publish.edition.edition import DatasetInfo
    from hatstream_publish.edition.site import Site


def _dataset_info(texts: Mapping[str, Any], spec: Specification) -> DatasetInfo:
    """Collects the dataset's texts from options, by name, and from the specification. Raises UsageError."""
    from hatstream_publish.edition.edition import DatasetInfo

    minutes = spec.timetable.slot_minutes
    slots = "Hourly" if minutes == 60 else f"{minutes}-minute"
    names = " and ".join(dict.fromkeys(stat.name for stat in spec.statistics)) or "mean"
    publisher, contact = texts["publisher"], texts["contact"]
    if spec.publisher is not None:
        publisher, contact = publisher or spec.publisher.controller, contact or spec.publisher.contact
    if not publisher:
        raise UsageError("give --publisher, or publisher.controller in the specification: a dataset needs a publisher")
    summary = f"{slots} {names} speeds of vehicles by place, published with differential privacy by hatstream."
    description = texts["description"] or summary
    if spec.trips is not None:
        description = f"{description.rstrip('. ')}. Hours in which the timetable has no trip of a place have no row."
    return DatasetInfo(
        title=texts["title"] or f"{slots} speeds of vehicles: {spec.name}",
        description=description,
        licence=licence(texts["licence_name"]),
        publisher=publisher,
        contact=contact,
        **{name: texts[name] for name in ("url", "everything")},
    )


def site_of(
    spec: Specification,
    spec_path: Path,
    location: Any,
    pattern: str,
    folder: Path,
    texts: Mapping[str, Any],
    *,
    follows: bool,
) -> Site:
    """Makes the site that options of `publish` describe. Raises UsageError and InputError.

    location: see the module. pattern: of result files. texts: the other options, by name. follows: see `Site`.
    """
    from hatstream_publish.edition.results import ResultFiles
    from hatstream_publish.edition.site import TRIPS, Site

    dates = _date("--from", texts["start"] or "0001-01-01"), _date("--to", texts["end"] or "9999-12-31")
    places_path, ground_path = (texts[name] and Path(texts[name]) for name in ("places_path", "ground_path"))
    around = read_surroundings(places_path, ground_path, spec, spec_path)
    spec_text = spec_path.read_text(encoding="utf-8")
    trips = b""
    if spec.trips is not None:
        name = tomllib.loads(spec_text.removeprefix("\ufeff"))["slot"]["trips"]  # a byte order mark is no TOML
        trips = (spec_path.parent / name).read_bytes()
    return Site(
        folder=folder,
        spec=spec,
        public_inputs={"specification.toml": spec_text.encode(), **({TRIPS: trips} if trips else {})},
        location=location,
        info=_dataset_info(texts, spec),
        around=around,
        tiles=(texts["tiles"], texts["credit"], texts.get("language")),  # options of an older folder lack it
        files=ResultFiles(pattern, spec, around.places),
        dates=dates,
        follows=follows,
    )


_HELP = """Write a static site for any web server, object store or open-data portal: tables, map, privacy card, records.

It holds values of status ok or parent; --all publishes the others too, with theirs.
The ledger is verified first: nothing is published from a damaged one. With --follow it keeps the site current until it
is stopped: new files first, then latest.json; a result file that cannot be read is named and left out.

\b
Example:
  hatstream publish --spec town.toml --input out --licence CC-BY-4.0 --output public --follow
"""


@click.command(help=_HELP)
@option("spec")
@option("input")
@click.option("--from", "start", metavar="DATE", help="First local date. [default: of the files]")
@click.option("--to", "end", metavar="DATE", help="Last local date (included). [default: of the files]")
@option("account")
@click.option("--title", help="Title of the dataset.")
@click.option("--description", help="Description in a sentence or two.")
@click.option("--publisher", help="Who publishes it. [default: publisher.controller]")
@click.option("--contact", default="", help="An email or an address. [default: publisher.contact]")
@click.option("--licence", "--license", "licence_name", required=True, help=f"Such as {', '.join(NAMES)}.")
@click.option("--url", default="", help="Address of the published folder; by default addresses are relative.")
@drawing_options
@click.option("--all", "everything", is_flag=True, help="Also publish values of other statuses than ok and parent.")
@option("folder", help="The folder to write.")
@click.option("--follow", "follows", is_flag=True, help="Keep it current until SIGINT or SIGTERM.")
@option("json")
def publish(
    spec_path: Path, pattern: str, location: Any, output: Path, follows: bool, as_json: bool, **texts: Any
) -> int:
    """Publishes a folder of results."""
    spec, folder = loaded(spec_path, quiet=as_json), output.absolute()
    site = site_of(spec, spec_path, location, pattern, folder, texts, follows=follows)
    settings = texts | {name: texts[name] and texts[name].absolute() for name in ("places_path", "ground_path")}
    try:
        if follows:
            write_options(folder, settings)  # for `stream --site`, which continues with them
            with asked_to_stop() as stop:
                keep_current(site, stop)
            return 0
        if not site.files.look():
            raise InputError(f"no result file matches {site.files.pattern!r}")
        changes = site.update()
        if changes is None:
            raise InputError("the result files hold no row of slots in this range")
        write_options(folder, settings)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"the folder {output} cannot be written: {why}") from None
    tables = {name: {"rows": shown, "of": total} for name, (shown, total) in changes.rows.items()}
    document = {"output": str(output), "files": sorted(changes.files), "changed": changes.changed, "tables": tables}
    lines = [f"{name}: {shown:,} of {total:,} rows" for name, (shown, total) in changes.rows.items()]
    lines += [f"{len(changes.files)} files, {len(changes.changed)} of them changed: {output}"]
    answer(as_json, document, *lines)
    return 0


def _date(name: str, text: str) -> str:
    """Reads a date in any form of ISO 8601. Raises UsageError. name: option."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"{name} must be a date like 2026-05-13; it is {text!r}") from None
