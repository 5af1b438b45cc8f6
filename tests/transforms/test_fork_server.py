"""What a fork server forks starts at once, holds nothing of anybody else, and ends with who asked for it."""

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpops.noise import Noise
from transforms.fork_server import _BEGUN, ForkClient, ForkServer, beforehand, fork_server_of
from transforms.layouts.decoder import receive, send

PATIENCE_S = 20


@pytest.fixture
def fork_server():
    fork_server = ForkServer([])
    yield fork_server
    fork_server.close()


@contextmanager
def forked(client, what, handles=()):
    process = client.fork(f"{__name__}:{what}", handles)
    yield process
    process.end()


def told(client, what, *asked, handles=()):
    """What a forked process says."""
    with forked(client, what, handles) as process:
        send(process.asks, pickle.dumps(asked))
        return pickle.loads(receive(process.answers))


def test_no_variable_but_a_few_reaches_what_is_forked(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "canary")
    fork_server = ForkServer([])
    assert "PGPASSWORD" not in told(fork_server, "say_environment")
    fork_server.close()


def test_nothing_of_the_memory_of_who_asks_is_in_what_is_forked():
    secret = os.urandom(32)
    fork_server = ForkServer(["transforms.layouts.decoder"])
    with forked(fork_server, "wait") as process:
        assert holds("self", secret), "so a process that held it would be seen"
        assert not holds(fork_server._process.pid, secret)
        assert not holds(process.pid, secret)
    fork_server.close()


def test_no_process_has_a_handle_of_another(fork_server, tmp_path):
    with fork_server.another(), (tmp_path / "file").open("wb") as file, forked(fork_server, "wait"):
        *standard, handed = told(fork_server, "say_handles", handles=[file.fileno()])
    assert [Path(name).name.partition(":")[0] for name in standard[:2]] == ["pipe", "pipe"]
    assert len(standard) == 3
    assert handed == file.name


