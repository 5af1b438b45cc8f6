"""A Flink that means harm: a job server that takes any pipeline, or none, and a REST that says what it likes of it."""

import contextlib
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc

from tests.hostile import servers
from tests.hostile.mutations import mutated_bytes

JOB = "0123456789abcdef0123456789abcdef"
STATES = ("RUNNING", "RESTARTING", "FINISHED", "FAILED", "CANCELED", "CANCELLING", "", "\x1b[2J", "x" * 70_000)
ODD = (
    b"", b"{}", b"[]", b"null", b"3", b'{"jobs": null}', b'{"jobs": [null]}', b'{"jobs": [{}]}', b'{"jobs": {"a": 1}}',
    b'{"jobs": [{"jid": 3, "name": null, "state": []}]}', b"[" * 100_000, b"9" * 10_000, b"\xff\xfe",
)  # fmt: skip
"""No overviews of jobs."""


SILENT = ("DescribePipelineOptions", "Prepare", "stage", "Run", "GetState")
"""What a job server may be asked and never answer."""


class Engine(contextlib.AbstractContextManager):
    """options: of `stream`. was_watched: the command has asked the REST something. choose: its own, as threads draw."""

    def __init__(self, choose):
        self._choose, self._stack, self._name = choose, contextlib.ExitStack(), "none"
        self.was_watched = threading.Event()

    def __enter__(self):
        rest = self._stack.enter_context(servers.Service())
        rest.answers, self.was_watched = [self._say], rest.was_asked
        kind = self._choose.randrange(6)
        if kind == 0:
            listening = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))  # and nobody accepts
            port = listening.getsockname()[1]
        elif kind == 1:
            port = rest.port
        else:
            port = self._job_server()
        self.options = ["--job-server", f"127.0.0.1:{port}", "--worker-pool", "127.0.0.1:1"]
        self.options += ["--rest", f"127.0.0.1:{rest.port}"]
        self._truths = self._choose.randrange(4)
        self._lie = self._choose.choice(["state", "odd", "mutated", "status", "endless", "redirect"])
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _job_server(self):
        choose = self._choose
        refuses = choose.random() < 0.2
        return self._stack.enter_context(jobs(self.named, refuses, choose.choice([*SILENT, *[None] * 5])))

    def named(self, name):
        self._name = name

    def _say(self, handler):
        """Some answers that are true, and then none is any more."""
        if self._truths:
            self._truths -= 1
            servers.answer(200, self._overview("RUNNING"))(handler)
            return
        choose = self._choose
        lies = {
            "state": lambda: servers.answer(200, self._overview(choose.choice(STATES))),
            "odd": lambda: servers.answer(200, choose.choice(ODD)),
            "mutated": lambda: servers.answer(200, mutated_bytes(choose, self._overview("RUNNING"))),
            "status": lambda: servers.answer(choose.choice([204, 304, 404, 500, 999]), b"{}"),
            "endless": lambda: choose.choice([*servers.ENDLESS.values()]),
            "redirect": lambda: servers.redirect(choose.choice(["/again", "file:///etc/passwd", "http://[::1"])),
        }
        lies[self._lie]()(handler)

    def _overview(self, state):
        return json.dumps({"jobs": [{"jid": JOB, "name": self._name, "state": state}]}).encode()


@contextlib.contextmanager
def jobs(named=lambda _: None, refuses=False, silent=None):
    """The port of a job server. named: hears each job's name. silent: one of SILENT."""
    with contextlib.ExitStack() as stack:
        nobody = stack.enter_context(socket.create_server(("127.0.0.1", 0)))  # and nobody accepts
        server = grpc.server(ThreadPoolExecutor(4))
        ended = threading.Event()
        service = _Jobs(named, refuses, f"127.0.0.1:{nobody.getsockname()[1]}" if silent == "stage" else "")
        if silent in SILENT and silent != "stage":
            setattr(service, silent, lambda *_: ended.wait())
        beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        stack.callback(server.stop, 0)
        stack.callback(ended.set)
        yield port


class _Jobs(beam_job_api_pb2_grpc.JobServiceServicer):
    """Takes a pipeline without looking at it."""

    def __init__(self, named, refuses, staging):
        self._named, self._refuses, self._staging = named, refuses, staging

    def DescribePipelineOptions(self, *_):
        return api.DescribePipelineOptionsResponse()

    def Prepare(self, request, context):
        if self._refuses:
            context.abort(grpc.StatusCode.INTERNAL, "\x1b[2J no")
        self._named(request.pipeline_options["beam:option:job_name:v1"])
        made = api.PrepareJobResponse(preparation_id="p")
        made.artifact_staging_endpoint.url = self._staging
        return made

    def Run(self, *_):
        return api.RunJobResponse(job_id="j")

    def GetState(self, *_):
        return api.JobStateEvent(state=api.JobState.RUNNING)

    def GetStateStream(self, *_):
        yield api.JobStateEvent(state=api.JobState.RUNNING)

    def GetMessageStream(self, *_):
        yield api.JobMessagesResponse()
