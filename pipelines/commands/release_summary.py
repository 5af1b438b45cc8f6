"""What `hatstream release` says of a finished run, and of an input that it only looked at."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from pipelines.account.guarantee import Loss, bounds_of_account, sentence
from pipelines.account.location import AccountLocation
from pipelines.account.spending import spending
from pipelines.commands.levels_summary import (
    OPERATOR_ONLY,
    rows_table,
    show_files,
    show_left_out,
)
from pipelines.commands.options import console
from pipelines.commands.terminal import table_of
from pipelines.kinds import of_kind
from pipelines.outcome import Spend
from pipelines.runs.release import FinishedRun
from pipelines.specification import Specification
from transforms.public import Fact, Operator, Summary
from transforms.recorded.codec import CountedPart

if TYPE_CHECKING:  # it imports Beam
    from pipelines.runs.check_input import InputCheck


def tell(spec: Specification, done: FinishedRun, place: AccountLocation, *, as_json: bool) -> None:
    """Prints what a run did: tables for people, or one JSON document for programs."""
    summary: Summary = of_kind(spec, "summary")(spec, done, place)
    if as_json:
        click.echo(summary.json())
    else:
        of_kind(spec, "shown")(summary.plain(), console())


def summarise(spec: Specification, done: FinishedRun, place: AccountLocation) -> Summary:
    """Sums up what a run did where counts are public: printed as tables for people and as it is for programs."""
    outcome = done.outcome.opened()
    wanted = {slot.start_s for slot in done.calendar.slots}
    periods, hat, bound = [], Fraction(0), Loss()
    for period in done.calendar.periods:
        units = [unit for unit in place.ledger.counted(spec.spec_id, period) if unit.slot_s in wanted]
        debits, spend = spending(place.ledger, spec, period)
        periods.append(_of_period(spec, period, units, debits.epsilon, spend))
        hat = max([hat, *(unit.rate for unit in units)])
        bound = max(bound, debits if spend is None else Loss(spend.most))
    public: dict[str, Fact] = {
        "name": spec.name,
        "spec_id": spec.spec_id,
        "rows": outcome.rows,
        "observations": outcome.observations,
        "duplicates": outcome.duplicates,
        "refused": dict(sorted(outcome.refused.items())),
        "files_left_out": outcome.left_out,
        "left_out_by_the_cap": outcome.capped,
        "periods": periods,
        "slots_new": done.new,
        "slots_that_differ_now": outcome.units_changed,
        "guarantee": sentence(spec, bounds_of_account(place.ledger, spec.account.name), hat, bound),
        "files": [str(path) for path in done.files],
        "kafka": None if done.topic is None else str(done.topic),
    }
    return Summary(public)


def _of_period(
    spec: Specification, period: str, units: Sequence[CountedPart], debits: Fraction, spend: Spend | None
) -> dict[str, Fact]:
    """Sums up a period. units: those of the range, as the ledger has them. debits, spend: as `spending` says them."""
    released, empty = sum(len(unit.released) for unit in units), sum(unit.empty for unit in units)
    return {
        "period": period,
        "slots": len({unit.slot_s for unit in units}),
        "slots_with_data": _with_data(spec, units),
        "hats": released // len(spec.statistics),
        "no_data": empty // len(spec.statistics),
        "constants": sum(unit.constants for unit in units),
        "sum_of_slot_maxima": float(debits),
        "most_spent_by_a_vehicle": None if spend is None else float(spend.most),
        "spent_by_half_of_vehicles_at_most": None if spend is None else float(spend.median),
        "spent_by_nine_in_ten_at_most": None if spend is None else float(spend.p90),
    }


def _with_data(spec: Specification, units: Sequence[CountedPart]) -> int | None:
    """Counts the slots with a HAT that has data; not told where counts are secret."""
    if not spec.counts_are_public:
        return None
    return len({unit.slot_s for unit in units if unit.empty < len(unit.released)})


def show(summary: dict[str, Any], out: Console) -> None:
    """Shows the summary as tables, the guarantee, and where the files are."""
    rows = rows_table(f"{summary['name']} ({summary['spec_id']})", summary)
    if summary["left_out_by_the_cap"]:
        rows.add_row("observations left out by the cap", f"{summary['left_out_by_the_cap']:,}")
    out.print(rows)
    show_left_out(summary, out)
    out.print(_spending_table(summary["periods"]))
    for period in summary["periods"]:
        _show_period(period, out)
    if any(period["most_spent_by_a_vehicle"] is None for period in summary["periods"]):
        out.print(
            "Not known: other runs recorded slots of the period; the sum of slot maxima bounds what a vehicle spent."
        )
    out.print(f"Guarantee: {summary['guarantee']}")
    if summary["slots_that_differ_now"]:
        out.print(
            f"{summary['slots_that_differ_now']:,} slots were released before from other input or by other code; "
            "what was released then stands."
        )
    show_files(summary, out)


def _spending_table(periods: Sequence[dict[str, Any]]) -> Table:
    numbers = ("slots", "HATs", "no data", "sum of slot maxima", "most spent by a vehicle")
    spent = table_of(None, None, ("period",), numbers)
    for period in periods:
        spent.add_row(
            period["period"],
            f"{period['slots']:,}",
            f"{period['hats']:,}",
            f"{period['no_data']:,}",
            f"{period['sum_of_slot_maxima']:g}",
            "not known" if period["most_spent_by_a_vehicle"] is None else f"{period['most_spent_by_a_vehicle']:g}",
        )
    return spent


def _show_period(period: dict[str, Any], out: Console) -> None:
    if period["slots_with_data"] is not None:
        out.print(f"{period['period']}: {period['slots_with_data']} of {period['slots']} slots have data.")
    if period["constants"]:
        out.print(f"{period['period']}: {period['constants']:,} values are constants, which cost and say nothing.")
    if period["most_spent_by_a_vehicle"] is not None:
        half, most = period["spent_by_half_of_vehicles_at_most"], period["spent_by_nine_in_ten_at_most"]
        out.print(f"{period['period']}: half of the vehicles spent at most {half:g}, nine in ten at most {most:g}.")


def show_check(checked: "InputCheck", *, as_json: bool) -> None:
    """Shows what `--check-input` found, all of it for the operator alone."""
    refused = dict(sorted(checked.outcome.refused.items()))
    if as_json:
        ids = checked.merged._asdict()
        facts: dict[str, Fact] = {
            "periods": [period._asdict() for period in checked.periods],
            "refused": refused,
            "vehicle_ids": ids,
            "speeds": checked.shares._asdict(),
        }
        click.echo(Summary({}, Operator({"rows": checked.outcome.rows} | facts)).json())
        return
    has_places = any(period.at_places is not None for period in checked.periods)
    numbers = ("slots", "with observations", "observations", *(["at places"] if has_places else []))
    table = table_of(OPERATOR_ONLY, None, ("period",), numbers)
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
    for line in (*checked.merged.advice, *checked.shares.told):
        out.print(f"  {line}", soft_wrap=True)
