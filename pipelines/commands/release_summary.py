"""Summary of a finished run or a checked input.

Names of columns begin with `>` for alignment to the right, and `|` where they must not wrap: see `table_of`. `Operator`
wraps what the operator alone may see, and `opened` unwraps it. A HAT's plan is None without data.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
from rich.console import Console

from dpops.levels.parts import MOST_TIMES
from pipelines.account.guarantee import Loss, bounds_of_account, levels_sentence, sentence, spending
from pipelines.account.location import AccountLocation
from pipelines.commands.terminal import console, table_of
from pipelines.outcome import Outcome
from pipelines.runs.estimates import answer_afterwards
from pipelines.runs.release import FinishedRun
from pipelines.specification import Specification
from transforms.places.ground import texts_of
from transforms.public import EntryNumber, Fact, Operator, Summary
from transforms.recorded.stage_plan import bare_stage, rests_on
from transforms.recorded.units import HatUnit, all_of, counted
from transforms.sinks.published import HATS, READERS

if TYPE_CHECKING:
    from pipelines.runs.check_input import InputCheck


def print_summary(spec: Specification, run: FinishedRun, location: AccountLocation, *, as_json: bool) -> None:
    """Prints a run's summary, as tables or JSON."""
    summarise, show = (summarise_levels, show_levels) if spec.is_learned else (summarise_hats, show_hats)
    summary = summarise(spec, run, location)
    if as_json:
        click.echo(summary.json())
    else:
        show(summary.plain(), console())


def summarise_hats(spec: Specification, run: FinishedRun, location: AccountLocation) -> Summary:
    """Summarises a run with public counts: periods from the ledger, rows from counters."""
    outcome = run.outcome.opened()
    slots, statistics = {slot.start_s for slot in run.calendar.slots}, len(spec.statistics)
    # Largest epsilon of a HAT, and loss of a period, for the guarantee.
    periods, hat_epsilon, most_loss, recorded = list[dict[str, Fact]](), Fraction(0), Loss(), list[HatUnit]()
    for period in run.calendar.periods:
        released = all_of(HatUnit, location.ledger.released(spec.spec_id, period))
        units = [unit for unit in released if unit.slot_s in slots]
        recorded += units
        plans = [hat.plan for unit in units for hat in unit.released]  # one for each statistic; None without data
        debits, spend = spending(location.ledger, spec, period)
        with_data = {unit.slot_s for unit in units if any(hat.plan is not None for hat in unit.released)}
        periods.append(
            {
                "period": period,
                "slots": len({unit.slot_s for unit in units}),
                "slots_with_data": len(with_data) if spec.counts_are_public else None,
                "hats": len(plans) // statistics,
                "no_data": plans.count(None) // statistics,
                "constants": sum(plan is not None and plan.get("epsilon") == "0" for plan in plans),
                "sum_of_slot_maxima": float(debits.epsilon),
                "most_spent_by_a_vehicle": None if spend is None else float(spend.most),
                "spent_by_half_of_vehicles_at_most": None if spend is None else float(spend.median),
                "spent_by_nine_in_ten_at_most": None if spend is None else float(spend.p90),
            }
        )
        hat_epsilon = max([hat_epsilon, *(unit.per_hat.epsilon for unit in units)])
        most_loss = max(most_loss, debits if spend is None else Loss(spend.most))  # by epsilon, its first field
    return Summary(
        {
            "name": spec.name,
            "spec_id": spec.spec_id,
            **_rows_of(outcome),
            "left_out_by_the_cap": outcome.capped,
            "periods": periods,
            "slots_new": run.new,
            "slots_that_differ_now": outcome.units_changed,
            "guarantee": sentence(spec, bounds_of_account(location.ledger, spec.account.name), hat_epsilon, most_loss),
            **_where(spec, run, [(unit.slot_s, [hat.cell for hat in unit.released]) for unit in recorded]),
        }
    )


def _rows_of(outcome: Outcome) -> dict[str, Fact]:
    """Lists a run's numbers of rows by summary keys."""
    return {
        "rows": outcome.rows,
        "observations": outcome.observations,
        "duplicates": outcome.duplicates,
        "refused": dict(sorted(outcome.refused.items())),
        "files_left_out": outcome.left_out,
    }


def _where(spec: Specification, run: FinishedRun, slots: Iterable[tuple[int, Collection[str]]]) -> dict[str, Fact]:
    """Lists files and topic, counts HATs without a trip. slots: start and cells."""
    facts: dict[str, Fact] = {"files": [str(path) for path in run.files]}
    facts["kafka"] = None if run.topic is None else str(run.topic)
    if spec.trips is not None:  # else `served_cells` is None
        served = [(cells, spec.served_cells(start_s) or ()) for start_s, cells in slots]  # all cells, those with a trip
        facts["without_trip"] = sum(cell not in with_trip for cells, with_trip in served for cell in cells)
    return facts


