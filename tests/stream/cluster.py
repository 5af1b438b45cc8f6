"""What tests ask of a Flink cluster and the product does not: savepoints, checkpoints, restarts, slots in use."""

import time
from contextlib import suppress

from hatstream_lab.servers import flink
from pipelines.runs.flink.engine import Cluster

SAVEPOINT_S = 60.0
BUSY = 4
"""So many times longer than on a quiet machine these tests wait: with sixteen processes on two cores they failed."""


class JobServer(flink.JobServer, Cluster):
    """A job server whose cluster is asked too."""


def has_restarted(cluster, job_id):
    """Whether Flink had to start the job again."""
    return bool(cluster.ask(f"/jobs/{job_id}")["timestamps"]["RESTARTING"])


def has_ended(cluster, job_id):
    """Whether the job is over. One inside of a job server takes its cluster with it."""

    def told():
        try:
            return "over" if cluster.has_ended(job_id) else "not over"
        except ConnectionRefusedError:
            return "over"

    return wait_for(told, 60) == "over"


def has_gone_on(cluster, job_id):
    """Whether Flink started the job again from a checkpoint, not from the beginning."""
    return bool(cluster.ask(f"/jobs/{job_id}/checkpoints")["counts"]["restored"])


def checkpoint_bytes(cluster, job_id):
    """The size of the job's newest finished checkpoint; 0 before the first."""
    newest = cluster.ask(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]
    return int(newest["state_size"]) if newest else 0


def checkpoint(cluster, job_id):
    """Makes one more checkpoint than the interval asks for."""

    def finished():
        return int(cluster.ask(f"/jobs/{job_id}/checkpoints")["counts"]["completed"])

    before = finished()
    cluster.ask(f"/jobs/{job_id}/checkpoints", "POST", {"checkpointType": "FULL"})
    wait_for(lambda: finished() != before, SAVEPOINT_S)


def savepoint(cluster, job_id, *, cancel=False):
    """Where another job can go on; this one goes on too unless it is cancelled."""
    asked = cluster.ask(f"/jobs/{job_id}/savepoints", "POST", {"cancel-job": cancel})["request-id"]

    def location():
        savepoint = cluster.ask(f"/jobs/{job_id}/savepoints/{asked}")
        return savepoint["status"]["id"] == "COMPLETED" and savepoint["operation"].get("location")

    return wait_for(location, SAVEPOINT_S)


def slots_in_use(cluster):
    """How many slots of each task manager that has joined take part in jobs. Empty while nobody answers."""
    try:
        joined = cluster.ask("/taskmanagers")["taskmanagers"]
    except OSError:
        return {}
    return {manager["id"]: manager["slotsNumber"] - manager["freeSlots"] for manager in joined}


def wait_for(look, seconds):
    """What `look` answers as soon as it is something. seconds: a quiet machine's; a busy one is waited for.

    A cluster that is too busy to answer in time is asked again.
    """
    until = time.monotonic() + BUSY * seconds
    while time.monotonic() < until:
        with suppress(OSError):
            if answer := look():
                return answer
        time.sleep(0.2)
    raise AssertionError(f"nothing after {BUSY * seconds} s")
