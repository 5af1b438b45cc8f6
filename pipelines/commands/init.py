"""`hatstream init`: opens an account and makes its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.commands.options import account_options, answer, json_option, loaded, spec_option

if TYPE_CHECKING:
    from pipelines.account.location import AccountLocation

SHOWN_WINDOWS = 8  # periods or spans over the limit that are named in one line


@click.command()
@spec_option
@click.option(
    "--region-is-public",
    is_flag=True,
    help="Accept a region drafted from reports: confirm that these are older than the account, or public.",
)
@click.option(
    "--files-are-public", is_flag=True, help="Accept one file per vehicle: whether such a file exists is no secret."
)
@account_options
@json_option
def init(
    spec_path: Path, region_is_public: bool, files_are_public: bool, location: AccountLocation, as_json: bool
) -> None:
    """Open the specification's account: make the ledger and the secret key, once.

    Running it again changes nothing; a lower limit in the specification lowers the account's.

    \b
    Example:
      hatstream init --spec austin.toml --ledger austin.sqlite --key austin.key
    """
    from pipelines.account.guarantee import bounds_of_account, fits_again
    from pipelines.account.location import open_account, other_accounts, voiding_accounts
    from pipelines.specification import SpecificationError, foreseen

    spec = loaded(spec_path, quiet=as_json)
    if spec.region_tells and not region_is_public:
        raise SpecificationError(
            f"{spec_path}: the region was drafted from a sample of reports (cells.region_source), and a region is "
            "public: it shows where those vehicles drove. Draft it with --gtfs, name a GeoJSON of the service area and "
            "take cells.region_source out, or say --region-is-public if nobody in the sample is to be protected"
        )
    if spec.files_tell and not files_are_public:
        raise SpecificationError(
            f"{spec_path}: input.columns.vehicle is '{{file}}', and which files there are is public: a file for each "
            "vehicle shows that it drove. Bring reports together in files of a day or an hour with a column for the "
            "vehicle, or say --files-are-public if that a vehicle drove is not to be hidden"
        )
    outcome = open_account(location, spec.account)
    bounds = bounds_of_account(location.ledger, spec.account.name)
    document = {
        "account": spec.account.name,
        "outcome": str(outcome),
        "unit": spec.account.unit,
        "limit": spec.account.limit.describe(),
        "adjacency": spec.account.adjacency,
        "over": [
            {"days": bound.days, "first": first_period, "epsilon": float(loss.epsilon), "delta": float(loss.delta)}
            for bound in bounds
            for first_period, loss in bound.over.items()
        ],
        "fits_again": fits_again(location.ledger, spec, bounds),
        "ledger": location.shown,
        "key": str(location.key),
        "head": str(location.head),
        "other_accounts": list(other_accounts(location, spec.account.name)),
        "voided_by": list(voiding_accounts(location, spec.account)),
        "beware": list(foreseen(spec, date.today())),
    }
    answer(as_json, document, *_lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yields an account's state in lines for people. document: as in the JSON answer."""
    yield f"account {document['account']!r}: {document['outcome']}"
    yield f"  unit {document['unit']}, limit {document['limit']}, adjacency {document['adjacency']}"
    for days, group in groupby(document["over"], key=lambda window: window["days"]):
        windows = [f"{window['first']} ({window['epsilon']:g})" for window in group]  # over since the limit was lowered
        shown = windows if len(windows) <= SHOWN_WINDOWS else [*windows[: SHOWN_WINDOWS - 1], "..", windows[-1]]
        kind = "periods that" if days == 1 else f"spans of {days} days that begin on these dates"
        yield f"  over    {len(windows)} {kind} have spent more than the limit: {', '.join(shown)}"
    if document["over"]:
        day = document["fits_again"]
        yield f"  over    a release fits again on {day}" if day else "  over    nothing more fits in them"
    yield f"  ledger  {document['ledger']}"
    yield f"  key     {document['key']} (secret: let nobody read it)"
    yield f"  head    {document['head']} (keep a copy of both, together)"
    if others := ", ".join(map(repr, document["other_accounts"])):
        warning = "a vehicle that reports to several accounts spends all their budgets; also here"
        yield f"  beware  {warning}: {others}"
    if voids := ", ".join(map(repr, document["voided_by"])):
        yield f"  beware  counts-public accounts publish who drove: about the same vehicles they void this one: {voids}"
    for warning in document["beware"]:
        yield f"  beware  {warning}"
