"""`hatstream publish`: a folder that an open-data portal takes, with a privacy card and where its values come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hatstream.api import InputError, UsageError, option
from hatstream_publish.commands.answer import answer, loaded
from hatstream_publish.commands.surroundings import (
    credit_option,
    read_surroundings,
    surroundings_options,
    tiles_option,
    with_specified,
)
from hatstream_publish.edition.licences import NAMES, licence

if TYPE_CHECKING:
    import pyarrow as pa

    from hatstream.api import Specification
    from hatstream_publish.edition.edition import Edition, Wishes
    from hatstream_publish.pages.map import Surroundings


@dataclass(frozen=True)
class AskedTexts:
    """What the options say of the published folder."""

    title: str | None
    description: str | None
    publisher: str
    contact: str
    licence_name: str
    url: str
    tiles: str | None
    credit: str
    everything: bool

    def wishes(self, spec: Specification) -> Wishes:
        from hatstream_publish.edition.edition import Wishes

        minutes = spec.timetable.slot_minutes
        slots = "Hourly" if minutes == 60 else f"{minutes}-minute"
        names = " and ".join(dict.fromkeys(stat.name for stat in spec.statistics)) or "mean"
        what = f"{slots} {names} speeds of vehicles by place, published with differential privacy by hatstream."
        return Wishes(
            title=self.title or f"{slots} speeds of vehicles: {spec.name}",
            description=self.description or what,
            publisher=self.publisher,
            contact=self.contact,
            licence=licence(self.licence_name),
            url=self.url,
            everything=self.everything,
        )


_HELP = """Write a folder for an open-data portal: tables, dictionary, privacy card, provenance, map.

Only values that may be used are in it; --all publishes the others too, with their status.
The ledger is walked first: one that is not whole publishes nothing.

\b
Example:
  hatstream publish --spec town.toml --ledger town.sqlite --input 'out/*.parquet' \\
      --publisher 'City of Town' --licence CC-BY-4.0 --output portal
"""


@click.command(help=_HELP)
@option("spec")
@option("input")
@click.option("--from", "start", metavar="DATE", help="First local date. [default: of the files]")
@click.option("--to", "end", metavar="DATE", help="Last local date (included). [default: of the files]")
@option("account")
@click.option("--title", help="Of the dataset.")
@click.option("--description", help="A sentence or two on it.")
@click.option("--publisher", required=True, help="Who publishes it.")
@click.option("--contact", default="", help="An email or an address of theirs.")
@click.option("--licence", "--license", "licence_name", required=True, help=f"Such as {', '.join(NAMES)}.")
@click.option("--url", default="", help="Where the folder will be found; without it addresses are relative.")
@tiles_option
@credit_option
@click.option("--all", "everything", is_flag=True, help="Also values that are not to be used, marked as such.")
@surroundings_options
@option("folder", help="The folder to write.")
@option("json")
def publish(
    spec_path: Path,
    pattern: str,
    start: str | None,
    end: str | None,
    place: Any,
    places_path: Path | None,
    ground_path: Path | None,
    output: Path,
    as_json: bool,
    **asked: Any,
) -> int:
    from hatstream_publish.edition.folder import made, write_folder
    from hatstream_publish.pages.map import MapTexts
    from hatstream_publish.pages.rows import HATS, check_origin, read_results

    texts, spec = AskedTexts(**asked), loaded(spec_path, quiet=as_json)
    around = with_specified(read_surroundings(places_path, ground_path), spec, spec_path)
    results = _between(read_results(pattern), start, end)
    for rows_of_product in results.values():
        check_origin(rows_of_product, spec.name, spec.spec_id)
    if not texts.everything:
        results = {name: _without_forecasts(rows) for name, rows in results.items()}
    edition = _edition(spec, spec_path, place, texts.wishes(spec), results[HATS], around)
    map_texts = MapTexts(edition.wishes.title, edition.account.guarantee, texts.tiles, texts.credit)
    files, rows = made(edition, results, around, map_texts)
    try:
        write_folder(output, files)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"the folder {output} cannot be written: {why}") from None
    of = {name: table.num_rows for name, table in results.items()}
    answer(as_json, *_told(output, files, {name: (many, of[name]) for name, many in rows.items()}))
    return 0


def _told(output: Path, files: Mapping[str, bytes], rows: Mapping[str, tuple[int, int]]) -> tuple[Any, ...]:
    """Tells what was written, for programs and for people. rows: of each table, of how many."""
    size = sum(map(len, files.values()))
    tables = {name: {"rows": many, "of": of} for name, (many, of) in rows.items()}
    document = {"output": str(output), "files": sorted(files), "bytes": size, "tables": tables}
    lines = [f"{name}: {many:,} of {of:,} rows" for name, (many, of) in rows.items()]
    return document, *lines, f"{len(files)} files, {size / 1e3:,.0f} kB: {output}"


def _between(results: Mapping[str, pa.Table], start: str | None, end: str | None) -> dict[str, pa.Table]:
    """Keeps the rows of local dates, both included. Raises UsageError and InputError."""
    import pyarrow.compute as pc

    from hatstream_publish.pages.rows import HATS

    first, last = _date("--from", start or "0001-01-01"), _date("--to", end or "9999-12-31")
    chosen = {}
    for name, rows in results.items():
        day = pc.utf8_slice_codeunits(rows["slot_start"], 0, 10)
        fits = pc.and_(pc.greater_equal(day, first), pc.less_equal(day, last))
        chosen[name] = rows.filter(fits)
    if HATS not in chosen or not chosen[HATS].num_rows:
        raise InputError("the result files hold no row of slots in this range")
    return chosen


def _date(name: str, text: str) -> str:
    """Reads a date in any form of ISO 8601, as slots begin with it."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"{name} must be a date like 2026-05-13; it is {text!r}") from None


def _without_forecasts(rows: pa.Table) -> pa.Table:
    """Leaves out slots of which anything is a forecast: nothing of them is released."""
    import pyarrow.compute as pc

    forecast = rows.filter(pc.equal(rows["status"], "forecast"))["slot_start"].unique()
    return rows.filter(pc.invert(pc.is_in(rows["slot_start"], forecast)))


def _edition(
    spec: Specification, spec_path: Path, place: Any, wishes: Wishes, rows: pa.Table, around: Surroundings
) -> Edition:
    """Walks the ledger. Raises LedgerError where it is not whole, InputError where it has nothing of the
    specification."""
    from hatstream.api import AccountReport
    from hatstream_publish.edition.edition import Edition, Extent, Origin
    from hatstream_publish.pages.antimeridian import box_of

    starts, ends = (
        sorted(rows[name].unique().to_pylist(), key=datetime.fromisoformat) for name in ("slot_start", "slot_end")
    )
    account = AccountReport.read(spec, place, (starts[0][:10], starts[-1][:10]))
    if not account.record.newest:
        raise InputError(
            f"the ledger has no release of {spec.name} ({spec.spec_id}): name the one it was released with"
        )
    shapes = [around.places.place(cell).shape for cell in rows["cell"].unique().to_pylist()]
    box, missing = box_of(shape for shape in shapes if shape), [gap.slot_start for gap in account.gaps]
    text, record = spec_path.read_text(encoding="utf-8"), account.record
    return Edition(
        wishes=wishes,
        account=account,
        covers=Extent(starts[0], ends[-1], len(starts), missing, box),
        origin=Origin(text, record.newest, record.is_signed, version("hatstream"), datetime.now(UTC)),
    )
