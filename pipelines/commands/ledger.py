"""`hatstream ledger`: spending, verification, backup and missing slots.

Names of columns begin with `>` for alignment to the right, and `|` where they must not wrap: see `table_of`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pipelines.commands.options import FILE, account_options, answer, json_option, spec_option
from pipelines.commands.terminal import console, table_of

if TYPE_CHECKING:
    from pipelines.account.location import AccountLocation
    from transforms.ledger.ledger import Ledger
    from transforms.ledger.spending import Account


@click.group()
def ledger() -> None:
    """Show accounts and missing slots, verify the ledger, and back it up.

    \b
    Example:
      hatstream ledger show --ledger austin.sqlite
    """


@ledger.command()
@account_options
@json_option
def show(location: AccountLocation, as_json: bool) -> None:
    """Show accounts and their spending by specification and period. Refuses a forged ledger.

    \b
    Example:
      hatstream ledger show --ledger austin.sqlite
    """
    book = location.read()
    checked = {"signatures": book.verify_chain().describe(), "head": book.describe_head()}
    accounts = [_described(book, account) | checked for account in book.accounts()]
    if as_json:
        click.echo(msgspec.json.encode(accounts).decode())
        return
    out = console()
    public = ", ".join(repr(entry["account"]) for entry in accounts if entry["adjacency"] == "counts-public")
    for account in accounts:
        table = table_of(
            f"{account['account']}: {account['unit']}, {account['adjacency']}, limit {account['limit_text']}",
            *("|period", "|specification", ">|slots", ">|epsilon", "|recorded (UTC)"),
        )
        for spent in account["spent"]:
            instants = (datetime.fromisoformat(spent[name]).astimezone(UTC) for name in ("first", "last"))
            first, last = (f"{instant:%Y-%m-%d %H:%M}" for instant in instants)
            recorded = first if first == last else f"{first} to\n{last}"
            name = f"{spent['specification']}\n{spent['spec_id']}"
            table.add_row(spent["period"], name, f"{spent['slots']:,}", f"{spent['epsilon']:g}", recorded)
        out.print(table)
        if account["spans"]:
            table = table_of("of spans of days, by day", ">|span", "|from", "|to", ">|left")
            for use in account["spans"]:  # `part`: share of the limit that is used, above 1 if the limit was lowered
                table.add_row(f"{use['days']} days", use["first"], use["last"], f"{max(1 - use['part'], 0):.1%}")
            out.print(table)
        if public and account["adjacency"] == "add-remove":
            out.print(
                "beware: counts-public accounts publish who drove; about the same vehicles they void this one: "
                f"{public}"
            )
        if account["changed"]:
            out.print(f"{account['changed']:,} audit events: later runs met other input or other code")
        if account["redrawn"]:
            out.print(f"{account['redrawn']:,} units were drawn again by later runs or restarts; the first draw stands")
    if accounts:
        out.print("\n".join(checked.values()))


def _described(book: Ledger, account: Account) -> dict[str, Any]:
    """Describes an account's limit, audit events and spending, by keys of the JSON."""
    from dpops.accountant import limit_of

    limit = limit_of(account.limit)
    return {
        "account": account.name,
        "unit": account.unit,
        "timezone": account.timezone,
        "adjacency": account.adjacency,
        "limit": float(limit.epsilon),
        "limit_text": limit.describe_fully(),
        **book.audit(account.name)._asdict(),  # numbers of units that changed or were drawn again
        "spans": [use._asdict() for use in book.uses_of_spans(account.name)],
        "spent": [
            {
                "period": spent.period,
                "specification": spent.spec_name,
                "spec_id": spent.spec_id,
                "slots": spent.slots,
                "epsilon": float(limit.shown(spent.debited).epsilon),
                "delta": float(limit.shown(spent.debited).delta),
                "first": spent.first_at,
                "last": spent.last_at,
            }
            for spent in book.spent(account.name)
        ],
    }


@ledger.command()
@account_options
@json_option
def verify(location: AccountLocation, as_json: bool) -> None:
    """Verify the ledger's chain, head and signatures, and debits against plans.

    Signatures are verified where the key is available; a key given by --key must belong to an account of the ledger.
    The plans of a slot (or of a period planned as a whole) must not claim more than was debited for it.

    \b
    Example:
      hatstream ledger verify --ledger austin.sqlite
    """
    book = location.read()
    walked, head = book.verify(), book.describe_head()
    lines = [f"the ledger is whole: {walked.entries:,} entries"]
    if 0 < walked.signed < walked.entries:
        unsigned = walked.entries - walked.signed
        lines.append(f"{unsigned:,} of them have no signature: they are from before entries were signed")
    unread = walked.signed - walked.checked
    lines.append(walked.describe() + (f"; that is {unread:,} entries" if unread else ""))
    numbers = {"entries": walked.entries, "signed": walked.signed, "signatures_compared": walked.checked}
    answer(as_json, {"whole": True, **numbers, "signatures": walked.describe(), "head": head}, *lines, head)