def show_hats(summary: dict[str, Any], console: Console) -> None:
    """Shows a run's summary, its guarantee and its files."""
    extras = {}
    if summary["left_out_by_the_cap"]:
        extras["observations left out by the cap"] = summary["left_out_by_the_cap"]
    show_rows(f"{summary['name']} ({summary['spec_id']})", summary, extras, console)
    numbers = (">slots", ">HATs", ">no data", ">sum of slot maxima", ">most spent by a vehicle")
    spent = table_of(None, "|period", *numbers)  # under the table above
    periods = summary["periods"]
    for period in periods:
        largest = period["most_spent_by_a_vehicle"]
        row = (period["period"], *(f"{period[name]:,}" for name in ("slots", "hats", "no_data")))
        spent.add_row(*row, f"{period['sum_of_slot_maxima']:g}", "not known" if largest is None else f"{largest:g}")
    console.print(spent)
    for period in periods:
        name = period["period"]
        if period["slots_with_data"] is not None:
            console.print(f"{name}: {period['slots_with_data']} of {period['slots']} slots have data.")
        if period["constants"]:
            console.print(f"{name}: {period['constants']:,} values are constants, which cost and say nothing.")
        if period["most_spent_by_a_vehicle"] is not None:
            median, p90 = period["spent_by_half_of_vehicles_at_most"], period["spent_by_nine_in_ten_at_most"]
            console.print(f"{name}: half of the vehicles spent at most {median:g}, nine in ten at most {p90:g}.")
    if any(period["most_spent_by_a_vehicle"] is None for period in periods):
        console.print(
            "Unknown: other runs recorded slots of the period; the sum of slot maxima bounds what a vehicle spent."
        )
    console.print(f"Guarantee: {summary['guarantee']}")
    if summary["slots_that_differ_now"]:
        console.print(
            f"{summary['slots_that_differ_now']:,} slots were released before from other input or by other code; "
            "what was released then stands."
        )
    show_files(summary, console)


def show_check(checked: "InputCheck", *, as_json: bool) -> None:
    """Shows the result of `--check-input`, for the operator only."""
    refused = dict(sorted(checked.outcome.refused.items()))
    if as_json:
        facts: dict[str, Fact] = {
            "periods": [period._asdict() for period in checked.periods],
            "refused": refused,
            "vehicle_ids": checked.merged._asdict(),  # number of ids, and of those that other forms of ids would merge
            "speeds": checked.shares._asdict(),  # numbers of reports with implausible speeds
        }
        click.echo(Summary(public={}, operator_only=Operator({"rows": checked.outcome.rows} | facts)).json())
        return
    has_places = any(period.at_places is not None for period in checked.periods)
    numbers = (">slots", ">with observations", ">observations", *([">at places"] if has_places else []))
    table = table_of(OPERATOR_ONLY, "|period", *numbers)
    for period in checked.periods:
        counts = (period.slots, period.slots_with_rows, period.rows, period.at_places)
        table.add_row(period.period, *(f"{count:,}" for count in counts if count is not None))
    out = console()
    out.print(table)
    out.print(f"{checked.outcome.rows:,} rows read; nothing was released, recorded or spent")
    for reason, number in refused.items():
        out.print(f"  {number:,} refused: {reason}")
    if checked.outcome.duplicates:
        out.print(f"  {checked.outcome.duplicates:,} duplicates: of the same vehicle and time, of which one counts")
    for line in (*checked.merged.advice, *checked.shares.sentences):
        out.print(f"  {line}", soft_wrap=True)


OPERATOR_ONLY = "for the operator alone: these numbers depend on how many vehicles reported"


