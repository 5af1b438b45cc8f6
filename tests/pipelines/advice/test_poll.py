"""Polling an address: a local server that fails, repeats, stalls, and asks for patience."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipelines.advice.collect import poll as module
from pipelines.advice.collect.poll import Poller


class Service:
    """Answers what it is told to, in turn; the last answer again and again. An answer: status, headers, body."""

    def __init__(self):
        self.answers, self.asked = [], []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                service.asked.append(dict(self.headers))
                answer = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
                answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/feed.pb"


@pytest.fixture
def service():
    found = Service()
    yield found
    found.server.shutdown()
    found.server.server_close()


def answer(status=200, body=b"", **headers):
    def send(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return send


def stalls(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.wfile.flush()
    threading.Event().wait(2)


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
    _, found = outcomes(service, answer(body=b"one"), answer(body=b"one"), answer(body=b"two"))
    assert found == [("new", b"one"), ("unchanged", b""), ("new", b"two")]


def test_it_asks_only_for_what_is_newer_than_what_it_has(service):
    dated = {"ETag": '"7"', "Last_Modified": "Sun, 22 Nov 2026 00:00:00 GMT"}
    _, found = outcomes(service, answer(body=b"one", **dated), answer(304))
    assert [outcome for outcome, _ in found] == ["new", "unchanged"]
    assert service.asked[1]["If-None-Match"] == '"7"'
    assert service.asked[1]["If-Modified-Since"] == "Sun, 22 Nov 2026 00:00:00 GMT"


@pytest.mark.parametrize("failure", [answer(500), answer(404), answer(200), breaks_off])
def test_a_failure_keeps_nothing_and_the_next_message_is_still_new(service, failure):
    _, found = outcomes(service, failure, answer(body=b"one"))
    assert found == [("failed", b""), ("new", b"one")]


def test_an_answer_that_stalls_is_given_up(service, monkeypatch):
    monkeypatch.setattr(module, "READ_S", 0.2)
    poller, found = outcomes(service, stalls)
    assert found == [("failed", b"")]
    assert poller.reason


def test_an_answer_that_drips_for_ever_is_given_up(service, monkeypatch):
    monkeypatch.setattr(module, "WHOLE_S", -1.0)
    poller, _ = outcomes(service, answer(body=b"one"))
    assert "not complete" in poller.reason


def test_an_answer_larger_than_any_feed_is_given_up(service, monkeypatch):
    monkeypatch.setattr(module, "FEED_BYTES", 2)
    _, found = outcomes(service, answer(body=b"one"))
    assert found == [("failed", b"")]


def test_waits_double_with_each_failure_in_a_row_and_end_with_a_success(service):
    service.answers = [answer(500), answer(500), answer(500), answer(body=b"one")]
    poller, waits = Poller(service.url, 15), []
    for _ in range(4):
        poller.poll()
        waits.append(poller.wait_s())
    assert waits == [30, 60, 120, 15]


def test_a_service_that_asks_for_patience_gets_it(service):
    poller, _ = outcomes(service, answer(429, Retry_After="90"))
    assert poller.wait_s() == 90


def test_nobody_at_the_address_is_a_failure_like_any_other():
    poller = Poller("http://127.0.0.1:9/feed.pb", 15)
    assert poller.poll() == ("failed", b"")
    assert poller.wait_s() == 30


def test_a_service_s_key_is_sent_and_never_shown(service, hatstream, tmp_path):
    service.answers = [answer(403)]
    code, out, err = hatstream(
        "collect",
        "--url",
        service.url,
        "--output",
        tmp_path,
        "--header",
        "X-Api-Key: s3cret",
        "--for",
        "0.1",
        "--every",
        "1",
    )
    assert code == 4
    assert service.asked[0]["X-Api-Key"] == "s3cret"
    assert "s3cret" not in out + err
    assert "HTTP 403" in err


def test_each_new_message_is_one_file_whose_name_sorts_by_time(service, hatstream, tmp_path):
    service.answers = [answer(body=b"one"), answer(body=b"one"), answer(body=b"two")]
    code, out, _ = hatstream("collect", "--url", service.url, "--output", tmp_path, "--for", "2.5", "--every", "1")
    assert code == 0
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*.pb"))] == [b"one", b"two"]
    assert out == "2 messages kept, 1 unchanged, 0 failures\n"


@pytest.mark.parametrize(
    "options",
    [("--url", "ftp://a/b", "--output", "out"), ("--url", "http://127.0.0.1/"), ("--url", "http://a", "--kafka", "x")],
)
def test_wrong_options_are_refused(hatstream, options):
    assert hatstream("collect", *options)[0] == 1
