"""`hatstream plan`: what a specification would give, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.commands.options import console, json_option, loaded, option, packed, progress_bars, spec_option
from pipelines.errors import UsageError
from pipelines.finite_range import FiniteRange
from pipelines.kinds import of_kind
from pipelines.progress import Report

if TYPE_CHECKING:
    from pipelines.plan import counts as sources
    from pipelines.plan.composed import Composed, ComposedTotal
    from pipelines.plan.forecast import HatClass, OtherChoice, Planned, Recount, StatisticPlan
    from pipelines.plan.guarantees import Guarantee
    from pipelines.plan.needs import MechanismNeeds
    from pipelines.specification import Specification

_MOST_CHOSEN = 3
_KNOWN = {"at most": "<= ", "if alike": "if days are alike "}


@dataclass(frozen=True)
class AskedCounts:
    """Which counts to plan for: of a file, of a made-up day, of a feed, or none of them."""

    counts_path: Path | None
    synthetic: bool
    pattern: str | None

    def of(self, spec: Specification, progress: Report) -> tuple[sources.SampleCounts, Recount | None] | None:
        """Takes the counts, and says how to count again in other cells and slots. Raises UsageError where they are too
        many."""
        from pipelines.plan import counts as sources
        from pipelines.plan.feed import fullest_period

        if sum((self.counts_path is not None, self.synthetic, self.pattern is not None)) > 1:
            raise UsageError("give one of --counts, --synthetic and --input")
        if self.counts_path is not None:
            return sources.read_counts(self.counts_path, spec.timetable), None
        if self.pattern is not None:
            feed = fullest_period(spec, self.pattern, progress)
            return feed.counts(spec), feed.counts
        if not self.synthetic:
            return None
        sample = sources.sample_day(spec)
        return sources.sample_counts(sample, spec), partial(sources.sample_counts, sample)


counts_options = packed(
    "asked",
    AskedCounts,
    click.option(
        "--counts",
        "counts_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Counts: a .json list (one HAT), or a .csv, .jsonl or .parquet table with columns count, hat (or slot and "
        "cell) and, so that totals are exact, slot and vehicle. Of one period, or with slots named by their start.",
    ),
    click.option("--synthetic", is_flag=True, help="Count a day of the made-up fleet of `hatstream demo`."),
    option(
        "input",
        help="Count your own feed: its fullest period. For the operator alone where counts are secret.",
        required=False,
    ),
)


@click.command()
@spec_option
@counts_options
@click.option(
    "--within",
    "within_kmh",
    default=2.0,
    show_default=True,
    type=FiniteRange(0, min_open=True),
    metavar="KMH",
    help="Say how many vehicles an interval of so many km/h to either side needs.",
)
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder for the chart, half-widths.png."
)
@json_option
def plan(
    spec_path: Path,
    asked: AskedCounts,
    within_kmh: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Forecast noise, bias, error and composed total, and how many vehicles an interval of ±2 km/h needs.

    It spends nothing, needs no ledger and no key, and no speed decides anything: counts, U, epsilon and speed.prior do;
    under mechanism "levels" the region, the fleet and the total.

    \b
    Examples:
      hatstream plan --spec austin.toml --synthetic
      hatstream plan --spec austin.toml --input 'feed/*.csv' --output build
      hatstream plan --spec austin.toml --counts counts.csv --json
    """
    from pipelines.specification.foreseen import foreseen
    from transforms.errors import require

    if output is not None:
        require("matplotlib")
    spec = loaded(spec_path, quiet=as_json)
    with progress_bars(quiet=as_json) as report:
        given = asked.of(spec, report)
        made: Made = of_kind(spec, "plan")(spec, within_kmh, given, report)
        picture = None if output is None or made.draw is None else made.draw(output)
    _tell(made, picture, as_json, foreseen(spec, date.today()))


class Made(NamedTuple):
    """A plan. show: its tables. draw: its chart, into a folder; None where it has none."""

    planned: msgspec.Struct
    show: Callable[[Console], None]
    draw: Callable[[Path], Path] | None


def plan_hats(
    spec: Specification, within_kmh: float, given: tuple[sources.SampleCounts, Recount | None] | None, report: Report
) -> Made:
    """Plans a release of each HAT by itself. given: counts, and how to count again; None for typical ones."""
    from pipelines.plan import counts as sources
    from pipelines.plan.forecast import plan
    from pipelines.plan.needs import needs_of

    counts, recount = given or (sources.typical_counts(), None)
    planned = plan(spec, counts, recount, report)
    needs = needs_of(spec, within_kmh, Fraction(planned.composed.epsilon_per_hat_least))
    planned = msgspec.structs.replace(planned, needs=needs)
    draw = None if needs is None else partial(_draw, spec, within_kmh, needs)
    return Made(planned, partial(show, planned), draw)


def plan_levels(
    spec: Specification, within_kmh: float, given: tuple[sources.SampleCounts, Recount | None] | None, _: Report
) -> Made:
    """Plans a release by `levels`. given: counts, which only the operator sees."""
    from pipelines.commands.plan_needs import show_levels
    from pipelines.plan import levels

    planned = levels.plan_levels(spec, within_kmh, given[0] if given else None)
    return Made(planned, partial(show_levels, planned), partial(_draw, spec, within_kmh, None))


def _draw(spec: Specification, within_kmh: float, needs: MechanismNeeds | None, folder: Path) -> Path:
    from pipelines.plan.chart import draw_plan  # and matplotlib with it

    return draw_plan(spec, within_kmh, needs, folder)


