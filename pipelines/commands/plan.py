"""`hatstream plan`: forecasts of a release, without spending.

Names of columns begin with `>` for alignment to the right, and `|` where they must not wrap: see `table_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.commands import options
from pipelines.commands.terminal import console, progress_bars, table_of
from pipelines.companions import extension
from pipelines.errors import Report, UsageError
from pipelines.option_types import FiniteRange

if TYPE_CHECKING:
    from pipelines.account.location import AccountLocation
    from pipelines.plan.composed import ComposedTotal
    from pipelines.plan.counts import SampleCounts
    from pipelines.plan.forecast import Planned, Recount, StatisticPlan
    from pipelines.plan.levels import PlannedLevels
    from pipelines.plan.parts import PlannedPlaces
    from pipelines.plan.spans import SpanWorth
    from pipelines.specification import Specification

    CountsOf = Callable[[Specification, Report], tuple[SampleCounts | None, Recount | None]]
    """Gives counts, and how to count again in other cells and slots, where they are known and that is possible."""

_MOST_CHOSEN = 3  # mechanisms named per class of HATs; the others are added up
_LABEL = {"a later day": "", "the first day": "first day", "a week, if days are alike": "a week *"}  # by Total.days
_PREFIX_BY_KNOWN = {"at most": "<= ", "if alike": "if days are alike "}  # prefix by ComposedTotal.known


def _counts(counts_path: Path | None, synthetic: bool, pattern: str | None) -> CountsOf:
    """Returns a reader of the counts that options name."""

    def counts_of(spec: Specification, progress: Report) -> tuple[SampleCounts | None, Recount | None]:
        from pipelines.plan import counts as sources

        if sum((counts_path is not None, synthetic, pattern is not None)) > 1:
            raise UsageError("give one of --counts, --synthetic and --input")
        if counts_path is not None:
            return sources.read_counts(counts_path, spec.timetable), None  # a file cannot be counted anew
        if pattern is not None:
            count = sources.fullest_period(spec, pattern, progress)
            return count(spec), count  # the second counts anew, for another specification
        if not synthetic:
            return None, None  # then a plan of HATs takes typical counts
        sample = extension("made-up-day", "lab")(spec.timetable.zone)
        return sources.sample_counts(sample, spec), partial(sources.sample_counts, sample)

    return counts_of


counts_options = options.packed(
    "counts_of",
    _counts,
    click.option(
        "--counts",
        "counts_path",
        type=options.FILE,
        help="Counts of a period (several if slots are named by start): a .json list (one HAT), or a .csv, .jsonl or "
        ".parquet table with columns count, hat (or slot and cell), and for exact totals also slot and vehicle.",
    ),
    click.option("--synthetic", is_flag=True, help="Count a day of the made-up fleet of `hatstream demo`."),
    options.option(
        "input",
        help="Count your feed's fullest period. Where counts are secret, keep the output to yourself.",
        required=False,
    ),
)


@click.command()
@options.spec_option
@counts_options
@click.option(
    "--within",
    "within",
    default=2.0,
    show_default=True,
    type=FiniteRange(0, min_open=True),
    metavar="WIDTH",
    help="Report vehicles needed for an interval this wide to either side, in the value's unit.",
)
@options.account_options
@options.json_option
def plan(spec_path: Path, counts_of: CountsOf, within: float, location: AccountLocation, as_json: bool) -> None:
    """Forecast noise, bias, error, total privacy loss, and vehicles needed for an interval.

    It spends nothing and needs no ledger or key. It uses no measured speed, but counts (one of --counts, --synthetic
    and --input, or typical ones) and the specification; under mechanism "levels" the region, the fleet and the total.
    Once the account has released days by "levels", it also shows, from the ledger, how the newest of them turned out.

    \b
    Examples:
      hatstream plan --spec austin.toml --synthetic
      hatstream plan --spec austin.toml --input 'feed/*.csv'
      hatstream plan --spec austin.toml --counts counts.csv --json
    """
    from pipelines.plan.counts import typical_counts
    from pipelines.plan.forecast import plan_hats
    from pipelines.plan.levels import plan_levels
    from pipelines.runs.estimates import newest_day
    from pipelines.specification import foreseen
    from transforms.ledger.head import LedgerError

    spec = options.loaded(spec_path, quiet=as_json)
    with progress_bars(quiet=as_json) as report:
        counts, recount = counts_of(spec, report)
        planned: Planned | PlannedLevels
        if spec.is_learned:
            planned = plan_levels(spec, within, counts)
            show = partial(show_levels, planned)
        else:
            planned = plan_hats(spec, counts or typical_counts(), recount, report, within)
            show = partial(show_hats, planned)
    newest, beware = None, list(foreseen(spec, date.today()))
    try:
        newest = newest_day(spec, location)
    except LedgerError as error:
        beware.append(f"nothing is said of the account's released days: {error}")
    if as_json:
        document = {**msgspec.to_builtins(planned), "newest_day": newest, "beware": beware}
        click.echo(msgspec.json.encode(document).decode())
        return
    out = console()
    if newest is not None:
        out.print(newest.answer)
    show(out)
    _print_all([spec.trips_sentence] if spec.trips else [], out)
    _print_all([f"Beware: {warning}" for warning in beware], out)


def show_hats(plan: Planned, console: Console) -> None:
    """Shows the plan of a release under public counts."""
    console.print(plan.answer)
    console.print(f"{plan.name} ({plan.spec_id}): a plan; nothing was released or spent")
    console.print(f"Counts ({plan.hats:,} HAT{'s' if plan.hats > 1 else ''}): {plan.counts}")
    console.print(f"Forecast: {plan.forecast}")
    _print_all(map(_classes, plan.statistics), console)  # classes of HATs, by number of vehicles
    composed = plan.composed
    table = table_of("Composed total", "what adds up", ">HATs", ">epsilon")
    low, high = composed.epsilon_per_hat_least, composed.epsilon_per_hat_most
    table.add_row("one HAT", "1", f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}")
    of_slot, of_period = composed.most_hats_of_a_vehicle_in_a_slot, composed.most_hats_of_a_vehicle_in_a_period
    table.add_row("a vehicle in a slot, at most", _number(of_slot, "?"), _total(composed.vehicle_and_slot))
    table.add_row("a vehicle in the period, at most", _number(of_period, "?"), _total(composed.vehicle_and_period))
    table.add_row("the account in the period (sum of slot maxima)", "", _total(composed.debit_of_a_period))
    verdict = {True: "kept", False: "exceeded", None: "not known"}[composed.within_limit]
    table.add_row(f"the account's limit: {verdict}", "", f"{composed.account_limit:g}")
    console.print(table)
    columns = ("what differs between two feeds: the speeds of", ">|this release", ">|the whole account")
    table = table_of("One release, said in several ways: epsilon under counts-public", *columns)
    for guarantee in plan.guarantees:
        table.add_row(guarantee.unit, _total(guarantee.release), f"<= {guarantee.account:.4g}")
    console.print(table)
    console.print(plan.not_protected)
    console.print(_other_choices(plan))
    if (needs := plan.needs) is not None:
        table = table_of(
            f"Half of a HAT's 95 % interval by {needs.mechanism}, ± {needs.unit}, "
            "clipping at its worst: by vehicles in it",
            *("epsilon", *(f">|{number}" for number in needs.vehicles_in_a_hat)),
            *(f">±{needs.within:g}\nfrom", ">fewest, with"),
        )
        for need in needs.by_epsilon:
            best = "-" if need.best is None else f"{need.best_vehicles:,} {need.best}"
            halves, now = (f"{half:.1f}" for half in need.half_widths), " now" if need.as_specified else ""
            row = f"{need.epsilon:.3g}{now}", *halves, _number(need.vehicles), best
            table.add_row(*row, style="bold" if now else None)
        console.print(table)
        _print_all(needs.answers, console)
    _print_all([f"Note: {note}" for note in plan.notes], console)


def _classes(statistic: StatisticPlan) -> Table:
    """Makes a table of mechanisms and forecast errors, by vehicles in a HAT."""
    table = table_of(
        f"{statistic.statistic} by {statistic.mechanism}, by number of vehicles: medians in {statistic.unit}\n"
        "noise: scale; bias: of clipping, at most; error: forecast, absolute",
        *("vehicles", ">HATs", "mechanism", ">|m_UB", ">|noise", ">|bias", ">|error"),
    )
    for hat_class in statistic.classes:
        chosen, others = hat_class.chosen, hat_class.runners_up
        names = [f"{share['mechanism']} {_percent(share['share'])}" for share in chosen[:_MOST_CHOSEN]]
        if of_others := sum(share["share"] for share in chosen[_MOST_CHOSEN:]):
            names.append(f"others {_percent(of_others)}")
        table.add_row(
            hat_class.vehicles,
            f"{hat_class.hats:,}",
            chosen[0]["mechanism"] if len(chosen) == 1 else "\n".join(names),
            "-" if hat_class.m_ub is None else f"{hat_class.m_ub:g}",  # length of pseudo-users, where there are such
            f"{hat_class.noise_scale:.2f}",
            f"{hat_class.bias_bound:.2f}",
            Text(f"{hat_class.forecast_error:.2f}", "bold"),
            end_section=not others,
        )
        for index, candidate in enumerate(others, 1):
            row = ("", "", f"  then {candidate['mechanism']}", "", "", "", f"{candidate['forecast_error']:.2f}")
            table.add_row(*row, style="dim", end_section=index == len(others))
    return table


def _other_choices(plan: Planned) -> Table:
    """Makes a table of median errors and spending of the specified and other choices."""
    errors = [f">error of\n{statistic.statistic},\n{statistic.unit}" for statistic in plan.statistics]
    table = table_of(
        "What another choice would give: median error, epsilon, account's limit",
        *("choice", ">|HATs", ">median\nvehicles", *errors),
        *(">epsilon\nof HAT", ">|vehicle,\nperiod", ">|account,\nperiod"),
    )
    for choice in plan.choices:
        composed = choice.composed
        table.add_row(
            choice.choice,
            f"{choice.hats:,}",
            f"{choice.median_vehicles:g}",
            *(f"{error:.2f}" for error in choice.forecast_error.values()),
            f"{composed.epsilon_per_hat_least:.3g}",
            _total(composed.vehicle_and_period),
            _total(composed.debit_of_a_period) + (" over" if composed.within_limit is False else ""),
            style="bold" if choice.as_specified else None,
        )
    return table


def _percent(share: float) -> str:
    return "<1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _number(value: int | None, unknown: str = "-") -> str:
    return unknown if value is None else f"{value:,}"


def _total(total: ComposedTotal) -> str:
    return "?" if total.epsilon is None else f"{_PREFIX_BY_KNOWN.get(total.known, '')}{total.epsilon:.4g}"


def _print_all(shown: Iterable[str | Table], out: Console) -> None:
    for line in shown:
        out.print(line)


def show_levels(plan: PlannedLevels, console: Console) -> None:
    """Shows the plan of a `levels` specification."""
    console.print(plan.answer)
    console.print(f"{plan.name} ({plan.spec_id}): a plan; nothing was released or spent")
    console.print(
        f"Public facts: {plan.cells:,} cells x {plan.slots:,} slots, a fleet of {plan.vehicles:,}: "
        f"{plan.usual_vehicles:.3g} vehicles in the average HAT"
    )
    console.print(_totals(plan))
    console.print(
        "vehicles for: fewest in a HAT, for the interval of a HAT and of the mean of its cell's whole day; the fleet "
        "with which the average cell has the latter. -: no number of vehicles. (x): that HAT would be marked "
        "unreliable. * if its days are alike. Neighbours and earlier days mostly teach more; that is not promised."
    )
    console.print(_spans(plan.spans, plan.unit))
    a_day, specified = plan.spans[0], next(span for span in plan.spans if span.as_specified)
    console.print(
        f"On its day 7 the error is expected to be {specified.range_of(7)} {plan.unit}: the ends are of vehicles that "
        "drive alike, as few lines' buses do, and of taxis."
    )
    console.print(
        f"(x): such a day is expected to be held back. The city's true mean, which is secret, has an error of "
        f"{a_day.constant:.1f} where cities differ as usual; without noise {a_day.noiseless:.1f} would be left. "
        "Compare rows and days: the level itself depends on how often vehicles report (docs/release.md)."
    )
    _print_all(plan.answers, console)
    if plan.choices:
        table = table_of(
            f"Ways to release, the best first, by the root mean square error that is expected by reports, {plan.unit}",
            *("levels and their shares", ">bound, first day", ">later", ">error, first day", ">later"),
        )
        for rank, choice in enumerate(plan.choices):
            levels = ", ".join(f"{name} {share:g}" for name, share in choice.levels.items())
            numbers = *(f"{bound:g}" for bound in choice.bound), f"{choice.first:.2f}", f"{choice.later:.2f}"
            table.add_row(levels, *numbers, style=None if rank else "bold")
        console.print(table)
    if plan.places is not None:
        console.print(_places(plan.places, plan.unit))
        _print_all(plan.places.answers, console)
    console.print(f"Guarantee: {plan.claim}")
    if (counted := plan.operator_only) is not None:
        console.print(
            "FOR THE OPERATOR ALONE: what follows was counted, and these counts are secret. Do not publish it."
        )
        console.print(
            f"{counted.origin}: {counted.vehicles:,} vehicles ({plan.vehicles:,} are declared); one was in "
            f"{counted.hats_of_a_vehicle:.0f} HATs, {counted.cells_of_a_vehicle:.0f} cells and "
            f"{counted.slots_of_a_vehicle:.0f} slots on average."
        )
        table = table_of("HATs by number of vehicles", *(f">{name}" for name in counted.hats))
        table.add_row(*(f"{hats:,}" for hats in counted.hats.values()))
        console.print(table)
        console.print(
            "Take [fleet] from timetables or the register of vehicles, or from counts of days before the account "
            "began, not from days that will be released."
        )


def _totals(plan: PlannedLevels) -> Table:
    """Makes a table of half widths and vehicles needed, by total epsilon."""
    needed = (f"±{plan.within:g}\n{name}" for name in ("HAT", "cell", "fleet"))
    table = table_of(
        f"Half of a HAT's 95 % interval, ± {plan.unit}, by vehicles in it and by total of a vehicle and period",
        *("|total", *(f">|{number}" for number in (*plan.vehicles_in_a_hat, *needed))),
    )
    for total in plan.totals:
        span = _LABEL[total.days] or ("now" if total.as_specified else "")  # the days that the widths are of
        row = (
            f"{total.epsilon:.4g} {span}".strip(),
            *_in_brackets(total.half_widths, total.reliable),  # in brackets: of HATs that would be unreliable
            *map(_number, (total.hat_vehicles, total.place_vehicles, total.fleet)),
        )
        table.add_row(*row, style="bold" if total.as_specified else None)
    return table


def _in_brackets(numbers: Iterable[float], published: Iterable[bool]) -> list[str]:
    """Formats numbers; those of values that would be held back are in brackets."""
    return [f"{number:.1f}" if shown else f"({number:.1f})" for number, shown in zip(numbers, published, strict=True)]


def _spans(spans: Sequence[SpanWorth], value_unit: str) -> Table:
    """Makes a table of expected errors, by number of days that share the total."""
    from pipelines.plan.spans import DAY_NUMBERS

    names = ("days", "released", "a day's\nepsilon", *(f"day\n{number}" for number in DAY_NUMBERS))
    table = table_of(
        f"This total as that of several days: mean error by reports that is expected, {value_unit}, by released day",
        *(f">|{name}" for name in names),
    )
    for span in spans:
        published = [span.first_published is not None and number >= span.first_published for number in DAY_NUMBERS]
        row = f"{span.days:,}", f"{span.served:,}", f"{span.epsilon_a_day:.3g}"  # in brackets: days held back
        table.add_row(*row, *_in_brackets(span.error, published), style="bold" if span.as_specified else None)
    return table


def _places(plan: PlannedPlaces, value_unit: str) -> Table:
    """Makes a table of half widths and usable shares, by places and day."""
    table = table_of(
        f"A map of places, for {plan.share:g} of the total: half width that half of all reports have at most, "
        f"± {value_unit}, and reports at places that are ok, by released day",
        *("|places", "|traffic", *(f">|day\n{number}" for number in plan.days)),
    )
    for kind in plan.kinds:
        shown = (f"{half:.0f}\n{100 * ok:.0f}%" for half, ok in zip(kind.half_width, kind.ok, strict=True))
        row = f"{kind.what}\n{kind.places:,}", kind.traffic, *shown
        table.add_row(*row, style="bold" if kind.as_specified else None)
    return table
