"""`hatstream evaluate --distributions`: a dense made-up city, and errors on telemetry."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from hatstream.api import console, progress_bars
from hatstream_lab.commands.evaluation_results import Results
from hatstream_lab.evaluation import NOT_PRIVATE, distributions
from hatstream_lab.evaluation.experiment import Experiment, Table
from hatstream_lab.evaluation.telemetry import Telemetry


def evaluate_distributions(
    feed: Telemetry | None, bins: int, epsilons: Sequence[str], runs: int, seed: int, results: Results
) -> None:
    """Shows all figures; a picture of the made-up city goes to the folder."""
    document: dict[str, Any] = {}
    with progress_bars(quiet=results.as_json) as bars:
        report = partial(bars, "runs released")
        city = distributions.made_up(bins, seed)
        varied = distributions.made_up_settings(bins, epsilons)
        dense = Experiment(city, varied, distributions.measured).table(runs, report)
        dense = Table([*dense.rows, *distributions.constants(city).rows])
        document["made_up"] = dense.rows
        table = Table()
        if feed is not None:
            telemetry = distributions.read_counted(feed, bins, bars)
            asked = distributions.settings(feed.tables(**feed.cap), bins, epsilons)
            table = Experiment(telemetry, asked, distributions.measured).table(runs, report)
            table = Table([*table.rows, *distributions.constants(telemetry).rows])
            document |= {"not_private": NOT_PRIVATE, "hats": telemetry.truth.num_rows, "errors": table.rows}
    if results.output is not None:
        axes = ("vehicles in the HAT", f"mean absolute error at ε {epsilons[len(epsilons) // 2]}, km/h")
        sizes = distributions.by_size(dense)
        middle = sizes.where(output=("p50", "p85", "mean"), epsilon=(epsilons[len(epsilons) // 2], "-"))
        path = results.output / "distribution-dense-city.png"
        results.drew([middle.draw(path, "vehicles", "error", ("output", "released"), axes)])
    results.keep(document, "distributions.json")
    if not results.as_json:
        out = console()
        out.print(distributions.dense_shown(dense))
        if feed is not None:
            for part in (NOT_PRIVATE, *distributions.shown(table), NOT_PRIVATE):
                out.print(part)