def _tell(made: Made, picture: Path | None, as_json: bool, beware: tuple[str, ...]) -> None:
    if as_json:
        click.echo(msgspec.json.encode({**msgspec.to_builtins(made.planned), "beware": beware}).decode())
        return
    out = console()
    made.show(out)
    for told in beware:
        out.print(f"Beware: {told}")
    if picture is not None:
        out.print(f"The chart: {picture}")


def show(planned: Planned, out: Console) -> None:
    """Shows the plan as tables."""
    from pipelines.commands.plan_needs import show_needs

    out.print(f"{planned.name} ({planned.spec_id}): a plan; nothing was released or spent")
    out.print(f"Counts ({planned.hats:,} HAT{'s' if planned.hats > 1 else ''}): {planned.counts}")
    out.print(f"Forecast: {planned.forecast}")
    for statistic in planned.statistics:
        out.print(_classes(statistic))
    out.print(_composed(planned.composed))
    out.print(_guarantees(planned.guarantees))
    out.print(planned.not_protected)
    out.print(_choices(planned))
    if planned.needs is not None:
        show_needs(planned.needs, out)
    for note in planned.notes:
        out.print(f"Note: {note}")


def _classes(statistic: StatisticPlan) -> Table:
    table = _table(
        f"{statistic.statistic} by {statistic.mechanism}, by number of vehicles: medians in {statistic.unit}\n"
        "noise: scale; bias: of clipping, at most; error: forecast, absolute"
    )
    table.add_column("vehicles")
    table.add_column("HATs", justify="right")
    table.add_column("mechanism", overflow="fold")
    for title in ("m_UB", "noise", "bias", "error"):
        table.add_column(title, justify="right", no_wrap=True)
    for hat_class in statistic.classes:
        table.add_row(
            hat_class.vehicles,
            f"{hat_class.hats:,}",
            _chosen(hat_class),
            "-" if hat_class.m_ub is None else f"{hat_class.m_ub:g}",
            _short(hat_class.noise_scale),
            _short(hat_class.bias_bound),
            Text(_short(hat_class.forecast_error), "bold"),
            end_section=not hat_class.runners_up,
        )
        for index, other in enumerate(hat_class.runners_up, 1):
            last = index == len(hat_class.runners_up)
            row = ("", "", f"  then {other.mechanism}", "", "", "", _short(other.forecast_error))
            table.add_row(*row, style="dim", end_section=last)
    return table


def _chosen(hat_class: HatClass) -> str:
    if len(hat_class.chosen) == 1:
        return hat_class.chosen[0].mechanism
    lines = [f"{share.mechanism} {_percent(share.share)}" for share in hat_class.chosen[:_MOST_CHOSEN]]
    rest = sum(share.share for share in hat_class.chosen[_MOST_CHOSEN:])
    return "\n".join([*lines, *([f"others {_percent(rest)}"] if rest else [])])


def _composed(composed: Composed) -> Table:
    table = _table("Composed total")
    table.add_column("what adds up")
    table.add_column("HATs", justify="right")
    table.add_column("epsilon", justify="right")
    low, high = composed.epsilon_per_hat_least, composed.epsilon_per_hat_most
    table.add_row("one HAT", "1", f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}")
    of_slot, of_period = composed.most_hats_of_a_vehicle_in_a_slot, composed.most_hats_of_a_vehicle_in_a_period
    table.add_row("a vehicle in a slot, at most", _number(of_slot), _total(composed.vehicle_and_slot))
    table.add_row("a vehicle in the period, at most", _number(of_period), _total(composed.vehicle_and_period))
    table.add_row("the account in the period (sum of slot maxima)", "", _total(composed.debit_of_a_period))
    verdict = {True: "kept", False: "exceeded", None: "not known"}[composed.within_limit]
    table.add_row(f"the account's limit: {verdict}", "", f"{composed.account_limit:g}")
    return table


def _guarantees(guarantees: list[Guarantee]) -> Table:
    table = _table("One release, said in several ways: epsilon under counts-public")
    table.add_column("what differs between two feeds: the speeds of")
    table.add_column("this release", justify="right", no_wrap=True)
    table.add_column("the whole account", justify="right", no_wrap=True)
    for guarantee in guarantees:
        table.add_row(guarantee.unit, _total(guarantee.release), f"<= {guarantee.account:.4g}")
    return table


def _choices(planned: Planned) -> Table:
    table = _table("What another choice would give: median error, epsilon, account's limit")
    table.add_column("choice")
    table.add_column("HATs", justify="right", no_wrap=True)
    table.add_column("median\nvehicles", justify="right")
    for statistic in planned.statistics:
        table.add_column(f"error of\n{statistic.statistic},\n{statistic.unit}", justify="right")
    table.add_column("epsilon\nof HAT", justify="right")
    table.add_column("vehicle,\nperiod", justify="right", no_wrap=True)
    table.add_column("account,\nperiod", justify="right", no_wrap=True)
    for choice in planned.choices:
        table.add_row(*_choice_row(choice), style="bold" if choice.as_specified else None)
    return table


def _choice_row(other: OtherChoice) -> list[str]:
    composed = other.composed
    over = " over" if composed.within_limit is False else ""
    return [
        other.choice,
        f"{other.hats:,}",
        f"{other.median_vehicles:g}",
        *map(_short, other.forecast_error.values()),
        f"{composed.epsilon_per_hat_least:.3g}",
        _total(composed.vehicle_and_period),
        _total(composed.debit_of_a_period) + over,
    ]


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left")


def _percent(share: float) -> str:
    return "<1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _short(value: float) -> str:
    return f"{value:.2f}"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _total(total: ComposedTotal) -> str:
    if total.epsilon is None:
        return "?"
    return f"{_KNOWN.get(total.known, '')}{total.epsilon:.4g}"
