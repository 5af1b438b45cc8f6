"""What mypy must refuse: each line that says `leak` puts what is for the operator alone where everybody looks."""

from pipelines.runs.flink.engine import FlinkJob
from pipelines.runs.release import FinishedRun
from transforms.public import Fact, Operator, Summary
from transforms.recorded.stage_plan import rests_on
from transforms.recorded.units import Sequenced, StageUnit
from transforms.sinks.rows import Columns


def counts_in_a_summary(done: FinishedRun) -> Summary:
    return Summary({"rows": done.outcome.rows})  # leak


def whole_outcome_in_a_summary(done: FinishedRun) -> Summary:
    return Summary({"outcome": done.outcome})  # leak


def the_ledgers_number_in_a_summary(entry: Sequenced[StageUnit]) -> Summary:
    return Summary({"sequence": entry.sequence})  # leak


def the_ledgers_number_in_a_nested_list(entries: list[Sequenced[StageUnit]]) -> Summary:
    public: dict[str, Fact] = {"stages": [{"sequence": entry.sequence} for entry in entries]}  # leak
    return Summary(public)


def what_a_stage_rests_on(unit: StageUnit) -> Summary:
    return Summary({"rests_on": rests_on(unit)})  # leak


def the_ledgers_number_in_a_file(entry: Sequenced[StageUnit]) -> Columns:
    return {"sequence": [entry.sequence]}  # leak


def an_operators_number_in_a_file(number: Operator[int]) -> Columns:
    return {"sequence": [number]}  # leak


def counted_rows_in_a_health_line(job: FlinkJob) -> Summary:
    return Summary({"rows": job.counters()})  # leak


def health_in_a_summary(line: Summary) -> Summary:
    return Summary(line.whole())  # leak


def health_in_a_file(line: Summary) -> Columns:
    return {"note": [line.whole()]}  # leak


def what_everybody_may_see(done: FinishedRun, place: int) -> Summary:
    return Summary({"new": done.new, "sequence": place}, Operator({"rows": done.outcome.opened().rows}))
