"""`hatstream evaluate --past`: what the ledger's past would be worth beside means that are released HAT by HAT."""

from dataclasses import asdict

from pipelines.commands.options import progress_bars
from pipelines.lab.commands.evaluation_results import Results
from pipelines.lab.evaluation import past
from pipelines.lab.evaluation.feed import Feed


def evaluate_past(feed: Feed, totals: list[str], runs: int, results: Results) -> None:
    """Shows tables on standard output, writes past.json into the folder."""
    with progress_bars(quiet=results.as_json) as bars:
        errors, coverage = past.evaluated(feed, totals, runs, bars)
    plain = {"errors": [asdict(error) for error in errors], "coverage": [asdict(row) for row in coverage]}
    results.tell(plain, "past.json", f"{runs} runs", past.error_table(errors), past.coverage_table(coverage))
