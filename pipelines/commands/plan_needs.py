"""What `hatstream plan` shows of how many vehicles are needed: under `levels`, and where counts are public."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.commands.terminal import table_of
from pipelines.plan.levels import Choice, CountedFleet, PlannedLevels, Total
from pipelines.plan.needs import MechanismNeeds
from pipelines.plan.places import PlannedPlaces
from pipelines.plan.spans import DAY_NUMBERS

_SPAN = {"a later day": "", "the first day": "first day", "a week, if days are alike": "a week *"}


def show_levels(planned: PlannedLevels, out: Console) -> None:
    """Shows the plan of a `levels` specification."""
    out.print(f"{planned.name} ({planned.spec_id}): a plan; nothing was released or spent")
    out.print(
        f"Public facts: {planned.cells:,} cells x {planned.slots:,} slots, a fleet of {planned.vehicles:,}: "
        f"{planned.usual_vehicles:.3g} vehicles in the average HAT"
    )
    out.print(_levels(planned))
    out.print(
        "vehicles for: fewest in a HAT, for the interval of a HAT and of the mean of its cell's whole day; the fleet "
        "with which the average cell has the latter. -: no number of vehicles. (x): that HAT would be marked "
        "unreliable. * if its days are alike. Neighbours and earlier days mostly teach more; that is not promised."
    )
    out.print(_spans(planned))
    first = planned.spans[0]
    out.print(
        f"(x): such a day is expected to be held back. The city's true mean, which is secret, has an error of "
        f"{first.constant_kmh:.1f} where cities differ as usual; without noise {first.least_kmh:.1f} would be left. "
        "Compare rows and days: the level itself depends on how often vehicles report (docs/release.md)."
    )
    for answer in planned.answers:
        out.print(answer)
    if planned.choices:
        out.print(_choices(planned.choices))
    if planned.places is not None:
        _show_places(planned.places, out)
    out.print(f"Guarantee: {planned.claim}")
    if planned.operator_only is not None:
        _show_counted(planned, planned.operator_only, out)


def _levels(planned: PlannedLevels) -> Table:
    title = "Half of a HAT's 95 % interval, ± km/h, by vehicles in it and by total of a vehicle and period"
    needed = (f"±{planned.within_kmh:g}\n{name}" for name in ("HAT", "cell", "fleet"))
    table = table_of(title, None, ("total",), (*map(str, planned.vehicles_in_a_hat), *needed), whole=True)
    for total in planned.totals:
        table.add_row(*_row(total), style="bold" if total.as_specified else None)
    return table


def _spans(planned: PlannedLevels) -> Table:
    title = "This total as that of several days: mean error by reports that is expected, km/h, by released day"
    numbers = ("days", "released", "a day's\nepsilon", *(f"day\n{number}" for number in DAY_NUMBERS))
    table = table_of(title, None, (), numbers, whole=True)
    for span in planned.spans:
        published = [span.first_published is not None and number >= span.first_published for number in DAY_NUMBERS]
        errors = [
            f"{kmh:.1f}" if shown else f"({kmh:.1f})" for kmh, shown in zip(span.error_kmh, published, strict=True)
        ]
        row = f"{span.days:,}", f"{span.served:,}", f"{span.epsilon_a_day:.3g}", *errors
        table.add_row(*row, style="bold" if span.as_specified else None)
    return table


def _choices(choices: Sequence[Choice]) -> Table:
    table = Table(
        title="Ways to release, the best first, by the root mean square error that is expected by reports, km/h",
        title_justify="left",
    )
    table.add_column("levels and their shares")
    for name in ("bound, first day", "later", "error, first day", "later"):
        table.add_column(name, justify="right")
    for rank, choice in enumerate(choices):
        levels = ", ".join(f"{name} {share:g}" for name, share in choice.levels.items())
        numbers = *(f"{bound:g}" for bound in choice.bound_kmh), f"{choice.first_kmh:.2f}", f"{choice.later_kmh:.2f}"
        table.add_row(levels, *numbers, style=None if rank else "bold")
    return table


def _show_places(planned: PlannedPlaces, out: Console) -> None:
    title = (
        f"A map of places, for {planned.share:g} of the total: half width that half of all reports have at most, "
        "± km/h, and reports at places that are ok, by released day"
    )
    table = table_of(title, None, ("places", "traffic"), [f"day\n{number}" for number in planned.days], whole=True)
    for kind in planned.kinds:
        shown = (f"{half:.0f}\n{100 * ok:.0f}%" for half, ok in zip(kind.half_width_kmh, kind.ok, strict=True))
        row = f"{kind.what}\n{kind.places:,}", kind.traffic, *shown
        table.add_row(*row, style="bold" if kind.as_specified else None)
    out.print(table)
    _print_all(planned.answers, out)


def _row(total: Total) -> list[str | Text]:
    span = _SPAN[total.days] or ("now" if total.as_specified else "")
    shown = zip(total.half_widths_kmh, total.reliable, strict=True)
    return [
        f"{total.epsilon:.4g} {span}".strip(),
        *(f"{half:.1f}" if is_reliable else f"({half:.1f})" for half, is_reliable in shown),
        *(_number(value) for value in (total.hat_vehicles, total.place_vehicles, total.fleet)),
    ]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _show_counted(planned: PlannedLevels, counted: CountedFleet, out: Console) -> None:
    out.print("FOR THE OPERATOR ALONE: what follows was counted, and these counts are secret. Do not publish it.")
    out.print(
        f"{counted.origin}: {counted.vehicles:,} vehicles ({planned.vehicles:,} are declared); one was in "
        f"{counted.hats_of_a_vehicle:.0f} HATs, {counted.cells_of_a_vehicle:.0f} cells and "
        f"{counted.slots_of_a_vehicle:.0f} slots on average."
    )
    table = table_of("HATs by number of vehicles", None, (), [*counted.hats])
    table.add_row(*(f"{hats:,}" for hats in counted.hats.values()))
    out.print(table)
    out.print(
        "Take [fleet] from timetables or the register of vehicles, or from counts of days before the account began, "
        "not from days that will be released."
    )


def show_needs(needs: MechanismNeeds, out: Console) -> None:
    """Shows how many vehicles a HAT needs where counts are public."""
    table = Table(
        title=f"Half of a HAT's 95 % interval by {needs.mechanism}, ± km/h, clipping at its worst: by vehicles in it",
        title_justify="left",
    )
    table.add_column("epsilon")
    for number in needs.vehicles_in_a_hat:
        table.add_column(str(number), justify="right", no_wrap=True)
    table.add_column(f"±{needs.within_kmh:g}\nfrom", justify="right")
    table.add_column("fewest, with", justify="right")
    for need in needs.by_epsilon:
        best = "-" if need.best is None else f"{need.best_vehicles:,} {need.best}"
        now = " now" if need.as_specified else ""
        halves = (f"{half:.1f}" for half in need.half_widths_kmh)
        table.add_row(f"{need.epsilon:.3g}{now}", *halves, _number(need.vehicles), best, style="bold" if now else None)
    out.print(table)
    _print_all(needs.answers, out)


def _print_all(lines: Sequence[str], out: Console) -> None:
    for line in lines:
        out.print(line)
