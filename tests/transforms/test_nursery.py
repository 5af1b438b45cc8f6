"""What a nursery forks starts at once, holds nothing of anybody else, and ends with who asked for it."""

import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpops.noise import Noise
from transforms.layouts.decoder import receive, send
from transforms.nursery import Nurse, Nursery

PATIENCE_S = 20


@pytest.fixture
def nursery():
    nursery = Nursery([])
    yield nursery
    nursery.close()


@contextmanager
def forked(nurse, what, handles=()):
    process = nurse.fork(f"{__name__}:{what}", handles)
    yield process
    process.end()


def told(nurse, what, *asked, handles=()):
    """What a forked process says."""
    with forked(nurse, what, handles) as process:
        send(process.asks, pickle.dumps(asked))
        return pickle.loads(receive(process.answers))


def test_no_variable_but_a_few_reaches_what_is_forked(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "canary")
    nursery = Nursery([])
    assert "PGPASSWORD" not in told(nursery, "say_environment")
    nursery.close()


def test_nothing_of_the_memory_of_who_asks_is_in_what_is_forked():
    secret = os.urandom(32)
    nursery = Nursery(["transforms.layouts.decoder"])
    with forked(nursery, "wait") as process:
        assert holds("self", secret), "so a process that held it would be seen"
        assert not holds(nursery._process.pid, secret)
        assert not holds(process.pid, secret)
    nursery.close()


def test_no_process_has_a_handle_of_another(nursery, tmp_path):
    with nursery.another(), (tmp_path / "file").open("wb") as file, forked(nursery, "wait"):
        *standard, handed = told(nursery, "say_handles", handles=[file.fileno()])
    assert [Path(name).name.partition(":")[0] for name in standard[:2]] == ["pipe", "pipe"]
    assert len(standard) == 3
    assert handed == file.name


def test_two_copies_draw_other_noise(nursery):
    """By chance both are alike in fewer than one of 10**60 runs: 20 draws of scale 1,000 each."""
    drawn = [told(nursery, "say_noise") for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_a_nursery_of_a_crew_has_one_thread_when_it_forks():
    modules = ["pipelines.runs.crew.worker", "transforms.releases.hats.release", "transforms.layouts.mapped.parquet"]
    nursery = Nursery(modules)
    with forked(nursery, "say_noise"):
        assert len(os.listdir(f"/proc/{nursery._process.pid}/task")) == 1
    nursery.close()


def test_what_only_draws_needs_no_database():
    modules = "pipelines.runs.crew.worker, transforms.releases.hats.release, transforms.layouts.mapped.parquet"
    program = f"import sys, {modules}; print({{'sqlalchemy', 'apache_beam', 'click'}} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "set()\n"
    )


@pytest.mark.parametrize(("what", "code"), [("leave", 3), ("die", -signal.SIGTERM), ("wait", -signal.SIGKILL)])
def test_it_is_told_how_a_process_ended(nursery, what, code):
    with forked(nursery, what) as process:
        if what != "wait":
            assert receive(process.answers) == b""
            assert not process.is_alive
        assert process.end() == code
        assert process.end() == 0, "there is nothing to end any more"


def test_what_fails_ends_alone_and_another_is_forked(nursery):
    with forked(nursery, "there_is_no_such_function") as process:
        assert receive(process.answers) == b""
        assert process.end() == 1
    assert told(nursery, "say_noise")


def test_who_was_handed_an_end_asks_for_itself_and_its_processes_end_with_it(nursery):
    nurse = Nurse(nursery.another())
    process = nurse.fork(f"{__name__}:wait")
    assert is_running(process.pid)
    nurse.close()
    assert ends(process.pid)
    assert process.end() == -signal.SIGKILL, "nobody is left who knows"
    assert told(nursery, "say_noise")


def test_a_nursery_that_is_gone_is_an_error_of_the_system_for_who_asks():
    nursery = Nursery([])
    with forked(nursery, "wait") as process:
        os.kill(nursery._process.pid, signal.SIGKILL)
        with pytest.raises(OSError, match=r"Broken pipe|has ended|reset"):
            nursery.fork(f"{__name__}:wait")
        assert not nursery.is_alive
        assert process.end() == -signal.SIGKILL
        os.kill(process.pid, signal.SIGKILL)
    nursery.close()


def test_even_what_hangs_ends_with_who_asked_for_it_and_was_killed():
    program = (
        "import sys, time\n"
        "from transforms.nursery import Nursery\n"
        f"print(Nursery([]).fork('{__name__}:wait').pid, flush=True)\n"
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


# --- what is forked, for a nursery finds this module as we do -------------------------------------------------------


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