def test_two_copies_draw_other_noise(fork_server):
    """By chance both are alike in fewer than one of 10**60 runs: 20 draws of scale 1,000 each."""
    drawn = [told(fork_server, "say_noise") for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_a_fork_server_of_a_crew_has_one_thread_when_it_forks():
    modules = ["pipelines.runs.crew.worker", "transforms.releases.hats.release", "transforms.layouts.mapped.parquet"]
    fork_server = ForkServer(modules)
    with forked(fork_server, "say_noise"):
        assert len(os.listdir(f"/proc/{fork_server._process.pid}/task")) == 1
    fork_server.close()


def test_one_that_was_begun_beforehand_and_has_ended_is_not_taken():
    with beforehand([]):
        begun = _BEGUN[0]
        begun._process.kill()
        begun._process.wait()
        fork_server = fork_server_of([])
        assert fork_server.is_alive
        fork_server.close()


def test_one_that_was_begun_beforehand_is_taken_once_and_stays_with_who_took_it():
    with beforehand([]):
        first, second = fork_server_of([]), fork_server_of([])
    for fork_server in (first, second):
        assert told(fork_server, "say_noise")
        fork_server.close()


def test_one_that_nobody_took_ends_with_the_block():
    before = children()
    with beforehand([]):
        assert len(children() - before) == 1
    assert children() <= before


def children():
    return {*Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def test_what_only_draws_needs_no_database():
    modules = "pipelines.runs.crew.worker, transforms.releases.hats.release, transforms.layouts.mapped.parquet"
    program = f"import sys, {modules}; print({{'sqlalchemy', 'apache_beam', 'click'}} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "set()\n"
    )


@pytest.mark.parametrize(("what", "code"), [("leave", 3), ("die", -signal.SIGTERM), ("wait", -signal.SIGKILL)])
def test_it_is_told_how_a_process_ended(fork_server, what, code):
    with forked(fork_server, what) as process:
        if what != "wait":
            assert receive(process.answers) == b""
            assert not process.is_alive
        assert process.end() == code
        assert process.end() == 0, "there is nothing to end any more"


def test_what_fails_ends_alone_and_another_is_forked(fork_server):
    with forked(fork_server, "there_is_no_such_function") as process:
        assert receive(process.answers) == b""
        assert process.end() == 1
    assert told(fork_server, "say_noise")


def test_who_was_handed_an_end_asks_for_itself_and_its_processes_end_with_it(fork_server):
    client = ForkClient(fork_server.another())
    process = client.fork(f"{__name__}:wait")
    assert is_running(process.pid)
    client.close()
    assert ends(process.pid)
    assert process.end() == -signal.SIGKILL, "nobody is left who knows"
    assert told(fork_server, "say_noise")


def test_a_fork_server_that_is_gone_is_an_error_of_the_system_for_who_asks():
    fork_server = ForkServer([])
    with forked(fork_server, "wait") as process:
        os.kill(fork_server._process.pid, signal.SIGKILL)
        with pytest.raises(OSError, match=r"Broken pipe|has ended|reset"):
            fork_server.fork(f"{__name__}:wait")
        assert not fork_server.is_alive
        assert process.end() == -signal.SIGKILL
        os.kill(process.pid, signal.SIGKILL)
    fork_server.close()


def test_who_is_killed_before_it_has_its_answer_ends_alone(fork_server):
    """Its end of the socket holds a message then, and the other one is told of a reset."""
    asking = fork_server.another()
    os.kill(fork_server._process.pid, signal.SIGSTOP)
    asking.send(b'{"pid": 1}')
    os.kill(fork_server._process.pid, signal.SIGCONT)
    select.select([asking], [], [], PATIENCE_S)
    asking.close()
    assert told(fork_server, "say_noise")
    assert told(fork_server, "say_noise")


def test_who_is_interrupted_before_it_has_its_answer_asks_another_fork_server(fork_server):
    def interrupted(*_told):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    os.kill(fork_server._process.pid, signal.SIGSTOP)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            fork_server.fork(f"{__name__}:wait")
    finally:
        os.kill(fork_server._process.pid, signal.SIGCONT)
        signal.signal(signal.SIGALRM, before)
    assert not fork_server.is_alive, "or else every answer would be that of the request before it"


def test_who_was_handed_an_end_has_processes_forked_when_the_first_one_has_hung_up(fork_server):
    client = ForkClient(fork_server.another())
    fork_server._asks.close()
    assert told(client, "say_noise"), "with standard input and output of its own"
    client.close()


def test_a_fork_server_ends_even_if_a_process_that_was_forked_meanwhile_holds_its_end(fork_server):
    child = os.fork()
    if not child:
        time.sleep(10 * PATIENCE_S)
        os._exit(0)
    try:
        closing = threading.Thread(target=fork_server.close, daemon=True)
        closing.start()
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_even_what_hangs_ends_with_who_asked_for_it_and_was_killed():
    program = (
        "import sys, time\n"
        "from transforms.fork_server import ForkServer\n"
        f"process = ForkServer([]).fork('{__name__}:wait')\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    assert ends(pid)


def holds(pid, secret):
    """Whether bytes are anywhere in what a process may write to."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps.read().splitlines():
            place, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(part, 16) for part in place.split("-"))
                memory.seek(start)
                if secret in memory.read(end - start):
                    return True
    return False


def ends(pid):
    until = time.monotonic() + PATIENCE_S
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_running(pid)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- what is forked, for a fork server finds this module as we do --------------------------------------------------


def asked():
    with os.fdopen(os.dup(0), "rb") as asks:
        return pickle.loads(receive(asks))


def say(what):
    with os.fdopen(os.dup(1), "wb") as answers:
        send(answers, pickle.dumps(what))


def say_environment(_handles):
    asked()
    say(dict(os.environ))


def say_handles(_handles):
    handles = [(int(handle), f"/proc/self/fd/{handle}") for handle in os.listdir("/proc/self/fd")]
    asked()
    say([os.readlink(place) for _, place in sorted(handles) if os.path.exists(place)])  # the folder is closed again


def say_noise(_handles):
    asked()
    say(Noise().laplace([1000] * 20).tolist())


def leave(_handles):
    os._exit(3)


def die(_handles):
    os.kill(os.getpid(), signal.SIGTERM)


def wait(_handles):
    while True:
        time.sleep(1)
