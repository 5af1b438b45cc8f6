"""What the local servers need is named when it is missing, and a server that fails says its last words."""

import sys
import time
from hashlib import sha256

import pytest

from hatstream_lab.servers import postgres, process
from hatstream_lab.servers.process import Server, ServerError


def python(text):
    return [sys.executable, "-c", text]


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert len(process.missing_tools()) == 2
    with pytest.raises(process.MissingTool, match=r"a JDK 17 or newer .*Maven"):
        process.class_path("kafka")


def test_a_jar_that_is_not_the_one_that_was_tried_is_not_run(tmp_path):
    jars = [tmp_path / name for name in ("a.jar", "b.jar")]
    for jar in jars:
        jar.write_bytes(jar.name.encode())
    sums = "".join(f"{sha256(jar.name.encode()).hexdigest()}  {jar.name}\n" for jar in jars)
    process._check_jars(jars, sums)
    with pytest.raises(RuntimeError, match=r"1 jars are not .* such as b\.jar"):
        process._check_jars(jars[:1], sums)
    jars[0].write_bytes(b"other")
    with pytest.raises(RuntimeError, match=r"1 jars are not .* such as a\.jar"):
        process._check_jars(jars, sums)


def test_a_server_that_ends_before_it_is_ready_says_its_last_words(tmp_path):
    server = Server(python("print('no such file'); raise SystemExit(3)"), tmp_path / "log")
    with pytest.raises(ServerError, match=r"(?s)ended with code 3:.*no such file"):
        server.wait(lambda: False, 20)


def test_a_server_that_is_not_ready_in_time_is_ended(tmp_path):
    server = Server(python("import time; time.sleep(60)"), tmp_path / "log")
    with pytest.raises(ServerError, match="was not ready after 0 s"):
        server.wait(lambda: False, 0.3)
    server.stop()


def test_a_server_that_does_not_end_when_asked_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("hatstream_lab.servers.process.STOP_S", 0.3)
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    server = Server(python(stubborn), tmp_path / "log")
    server.wait(lambda: "up" in (tmp_path / "log").read_text(), 20)
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 10


def test_a_postgres_whose_initdb_fails_says_so_and_leaves_no_folder(monkeypatch, tmp_path):
    (tmp_path / "initdb").write_text("#!/bin/sh\necho no room on the disk\nexit 3\n")
    (tmp_path / "initdb").chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(postgres.tempfile, "tempdir", None)
    monkeypatch.setattr(postgres, "_programs", lambda: tmp_path)
    monkeypatch.setattr(postgres, "_unprivileged", lambda: None)
    with pytest.raises(ServerError, match="initdb ended with 3:\nno room on the disk"), postgres.postgres_server():
        pass
    assert list((tmp_path / "temporary").iterdir()) == []
