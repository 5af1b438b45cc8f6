"""What answers as no REST of Flink does is an OSError, and one that never comes to an end is given up."""

import pytest

from pipelines.runs.flink import rest
from pipelines.runs.flink.rest import Cluster
from tests.hostile.flink import ODD
from tests.hostile.servers import ENDLESS, Service, answer, redirect


@pytest.fixture
def service():
    with Service() as running:
        yield running


@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_an_answer_that_has_no_end_is_given_up(service, monkeypatch, name):
    """Each byte of it comes in time."""
    monkeypatch.setattr(rest, "WHOLE_S", 0.5)
    service.answers = [ENDLESS[name]]
    with pytest.raises(OSError):  # noqa: PT011 - of any kind
        Cluster(f"127.0.0.1:{service.port}").has_ended("a1")
    assert Cluster(f"127.0.0.1:{service.port}").state("a1") is None


@pytest.mark.parametrize("body", [*ODD, b'{"jobs": [{"jid": "a1", "name": "x"}]}'])
def test_what_is_no_overview_is_an_error(service, body):
    service.answers = [answer(200, body)]
    with pytest.raises(OSError, match="does not answer as the REST of Flink does"):
        Cluster(f"127.0.0.1:{service.port}").has_ended("a1")


@pytest.mark.parametrize(
    "odd",
    [answer(404), answer(500, b"{}"), redirect("/again"), redirect("file:///etc/passwd"), redirect("http://[::1")],
)
def test_other_answers_than_200_are_errors_and_no_redirect_is_followed(service, odd):
    service.answers = [odd]
    with pytest.raises(OSError, match="answers with"):
        Cluster(f"127.0.0.1:{service.port}").ask("/jobs/overview")
    assert len(service.asked) == 1


@pytest.mark.parametrize("told", ["NaN", "1e400", "-1", '"x"', "null"])
def test_counters_that_are_no_counts_are_an_error(service, told):
    name = f"0.x{rest.COUNTER}rows"
    sums = f'[{{"id": "{name}", "sum": {told}}}]'.encode()
    service.answers = [answer(200, b'{"vertices": [{"id": "v"}]}'), answer(200, sums), answer(200, sums)]
    with pytest.raises(OSError, match="does not answer as the REST of Flink does"):
        Cluster(f"127.0.0.1:{service.port}").counters("a1")
