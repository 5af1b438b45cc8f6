"""An engine for tests: the bounded pipeline of a cluster on Beam's own runner, in this process."""

from pipelines.runs.beam.runners import finished
from pipelines.runs.flink import engine
from tests.hatstream import pipelines

OPTIONS = ("--runner", "flink", "--job-server", "a:1", "--worker-pool", "b:2", "--rest", "c:3", "--parallelism", "2")


class OnBeam:
    """In the place of Flink's: `OPTIONS` name addresses at which nobody listens."""

    is_here = False

    def __init__(self, *, parallelism, **_addresses):
        self.parallelism = parallelism

    def run(self, build, name, watch):
        p = pipelines.bounded()
        build(p)
        result = p.run()
        result.wait_until_finish()
        assert name.startswith("hatstream-release-")
        watch({"rows": 1})
        return finished(result)


def put_in_the_place_of_flink(monkeypatch):
    monkeypatch.setattr(engine, "Flink", OnBeam)
