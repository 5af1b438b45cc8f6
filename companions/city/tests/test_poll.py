"""Polling an address: a local server that fails, repeats, drips, redirects, lies, and asks for patience."""

import errno
import gzip
import signal
import subprocess
import sys
import threading
import zlib

import pytest
from google.transit import gtfs_realtime_pb2

from hatstream.api import InputError
from hatstream_city.collect import poll as module
from hatstream_city.collect.poll import Poller
from hatstream_city.commands import collect as command
from tests.hostile.servers import ENDLESS, Service, answer, redirect

EXCHANGED = module.exchanged


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Exchanges that end need no process of their own here, which takes half a second."""
    monkeypatch.setattr(module, "exchanged", lambda question, _: module.exchanged_here(question))


@pytest.fixture
def apart(monkeypatch):
    """As it is in use."""
    monkeypatch.setattr(module, "exchanged", EXCHANGED)


@pytest.fixture
def service():
    with Service() as running:
        yield running


def feed(timestamp):
    """The smallest message that decodes."""
    message = gtfs_realtime_pb2.FeedMessage()
    message.header.gtfs_realtime_version = "2.0"
    message.header.timestamp = timestamp
    return message.SerializeToString()


ONE, TWO = feed(1), feed(2)


def breaks_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half")


def outcomes(service, *answers):
    service.answers = list(answers)
    poller = Poller(service.url, 15)
    return poller, [poller.poll() for _ in answers]


def test_a_message_is_new_once_and_the_same_bytes_again_are_unchanged(service):
    _, results = outcomes(service, answer(body=ONE), answer(body=ONE), answer(body=TWO))
    assert results == [("new", ONE), ("unchanged", b""), ("new", TWO)]


def test_it_asks_only_for_what_is_newer_than_what_it_has(service):
    dated = {"ETag": '"7"', "Last_Modified": "Sun, 22 Nov 2026 00:00:00 GMT"}
    _, results = outcomes(service, answer(body=ONE, **dated), answer(304))
    assert [outcome for outcome, _ in results] == ["new", "unchanged"]
    assert service.asked[1]["If-None-Match"] == '"7"'
    assert service.asked[1]["If-Modified-Since"] == "Sun, 22 Nov 2026 00:00:00 GMT"


@pytest.mark.parametrize("failure", [answer(500), answer(404), answer(200), breaks_off])
def test_a_failure_keeps_nothing_and_the_next_message_is_still_new(service, failure):
    _, results = outcomes(service, failure, answer(body=ONE))
    assert results == [("failed", b""), ("new", ONE)]


@pytest.mark.usefixtures("apart")
def test_an_exchange_apart_gives_what_one_here_does(service):
    dated = {"ETag": '"7"', "Last_Modified": "Sun, 22 Nov 2026 00:00:00 GMT"}
    service.answers = [answer(body=ONE, **dated)] * 2 + [answer(503, Retry_After="90")] * 2
    for _ in range(2):
        question = module.Question(service.url, {}, 60)
        assert EXCHANGED(question, lambda: False) == module.exchanged_here(question)


@pytest.mark.few(2)
@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_an_exchange_that_has_no_end_is_given_up_at_its_deadline(service, monkeypatch, name):
    monkeypatch.setattr(module, "WHOLE_S", 0.8)
    poller, results = outcomes(service, ENDLESS[name])
    assert (results, poller.reason) == ([("failed", b"")], "not complete after 0.8 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_the_middle_of_an_exchange(service, tmp_path, number):
    service.answers = [ENDLESS["header"]]
    command = [sys.executable, "-m", "pipelines.cli", "collect", "--url", service.url, "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert service.was_asked.wait(60)
        running.send_signal(number)
        output, _ = running.communicate(timeout=30)
    assert (running.returncode, output) == (4, "0 messages kept, 0 unchanged, 0 failures\n")


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (gzip.compress(ONE)[:-5], "gzip", "the answer broke off"),
        (gzip.compress(ONE)[:-8] + bytes(8), "gzip", "the answer is not gzip, though its Content-Encoding says so"),
        (gzip.compress(ONE)[:10] + b"\x07" * 30, "gzip", "the answer is not gzip, though its Content-Encoding says so"),
        (ONE, "gzip", "the answer is not gzip, though its Content-Encoding says so"),
        (gzip.compress(bytes((64 << 20) + 1)), "gzip", "more than 64 MiB"),
        (zlib.compress(ONE), "deflate", "the answer is compressed in another way than gzip"),
        (bytes((64 << 20) + 1), None, "more than 64 MiB"),
    ],
    ids=["cut", "another sum", "nonsense", "plain", "bomb", "deflate", "large"],
)
def test_an_answer_that_lost_its_end_or_is_larger_than_any_feed_is_not_kept(service, body, encoding, reason):
    """Of a message that lost its end some decode, with fewer vehicles."""
    poller, results = outcomes(service, answer(body=body, **({"Content_Encoding": encoding} if encoding else {})))
    assert (results, poller.reason) == ([("failed", b"")], reason)


def test_a_stored_file_of_gzip_is_unpacked_though_nothing_says_so(service):
    assert outcomes(service, answer(body=gzip.compress(ONE)))[1] == [("new", ONE)]


def test_an_address_that_may_hold_a_key_is_not_shown(tmp_path, hatstream):
    code, _, err = hatstream("collect", "--url", "agency.example/feed?key=SECRET", "--output", tmp_path)
    assert (code, "SECRET" in err) == (1, False)


@pytest.mark.parametrize("every", ["inf", "1e10"])
def test_a_wait_that_no_clock_can_wait_for_is_refused_at_once(hatstream, tmp_path, every):
    code, _, err = hatstream("collect", "--url", "http://127.0.0.1:1/", "--output", tmp_path, "--every", every)
    assert (code, "1<=x<=86400" in err) == (1, True), err


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><title>maintenance</title>", b"{}", ONE[:-1], b"\x00"])
def test_what_is_no_feed_is_not_kept_whatever_the_status_says(service, hatstream, tmp_path, body):
    service.answers = [answer(body=body)]
    code, _, err = hatstream("collect", "--url", service.url, "--output", tmp_path, "--for", "0.1", "--every", "1")
    assert (code, list(tmp_path.iterdir())) == (4, [])
    assert "the answer is not a GTFS-realtime message" in err


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.2:{port}/", "https://127.0.0.1:{port}/", "http://localhost:{port}/", "http://127.0.0.1:1/",
     "http://169.254.169.254/latest", "file:///etc/passwd", "//elsewhere.example/"],
)  # fmt: skip
def test_a_redirect_that_leaves_scheme_host_or_port_is_refused(service, location):
    poller, results = outcomes(service, redirect(location))
    assert results == [("failed", b"")]
    assert poller.reason.startswith("redirects to another scheme, host or port")


def test_a_secret_header_goes_nowhere_else(service):
    with Service() as stranger:
        stranger.answers = [answer(body=ONE)]
        service.answers = [redirect(stranger.url)]
        assert Poller(service.url, 15, {"X-Api-Key": "s3cret"}).poll() == ("failed", b"")
        assert stranger.asked == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/feed?key=s3cret", "no connection"),
        ("http://[::1/feed?key=s3cret", "the address or the answer is not HTTP"),
    ],
)
def test_a_failure_is_told_in_words_that_do_not_show_the_address(url, reason):
    poller = Poller(url, 15)
    poller.poll()
    assert poller.reason.startswith(reason)
    assert "s3cret" not in poller.reason


def test_waits_double_with_each_failure_in_a_row_and_end_with_a_success(service):
    service.answers = [answer(500), answer(500), answer(500), answer(body=ONE)]
    poller, waits = Poller(service.url, 15), []
    for _ in range(4):
        poller.poll()
        waits.append(poller.wait_s())
    assert waits == [30, 60, 120, 15]


def test_a_service_s_key_is_sent_and_never_shown(service, hatstream, tmp_path):
    service.answers = [answer(403)]
    options = ["--header", "X-Api-Key: s3cret", "--for", "0.1", "--every", "1"]
    code, out, err = hatstream("collect", "--url", service.url, "--output", tmp_path, *options)
    assert code == 4
    assert service.asked[0]["X-Api-Key"] == "s3cret"
    assert "s3cret" not in out + err
    assert "HTTP 403" in err


def test_each_new_message_is_one_file_whose_name_sorts_by_time(service, hatstream, tmp_path):
    service.answers = [answer(body=ONE), answer(body=ONE), answer(body=TWO)]
    code, out, _ = hatstream("collect", "--url", service.url, "--output", tmp_path, "--for", "2.5", "--every", "1")
    assert code == 0
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*.pb"))] == [ONE, TWO]
    assert out.startswith("2 messages kept, ")
    assert out.endswith(" unchanged, 0 failures\n")


@pytest.mark.parametrize(
    "options",
    [("--url", "ftp://a/b", "--output", "out"), ("--url", "http://127.0.0.1/"), ("--url", "http://a", "--kafka", "x")],
)
def test_wrong_options_are_refused(hatstream, options):
    assert hatstream("collect", *options)[0] == 1


def test_a_message_waits_while_this_side_does_not_take_it(monkeypatch, capsys):
    """As where a disk is full, or brokers are away: it is kept then, once, and nothing else is asked meanwhile."""
    monkeypatch.setattr(command, "FIRST_WAIT_S", 0.01)
    faults = [OSError(errno.ENOSPC, "No space left on device", "feed/a.pb"), InputError("topic a: no broker")] * 2
    bodies = []

    def keep(message):
        if faults:
            raise faults.pop()
        bodies.append(message)

    command._store(keep, ONE, threading.Event(), float("inf"))
    assert bodies == [ONE]
    output = capsys.readouterr().err
    assert output.count("the message waits; next attempt") == 4
    assert "feed/a.pb: No space left on device; " in output


def test_a_message_that_cannot_be_kept_until_the_end_is_told_as_lost(capsys):
    stop = threading.Event()
    stop.set()

    def full(_message):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        command._store(full, ONE, stop, float("inf"))
    assert capsys.readouterr().err == ""
