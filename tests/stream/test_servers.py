"""The local servers listen on 127.0.0.1 and nowhere else, also while a job runs."""

import os

import pytest

from tests.stream.cluster import wait_for
from tests.stream.hours import DAYS, Fleet, running
from tests.stream.listening import LOOPBACK, listeners, offspring
from tests.stream.tiny import Tiny, totals


@pytest.mark.slow
def test_every_server_and_every_port_of_a_running_job_listens_on_the_loopback_address(kafka, flink, pool, tmp_path):
    """15 s."""
    fleet = Fleet(kafka, "loopback")
    fleet.drive(range(2))
    with running(Tiny(fleet.source(), tmp_path, DAYS), flink, pool):
        wait_for(lambda: len(totals(tmp_path)) == 2, 60)
        addresses = listeners(offspring(os.getpid()))
    assert len(addresses) >= 10
    assert {address for address, _ in addresses} <= LOOPBACK
