"""What `hatstream release` says of a `levels` release: public facts apart from what only the operator may see."""

from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from pipelines.account.guarantee import levels_sentence
from pipelines.commands.options import console
from pipelines.scheduled.check_input import InputCheck
from pipelines.scheduled.release import Release
from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease
from transforms.ledger import Ledger
from transforms.release.levels import plan_of

OPERATOR_ONLY = "for the operator alone: these numbers depend on how many vehicles reported"


def summarise_levels(spec: Specification, levels: LevelsRelease, done: Release, ledger: Ledger) -> dict[str, Any]:
    """What a run did, as plain values. All but `operator_only` is the same whatever the input holds."""
    outcome = done.outcome
    secret = {
        "rows": outcome.rows,
        "observations": outcome.observations,
        "duplicates": outcome.duplicates,
        "refused": dict(sorted(outcome.refused.items())),
        "stages_that_differ_now": outcome.units_changed,
    }
    entries = ledger.stages(spec.account.name, spec.spec_id)
    periods = [
        {
            "period": period,
            "slots": sum(slot.period == period for slot in done.calendar.slots),
            "cells": len(spec.cells.region or ()),
            "stages": [
                {"share": plan.share, "sequence": entry.sequence, "rests_on": plan.rests_on}
                for entry in entries
                if entry.unit.period == period
                for plan in [plan_of(entry.unit)]
            ],
            "epsilon": float(levels.epsilon),
            "delta": 0.0 if levels.delta is None else float(levels.delta),
        }
        for period in done.calendar.periods
    ]
    return {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "periods": periods,
        "stages_new": sum(outcome.new.values()),
        "guarantee": levels_sentence(spec, levels),
        "files": [str(path) for path in done.files],
        "kafka": None if done.topic is None else str(done.topic),
        "operator_only": secret,
    }


def show_levels(summary: dict[str, Any], out: Console) -> None:
    """The summary as tables, with the operator's part last."""
    table = Table(title=f"{summary['name']} ({summary['spec_id']})", title_justify="left")
    for title in ("period", "slots", "cells", "stages", "epsilon", "delta"):
        table.add_column(title, justify="left" if title == "period" else "right")
    for each in summary["periods"]:
        numbers = (f"{each['slots']:,}", f"{each['cells']:,}", f"{len(each['stages'])}")
        table.add_row(each["period"], *numbers, f"{each['epsilon']:g}", f"{each['delta']:g}")
    out.print(table)
    out.print(f"Guarantee: {summary['guarantee']}", highlight=False)
    files = summary["files"]
    out.print(f"{len(files):,} files, first ... last:" if files else "no files")
    for path in dict.fromkeys([files[0], files[-1]] if files else []):
        out.print(f"  {path}", soft_wrap=True, highlight=False)
    if summary["kafka"]:
        out.print(f"the rows were sent to {summary['kafka']} too", soft_wrap=True, highlight=False)
    secret = summary["operator_only"]
    own = Table(title=OPERATOR_ONLY, title_justify="left")
    own.add_column("rows")
    own.add_column("number", justify="right")
    for name in ("rows", "observations", "duplicates", "stages_that_differ_now"):
        own.add_row({"rows": "read"}.get(name, name.replace("_", " ")), f"{secret[name]:,}")
    for reason, number in secret["refused"].items():
        own.add_row(f"refused: {reason}", f"{number:,}")
    out.print(own)


def show_check(checked: InputCheck, *, as_json: bool) -> None:
    """What `--check-input` found, all of it for the operator alone."""
    refused = dict(sorted(checked.outcome.refused.items()))
    if as_json:
        found = {"periods": [each._asdict() for each in checked.periods], "refused": refused}
        click.echo(msgspec.json.encode({"operator_only": {"rows": checked.outcome.rows} | found}).decode())
        return
    table = Table(title=OPERATOR_ONLY, title_justify="left")
    for title in ("period", "slots", "with observations", "observations"):
        table.add_column(title, justify="left" if title == "period" else "right")
    for each in checked.periods:
        table.add_row(each.period, f"{each.slots:,}", f"{each.slots_with_rows:,}", f"{each.rows:,}")
    out = console()
    out.print(table)
    out.print(f"{checked.outcome.rows:,} rows read; nothing was released, recorded or spent")
    for reason, number in refused.items():
        out.print(f"  {number:,} refused: {reason}", highlight=False)
