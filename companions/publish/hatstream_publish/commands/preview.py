"""`hatstream preview`: serves a published folder on this machine."""

from __future__ import annotations

import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click

from hatstream.api import InputError, asked_to_stop, option
from hatstream_publish.commands.answer import answer
from hatstream_publish.edition.writing import refuse_secrets

HOST = "127.0.0.1"


class _Files(SimpleHTTPRequestHandler):
    """Serves regular files of the folder: no hidden ones, outward links or lists."""

    def send_head(self) -> Any:
        """Answers with a file inside the folder; hidden and outside ones are 404."""
        root, path = Path(self.directory).resolve(), Path(self.translate_path(self.path))
        path = path / "index.html" if os.path.isdir(path) else path  # False of names too long for a file system, too
        is_hidden = any(part.startswith(".") for part in path.parts[len(Path(self.directory).parts) :])
        if is_hidden or not os.path.isfile(path) or not path.resolve().is_relative_to(root):
            self.send_error(404)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Suppresses logs, which would show readers' requests."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65_535), help="Port; 0: any free one.")
@option("json")
def preview(folder: Path, port: int, as_json: bool) -> int:
    """Show a published folder on this machine, until it is stopped.

    For looking only: it is Python's own server, on the loopback address, without TLS, ranges or limits. The public is
    served by a web server or an object store (deploy/site).

    \b
    Example:
      hatstream preview public
    """
    refuse_secrets(folder)  # ledgers and keys
    try:
        server = ThreadingHTTPServer((HOST, port), partial(_Files, directory=str(folder.absolute())))
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"{HOST}:{port} cannot be listened on ({why}): is it taken?") from None
    server.daemon_threads = True
    address = f"http://{HOST}:{server.server_address[1]}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with asked_to_stop() as stop:
        answer(as_json, {"address": address, "folder": str(folder)}, f"{address} for looking only; Ctrl-C ends it")
        stop.wait()
    server.shutdown()
    return 0
