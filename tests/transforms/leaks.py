"""What mypy must refuse: each line with an error of mypy puts what is for the operator alone where all look.

`make types` fails at an error that is not there: it warns of each `ignore` that ignores nothing.
"""

from pipelines.runs.flink.engine import FlinkJob
from pipelines.runs.release import FinishedRun
from transforms.public import Fact, Operator, Summary
from transforms.recorded.stage_plan import rests_on
from transforms.recorded.units import Sequenced, StageUnit
from transforms.sinks.rows import Columns


def counts_in_a_summary(done: FinishedRun) -> Summary:
    return Summary({"rows": done.outcome.rows})  # type: ignore[attr-defined]


def whole_outcome_in_a_summary(done: FinishedRun) -> Summary:
    return Summary({"outcome": done.outcome})  # type: ignore[dict-item]


def the_ledgers_number_in_a_summary(entry: Sequenced[StageUnit]) -> Summary:
    return Summary({"sequence": entry.sequence})  # type: ignore[dict-item]


def the_ledgers_number_in_a_nested_list(entries: list[Sequenced[StageUnit]]) -> Summary:
    public: dict[str, Fact] = {"stages": [{"sequence": entry.sequence} for entry in entries]}  # type: ignore[dict-item]
    return Summary(public)


def what_a_stage_rests_on(unit: StageUnit) -> Summary:
    return Summary({"rests_on": rests_on(unit)})  # type: ignore[dict-item]


def the_ledgers_number_in_a_file(entry: Sequenced[StageUnit]) -> Columns:
    return {"sequence": [entry.sequence]}  # type: ignore[list-item]


def an_operators_number_in_a_file(number: Operator[int]) -> Columns:
    return {"sequence": [number]}  # type: ignore[list-item]


def counted_rows_in_a_health_line(job: FlinkJob) -> Summary:
    return Summary({"rows": job.counters()})  # type: ignore[dict-item]


def health_in_a_summary(line: Summary) -> Summary:
    return Summary(line.whole())  # type: ignore[arg-type]


def health_in_a_file(line: Summary) -> Columns:
    return {"note": [line.whole()]}  # type: ignore[list-item]


def what_everybody_may_see(done: FinishedRun, place: int) -> Summary:
    return Summary({"new": done.new, "sequence": place}, Operator({"rows": done.outcome.opened().rows}))
