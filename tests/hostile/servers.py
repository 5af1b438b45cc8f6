"""Servers that do what none should: they drip, hang, redirect, lie, and never end. All of them on 127.0.0.1."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EVERY_S = 0.2


class Service:
    """`with Service() as service:` answers what it is told to, in turn; the last answer again and again.

    answers: functions of the request's handler. asked: the headers of each request; methods: GET or PATCH.
    """

    def __init__(self):
        self.answers, self.asked, self.methods = [], [], []
        self.was_asked, self.ended = threading.Event(), threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                service.asked.append(dict(self.headers))
                service.methods.append(self.command)
                service.was_asked.set()
                self.ended = service.ended
                chosen = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
                try:
                    chosen(self)
                except OSError:  # nobody listens any more
                    self.close_connection = True

            do_PATCH = do_GET

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/feed.pb"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()


def answer(status=200, body=b"", missing=0, **headers):
    """missing: bytes that are announced, and never sent."""

    def send(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body) + missing))
        handler.end_headers()
        handler.wfile.write(body)

    return send


def redirect(location, status=302):
    """{port} in the location is the server's own."""

    def send(handler):
        answer(status, Location=location.format(port=handler.server.server_port))(handler)

    return send


def dripping(first, piece):
    """Sends `first`, and then `piece` again and again for as long as somebody listens."""

    def send(handler):
        handler.wfile.write(first)
        while not handler.ended.wait(EVERY_S):
            handler.wfile.write(piece)
            handler.wfile.flush()
        handler.close_connection = True

    return send


def silent(handler):
    handler.ended.wait()
    handler.close_connection = True


OK = b"HTTP/1.1 200 OK\r\n"
ENDLESS = {
    "body": dripping(OK + b"Content-Length: 1000000\r\n\r\n", b"x"),
    "chunks": dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "chunk-size": dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "header": dripping(OK + b"X-Long: ", b"x"),
    "status": dripping(b"HTTP/1.1 200 ", b"O"),
    "continue": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "until-closed": dripping(OK + b"\r\n", b"x"),
    "silent": silent,
}
"""Answers that never end, by what of them drips."""
