"""What ends a bounded job on Flink: errors of ours are answers, other faults are tried again, but not for ever."""

import pytest

from pipelines.engine import EngineError
from pipelines.runs.beam.runners import reason_of
from pipelines.runs.flink import engine as bounded
from transforms.errors import StepError
from transforms.ledger.head import LedgerError
from transforms.ledger.spending import AccountRefusal

SAID = """java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
  File "transforms/steps.py", line 9, in process
    raise X
{}

\tat org.apache.beam.sdk.fn.data.BeamFnDataInboundObserver
"""


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "transforms.errors.StepError: a HAT cannot be released: too few",
            StepError("a HAT cannot be released: too few"),
        ),
        (
            "transforms.ledger.head.LedgerError: the ledger is away [while running 'record/record']",
            LedgerError("the ledger is away"),
        ),
        ("transforms.ledger.ledger._Passing: the ledger is away", LedgerError("the ledger is away")),
        ("transforms.ledger.spending.AccountRefusal: no", AccountRefusal("no")),
    ],
)
def test_an_error_of_ours_is_found_in_what_flink_says(line, error):
    reason = reason_of(SAID.format(line))
    assert (type(reason), str(reason)) == (type(error), str(error))


def test_other_errors_whose_texts_may_hold_data_are_not_shown():
    assert reason_of(SAID.format("ValueError: PLATE1 has no StepError: 7")) is None


def test_a_fault_of_the_cluster_is_tried_again_and_only_many_end_the_job():
    assert bounded.fault(["worker lost"] * 7, "a:1") is None
    assert isinstance(bounded.fault(["worker lost"] * 8, "a:1"), EngineError)
    assert isinstance(bounded.fault(["worker lost", SAID.format("transforms.errors.StepError: no")], "a:1"), StepError)