@ledger.command()
@spec_option
@click.option("--from", "start", required=True, metavar="DATE", help="First local date, or an ISO time.")
@click.option(
    "--to", "end", required=True, metavar="DATE", help="Last local date (included), or an ISO time (excluded)."
)
@account_options
@json_option
def missing(spec_path: Path, start: str, end: str, location: AccountLocation, as_json: bool) -> None:
    """List due slots of a specification without a complete release.

    A slot is due when it and its allowed lateness are over. `hatstream release` with the same specification and
    ledger fills what is missing; the exit code is 0 either way.

    \b
    Example:
      hatstream ledger missing --spec austin.toml --from 2016-11-24 --to 2016-11-27 --ledger austin.sqlite
    """
    from pipelines.account.guarantee import gaps, is_due
    from pipelines.inputs import range_of
    from pipelines.specification import load

    spec = load(spec_path)
    calendar = range_of(spec.timetable, start, end)
    now_s = int(datetime.now(UTC).timestamp())
    gaps_left = gaps(spec, calendar, location.read(), now_s)
    summary = {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "slots": len(calendar.slots),
        "still_to_come": sum(not is_due(spec, slot.start_s, now_s) for slot in calendar.slots),
        "missing": [gap._asdict() for gap in gaps_left],
    }
    if as_json:
        click.echo(msgspec.json.encode(summary).decode())
        return
    out, shards = console(), spec.privacy.release_shards
    if gaps_left:
        of_shards = [f"missing shards of 0 to {shards - 1}"] if shards > 1 else []
        table = table_of(f"{spec.name} ({spec.spec_id})", "|period", "|slot", "|until", *of_shards)
        for gap in gaps_left:
            row = (gap.period, gap.slot_start, gap.slot_end, ", ".join(map(str, gap.shards)))
            table.add_row(*row[: len(table.columns)])
        out.print(table)
    out.print(
        f"{len(gaps_left):,} of {summary['slots']:,} slots are missing, {summary['still_to_come']:,} are still to come"
    )


@ledger.command()
@click.option("--to", "path", required=True, type=FILE, help="The file to write.")
@account_options
@json_option
def backup(path: Path, location: AccountLocation, as_json: bool) -> None:
    """Back up ledger, key and head into one file, as secret as the key.

    An older backup at the same path is replaced. Encrypt it with age or gpg before it leaves the machine.

    \b
    Example:
      hatstream ledger backup --to /backup/austin.backup --ledger austin.sqlite
    """
    from pipelines.account.backup import write_backup

    copy = write_backup(location, path)
    document = {"file": str(path), "entries": len(copy.entries), "made": copy.header.made, "newest": copy.newest_text}
    answer(
        as_json,
        document,
        f"{path}: {len(copy.entries):,} entries, the newest release {copy.newest_text}; "
        "not encrypted: keep it as secret as the key",
    )


@ledger.command()
@click.option("--from", "path", required=True, type=FILE, help="A file of `ledger backup`.")
@click.option(
    "--results",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A folder of released rows, to show that nothing was released since the backup; repeat it for each.",
)
@click.option("--nothing-since", is_flag=True, help="Confirm that nothing was released since the backup.")
@account_options
@json_option
def restore(
    path: Path, results: tuple[Path, ...], nothing_since: bool, location: AccountLocation, as_json: bool
) -> None:
    """Restore lost parts of ledger, key and head, unless noise could be drawn twice.

    Parts that still exist stay, and must match the backup. An existing head shows whether the backup is new enough;
    without one, all folders of results must show it (--results), or you confirm it (--nothing-since).

    \b
    Example:
      hatstream ledger restore --from /backup/austin.backup --ledger austin.sqlite --results out
    """
    from pipelines.account.backup import restore

    copy, put_back = restore(location, path, results, nothing_since=nothing_since)
    document = {"restored": put_back, "made": copy.header.made, "newest": copy.newest_text}
    report = f"restored from the backup of {copy.header.made}: {' and '.join(put_back)}"
    answer(
        as_json,
        document,
        report if put_back else "nothing was lost, and nothing changed",
        f"its newest release is {copy.newest_text}",
    )
