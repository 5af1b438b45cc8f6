"""`hatstream init`: opens an account in the ledger and makes its key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands.options import account_options, spec_option

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
def init(spec_path: Path, region_is_public: bool, place: location.AccountLocation) -> None:
    """Open the specification's account: make the ledger and the secret key, once.

    Running it again changes nothing; a lower limit in the specification lowers the account's.

    \b
    Example:
      hatstream init --spec austin.toml --ledger austin.sqlite --key austin.key
    """
    from pipelines.account import location
    from pipelines.specification import SpecificationError, load

    spec = load(spec_path)
    if spec.region_tells and not region_is_public:
        raise SpecificationError(
            f"{spec_path}: the region was drafted from a sample of reports (cells.region_source), and a region is "
            "public: it shows where those vehicles drove. Draft it with --gtfs, name a GeoJSON of the service area and "
            "take cells.region_source out, or say --region-is-public if nobody in the sample is to be protected"
        )
    outcome = location.open_account(place, spec.account)
    click.echo(f"account {spec.account.name!r}: {outcome}")
    click.echo(f"  unit {spec.account.unit}, limit {spec.account.limit.said()}, adjacency {spec.account.adjacency}")
    click.echo(f"  ledger  {place.shown}")
    click.echo(f"  key     {place.key} (secret: let nobody read it)")
    click.echo(f"  head    {place.head} (keep a copy of both, together)")
    if others := location.other_accounts(place, spec.account.name):
        known = ", ".join(map(repr, others))
        click.echo(f"  beware  a vehicle that reports to several accounts spends all their budgets; also here: {known}")
    if voids := location.that_void(place, spec.account):
        known = ", ".join(map(repr, voids))
        click.echo(
            f"  beware  counts-public accounts publish who drove: about the same vehicles they void this one: {known}"
        )
