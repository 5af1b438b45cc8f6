"""`hatstream ledger`: what was spent, and whether the record is whole."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from pipelines import custody
from pipelines.commands.options import console, json_option, key_option, ledger_option
from transforms.head import LedgerError
from transforms.ledger import Account, Ledger


@click.group()
def ledger() -> None:
    """Look at the ledger: accounts, what was spent, and whether its chain is whole.

    \b
    Example:
      hatstream ledger show --ledger austin.sqlite
    """


def _open(url: str | None, key_path: Path | None) -> Ledger:
    place = custody.find(url, key_path)
    book = Ledger(place.url, place.head, read_only=True)
    if not book.exists():
        raise LedgerError(f"there is no ledger at {place.shown}")
    return book


@ledger.command()
@ledger_option
@key_option
@json_option
def show(ledger: str | None, key_path: Path | None, as_json: bool) -> None:
    """Show accounts and what each specification has spent, by period.

    \b
    Example:
      hatstream ledger show --ledger austin.sqlite
    """
    book = _open(ledger, key_path)
    accounts = [_describe(book, account) for account in book.accounts()]
    if as_json:
        click.echo(msgspec.json.encode(accounts).decode())
        return
    out = console()
    for account in accounts:
        title = f"{account['account']}: {account['unit']}, {account['adjacency']}, limit {account['limit']:g}"
        table = Table(title=title, title_justify="left")
        for column in ("period", "specification", "spec_id", "slots", "epsilon", "first recorded", "last recorded"):
            table.add_column(column, justify="right" if column in ("slots", "epsilon") else "left")
        for s in account["spent"]:
            table.add_row(
                s["period"],
                s["specification"],
                s["spec_id"],
                str(s["slots"]),
                f"{s['epsilon']:g}",
                s["first"],
                s["last"],
            )
        out.print(table)
        if account["changed"]:
            out.print(f"{account['changed']} audit events: later runs met other input or other code")


def _describe(book: Ledger, account: Account) -> dict[str, Any]:
    return {
        "account": account.name,
        "unit": account.unit,
        "timezone": account.timezone,
        "adjacency": account.adjacency,
        "limit": float(Fraction(account.limit)),
        "changed": book.audit_events(account.name),
        "spent": [
            {
                "period": spent.period,
                "specification": spent.spec_name,
                "spec_id": spent.spec_id,
                "slots": spent.slots,
                "epsilon": float(spent.epsilon),
                "first": spent.first_at,
                "last": spent.last_at,
            }
            for spent in book.spent(account.name)
        ],
    }


@ledger.command()
@ledger_option
@key_option
def verify(ledger: str | None, key_path: Path | None) -> None:
    """Walk the ledger's chain of hashes and compare its head with the one kept beside the key.

    \b
    Example:
      hatstream ledger verify --ledger austin.sqlite
    """
    length = _open(ledger, key_path).verify()
    click.echo(f"the ledger is whole: {length:,} entries")