def summarise_levels(spec: Specification, run: FinishedRun, location: AccountLocation) -> Summary:
    """Summarises a run of `levels`: a public part, and the operator's."""
    from transforms.releases.periods.stages import read_unit

    levels, entries = spec.by_levels, location.ledger.stages(spec.account.name, spec.spec_id)
    first_stages = {entry.unit.period: entry.unit for entry in entries if entry.unit.stage == 0}
    region = spec.cells.region or ()
    slots, outcome = Counter(slot.period for slot in run.calendar.slots), run.outcome.opened()

    def stages_of(period: str, number: Callable[[EntryNumber], int]) -> list[dict[str, Fact]]:
        """Lists a period's stages. number: maps sequence numbers to shown ones; 0: none."""
        return [
            {
                "share": str(bare_stage(entry.unit).share),  # bare: decoded without its HATs, which are not shown
                "sequence": number(entry.sequence),
                "rests_on": number(rests_on(entry.unit)),
            }
            for entry in entries
            if entry.unit.period == period
        ]

    tables: dict[str, list[pa.Table]] = {HATS: [], "days": []}  # rows of the run's files, in one format
    for path in run.files:
        name = path.name.partition("-")[0]  # the product, with which a file's name begins
        if path.suffix == run.files[0].suffix and name in tables:
            tables[name].append(READERS[path.suffix[1:]](path).select(["cell", "slot_start", "status"]))
    has_rows = all(tables.values())
    usable = answer_afterwards(spec, location, *map(pa.concat_tables, tables.values())) if has_rows else ""
    public: dict[str, Fact] = {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "periods": [
            {
                "period": period,
                "slots": slots[period],
                "stages": stages_of(period, counted(entries).__getitem__),  # renumbered: gaps show audit events
                "epsilon": float(levels.epsilon_of(period)),
                "cells": len(region),
                "delta": float(levels.delta or 0),
            }
            for period in run.calendar.periods
        ],
        "stages_new": run.new,
        "guarantee": levels_sentence(spec, bounds_of_account(location.ledger, spec.account.name)),
        "usable": usable,
        **_where(spec, run, [(slot.start_s, texts_of(region)) for slot in run.calendar.slots]),
    }
    secret: dict[str, Fact] = {
        **_rows_of(outcome),
        "beyond_the_fleet": [
            period
            for period in run.calendar.periods
            if period in first_stages and levels.shows_too_many(read_unit(first_stages[period], region))
        ],
        "stages_that_differ_now": outcome.units_changed,
        # with the ledger's own sequence numbers, which audit events shift
        "entries": {period: stages_of(period, int) for period in run.calendar.periods},
    }
    return Summary(public, Operator(secret))


def show_levels(summary: dict[str, Any], console: Console) -> None:
    """Shows the summary as tables, the operator's part last."""
    title = f"{summary['name']} ({summary['spec_id']})"
    table = table_of(title, "|period", ">slots", ">cells", ">stages", ">epsilon", ">delta")
    for period in summary["periods"]:
        numbers = (f"{period['slots']:,}", f"{period['cells']:,}", f"{len(period['stages'])}")
        table.add_row(period["period"], *numbers, f"{period['epsilon']:g}", f"{period['delta']:g}")
    console.print(table)
    if summary["usable"]:
        console.print(summary["usable"])
    console.print(f"Guarantee: {summary['guarantee']}")
    show_files(summary, console)
    secret = summary["operator_only"]
    show_rows(OPERATOR_ONLY, secret, {"stages that differ now": secret["stages_that_differ_now"]}, console)
    if secret["beyond_the_fleet"]:
        console.print(
            f"Released weights show over {MOST_TIMES} times the vehicles that [fleet] declares, on "
            f"{', '.join(secret['beyond_the_fleet'])}: correct it, for levels and plans rest on it, or look whether "
            "input.columns.vehicle names vehicles (--check-input)."
        )
    if summary["stages_new"] and not secret["observations"]:
        console.print(
            "No row was usable: what this run recorded holds no vehicle, and stays. Look at the input "
            "(--check-input) before you release another day."
        )


def show_rows(title: str, row_counts: dict[str, Any], extras: dict[str, int], console: Console) -> None:
    """Prints read, accepted and refused rows, `extras` by name, and skipped files."""
    rows = table_of(title, "|rows", ">number")
    numbers = {"read": row_counts["rows"]} | {name: row_counts[name] for name in ("observations", "duplicates")}
    numbers |= {f"refused: {reason}": number for reason, number in row_counts["refused"].items()} | extras
    for name, number in numbers.items():
        rows.add_row(name, f"{number:,}")
    console.print(rows)
    for file in row_counts["files_left_out"]:
        console.print(f"left out: {file}", soft_wrap=True)


def show_files(summary: dict[str, Any], console: Console) -> None:
    """Prints the locations of the results."""
    files = summary["files"]
    if number := summary.get("without_trip"):
        console.print(f"{number:,} rows of hours without a trip (slot.trips) are left out.")
    console.print(f"{len(files):,} files, first ... last:" if files else "no files")
    for path in dict.fromkeys(files[:1] + files[-1:]):
        console.print(f"  {path}", soft_wrap=True)
    if summary["kafka"]:
        console.print(f"the rows were sent to {summary['kafka']} too", soft_wrap=True)
