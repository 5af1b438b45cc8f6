"""What `hatstream release` says of a `levels` release: public facts apart from what only the operator may see."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pipelines.account.guarantee import bounds_of_account, levels_sentence
from pipelines.account.location import AccountLocation
from pipelines.commands.terminal import table_of
from pipelines.outcome import Outcome
from pipelines.runs.release import FinishedRun
from pipelines.specification import Specification
from transforms.public import EntryNumber, Fact, Operator, Summary
from transforms.recorded.stage_plan import numbers_of, rests_on
from transforms.recorded.units import StageEntry, counted

OPERATOR_ONLY = "for the operator alone: these numbers depend on how many vehicles reported"


def summarise_levels(spec: Specification, done: FinishedRun, place: AccountLocation) -> Summary:
    """Sums up what a run did, as plain values. What is public is the same whatever the input holds."""
    levels, entries = spec.by_levels, place.ledger.stages(spec.account.name, spec.spec_id)
    same_for_all: dict[str, Fact] = {
        "cells": len(spec.cells.region or ()),
        "delta": 0.0 if levels.delta is None else float(levels.delta),
    }
    slots = Counter(slot.period for slot in done.calendar.slots)
    public: dict[str, Fact] = {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "periods": [
            {
                "period": period,
                "slots": slots[period],
                "stages": _stages_of(period, entries, counted(entries).__getitem__),
                "epsilon": float(levels.epsilon_of(period)),
                **same_for_all,
            }
            for period in done.calendar.periods
        ],
        "stages_new": done.new,
        "guarantee": levels_sentence(spec, bounds_of_account(place.ledger, spec.account.name)),
        "files": [str(path) for path in done.files],
        "kafka": None if done.topic is None else str(done.topic),
    }
    return Summary(public, Operator(_operators_part(done.outcome.opened(), done.calendar.periods, entries)))


def _operators_part(outcome: Outcome, periods: Sequence[str], entries: Sequence[StageEntry]) -> dict[str, Fact]:
    return {
        "rows": outcome.rows,
        "observations": outcome.observations,
        "duplicates": outcome.duplicates,
        "refused": dict(sorted(outcome.refused.items())),
        "files_left_out": outcome.left_out,
        "stages_that_differ_now": outcome.units_changed,
        # with the ledger's own sequence numbers, which audit events shift
        "entries": {period: _stages_of(period, entries, int) for period in periods},
    }


def _stages_of(
    period: str, entries: Sequence[StageEntry], number: Callable[[EntryNumber], int]
) -> list[dict[str, Fact]]:
    """Lists a period's stages in their order. number: how they, and those that they rest on, are counted."""
    return [
        {
            "share": str(numbers_of(entry.unit).share),
            "sequence": number(entry.sequence),
            "rests_on": number(rests_on(entry.unit)),
        }
        for entry in entries
        if entry.unit.period == period
    ]


def show_levels(summary: dict[str, Any], out: Console) -> None:
    """Shows the summary as tables, with the operator's part last."""
    columns = ("slots", "cells", "stages", "epsilon", "delta")
    table = table_of(f"{summary['name']} ({summary['spec_id']})", None, ("period",), columns)
    for period in summary["periods"]:
        numbers = (f"{period['slots']:,}", f"{period['cells']:,}", f"{len(period['stages'])}")
        table.add_row(period["period"], *numbers, f"{period['epsilon']:g}", f"{period['delta']:g}")
    out.print(table)
    out.print(f"Guarantee: {summary['guarantee']}")
    show_files(summary, out)
    secret = summary["operator_only"]
    own = rows_table(OPERATOR_ONLY, secret)
    own.add_row("stages that differ now", f"{secret['stages_that_differ_now']:,}")
    out.print(own)
    if summary["stages_new"] and not secret["observations"]:
        out.print(
            "No row was usable: what this run recorded knows of no vehicle, and stays. Look at the input "
            "(--check-input) before you release another day."
        )
    show_left_out(secret, out)


def rows_table(title: str, counted: dict[str, Any]) -> Table:
    """Tabulates what was read and what became of it."""
    rows = table_of(title, None, ("rows",), ("number",))
    for name in ("rows", "observations", "duplicates"):
        rows.add_row({"rows": "read"}.get(name, name), f"{counted[name]:,}")
    for reason, number in counted["refused"].items():
        rows.add_row(f"refused: {reason}", f"{number:,}")
    return rows


def show_left_out(counted: dict[str, Any], out: Console) -> None:
    """Names the files that were left out."""
    for file in counted["files_left_out"]:
        out.print(f"left out: {file}", soft_wrap=True)


def show_files(summary: dict[str, Any], out: Console) -> None:
    """Says where the results are."""
    files = summary["files"]
    out.print(f"{len(files):,} files, first ... last:" if files else "no files")
    for path in dict.fromkeys([files[0], files[-1]] if files else []):
        out.print(f"  {path}", soft_wrap=True)
    if summary["kafka"]:
        out.print(f"the rows were sent to {summary['kafka']} too", soft_wrap=True)
