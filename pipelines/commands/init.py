"""`hatstream init`: opens an account in the ledger and makes its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.commands.options import account_options, answer, json_option, loaded, spec_option

if TYPE_CHECKING:
    from pipelines.account import location


@click.command()
@spec_option
@click.option(
    "--region-is-public",
    is_flag=True,
    help="Take a region that was drafted from reports: they are older than the account, or public anyway.",
)
@account_options
@json_option
def init(spec_path: Path, region_is_public: bool, place: location.AccountLocation, as_json: bool) -> None:
    """Open the specification's account: make the ledger and the secret key, once.

    Running it again changes nothing; a lower limit in the specification lowers the account's.

    \b
    Example:
      hatstream init --spec austin.toml --ledger austin.sqlite --key austin.key
    """
    from pipelines.account import location
    from pipelines.specification import SpecificationError
    from pipelines.specification.foreseen import foreseen

    spec = loaded(spec_path, quiet=as_json)
    if spec.region_tells and not region_is_public:
        raise SpecificationError(
            f"{spec_path}: the region was drafted from a sample of reports (cells.region_source), and a region is "
            "public: it shows where those vehicles drove. Draft it with --gtfs, name a GeoJSON of the service area and "
            "take cells.region_source out, or say --region-is-public if nobody in the sample is to be protected"
        )
    outcome = location.open_account(place, spec.account)
    document = {
        "account": spec.account.name,
        "outcome": str(outcome),
        "unit": spec.account.unit,
        "limit": spec.account.limit.said(),
        "adjacency": spec.account.adjacency,
        "ledger": place.shown,
        "key": str(place.key),
        "head": str(place.head),
        "other_accounts": list(location.other_accounts(place, spec.account.name)),
        "voided_by": list(location.that_void(place, spec.account)),
        "beware": list(foreseen(spec, date.today())),
    }
    answer(as_json, document, *_lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"account {document['account']!r}: {document['outcome']}"
    yield f"  unit {document['unit']}, limit {document['limit']}, adjacency {document['adjacency']}"
    yield f"  ledger  {document['ledger']}"
    yield f"  key     {document['key']} (secret: let nobody read it)"
    yield f"  head    {document['head']} (keep a copy of both, together)"
    if others := ", ".join(map(repr, document["other_accounts"])):
        told = "a vehicle that reports to several accounts spends all their budgets; also here"
        yield f"  beware  {told}: {others}"
    if voids := ", ".join(map(repr, document["voided_by"])):
        yield f"  beware  counts-public accounts publish who drove: about the same vehicles they void this one: {voids}"
    for told in document["beware"]:
        yield f"  beware  {told}"
